"""PyTorch's sorting, selecting and searching."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def top_k(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """As torchax's, which negates what has no negative; NaN is larger than all numbers."""
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    moved = jnp.moveaxis(x, dim, -1)
    keys = moved
    if not largest and jnp.issubdtype(x.dtype, jnp.integer):
        keys = ~moved
    elif not largest:
        keys = jnp.where(jnp.isnan(moved), -jnp.inf, -moved)
    _, positions = lax.top_k(lax.stop_gradient(keys), k)
    values = jnp.take_along_axis(moved, positions, -1)
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(positions, -1, dim)


def most_frequent(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and where it is last."""
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    values, _ = jax.scipy.stats.mode(x, axis=dim % x.ndim, keepdims=True)
    last = x.shape[dim] - 1 - jnp.argmax(jnp.flip(x == values, dim), axis=dim, keepdims=True)
    return (values, last) if keepdim else (jnp.squeeze(values, dim), jnp.squeeze(last, dim))


def search_sorted(
    ordered: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where elements belong in the ordered rows, each row by itself or all in one."""
    side = side or ("right" if right else "left")
    if sorter is not None:
        ordered = jnp.take_along_axis(ordered, sorter, -1)

    def search(row: Any, values: Any) -> Any:
        return jnp.searchsorted(row, values, side=side)

    if ordered.ndim == 1:
        found = search(ordered, jnp.asarray(x))
    else:
        rows, values = (a.reshape(-1, a.shape[-1]) for a in (ordered, x))
        found = jax.vmap(search)(rows, values).reshape(x.shape)
    return found.astype(jnp.int32)


def positions_of_true(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """As torchax's, which can not be compiled."""
    return jnp.argwhere(x, size=size, fill_value=fill_value)
