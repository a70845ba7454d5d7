"""Primitives of `jax.lax` that have vertices, and those of TessellateIPU."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu import tile
from jax_ipu.tile import *  # noqa: F403
from jax_ipu.tile.vertex import translations

# The primitives of jax.lax that have vertices: add_p, bitcast_convert_type_p, gather_p, scatter_add_p...
for _primitive in translations():
    _name = f"{_primitive.name.replace('-', '_')}_p"
    if getattr(lax, _name, None) is _primitive:
        globals()[_name] = _primitive


def fill(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value."""
    return jnp.full(shape, fill_value, dtype)


def tile_sharded_identity(dtype: Any, tiles: Any) -> tile.TileShardedArray:
    """Row i of the identity matrix on tiles[i]."""
    return tile.tile_constant_sharded(np.identity(len(tiles), dtype), tiles)


__all__ = [name for name in globals() if not name.startswith("_")]
