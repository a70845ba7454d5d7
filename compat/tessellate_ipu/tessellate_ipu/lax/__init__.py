"""Primitives of `jax.lax` that have vertices, and those of TessellateIPU."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu import tile
from jax_ipu.tile import tile_copy, tile_fill
from jax_ipu.tile.vertex import translations


def _primitives() -> dict[str, Any]:
    """Those of jax.lax that have vertices (add_p, gather_p...), and jax_ipu's own (add_inplace_p, scaled_add_p...)."""
    names = [f"{primitive.name.replace('-', '_')}_p" for primitive in translations()]
    of_lax = {name: getattr(lax, name) for name in names if hasattr(lax, name)}
    return of_lax | {name: getattr(tile, name) for name in tile.__all__ if name.endswith("_p")}


def fill(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value."""
    return jnp.full(shape, fill_value, dtype)


def tile_sharded_identity(dtype: Any, tiles: Any) -> tile.TileShardedArray:
    """Row i of the identity matrix on tiles[i]."""
    return tile.tile_constant_sharded(np.identity(len(tiles), dtype), tiles)


globals().update(_primitives())
__all__ = ["fill", "tile_copy", "tile_fill", "tile_sharded_identity", *_primitives()]
