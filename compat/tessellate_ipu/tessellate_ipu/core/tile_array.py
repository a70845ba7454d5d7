"""Slices of arrays on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax_ipu.tile.array import check_key


def check_tile_array_multi_slice(slices: tuple[Any, ...], shape: Sequence[int]) -> bool:
    """True for slices of an array (tiles, ...) that leave each part in one piece. Raises ValueError for others."""
    check_key(slices, tuple(shape))
    return True
