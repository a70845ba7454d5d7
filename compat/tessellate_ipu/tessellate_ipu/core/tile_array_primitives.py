"""Puts arrays on tiles, and returns plain JAX arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jax_ipu.tile import tile_put_replicated, tile_put_sharded


def tile_put_sharded_prim(array: Any, tiles: Sequence[int]) -> Any:
    """The array with part [i] on tiles[i]; an array that is not traced is given back.

    Raises:
        AssertionError: there are other parts than tiles.
    """
    if array.shape[0] != len(tiles):
        raise AssertionError(f"an array of the shape {array.shape} has not one part for each of {len(tiles)} tiles")
    return tile_put_sharded(array, tiles).array if isinstance(array, jax.core.Tracer) else array


def tile_put_replicated_prim(array: Any, tiles: Sequence[int]) -> Any:
    """All of the array on each tile, with the shape (tiles, ...)."""
    if isinstance(array, jax.core.Tracer):
        return tile_put_replicated(array, tiles).array
    return np.broadcast_to(array, (len(tiles), *np.shape(array)))
