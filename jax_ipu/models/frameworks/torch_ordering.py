"""PyTorch's sorting, selecting and searching."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def sort(x: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """The elements in order, and where they were: NaN is the largest, and equal elements keep their order."""
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    dim %= x.ndim
    positions = lax.broadcasted_iota(jnp.int32, x.shape, dim)
    if descending:  # turned around twice, so that equal elements keep their order
        x, positions = jnp.flip(x, dim), jnp.flip(positions, dim)
    values, positions = lax.sort((x, positions), dimension=dim, num_keys=1)
    return (jnp.flip(values, dim), jnp.flip(positions, dim)) if descending else (values, positions)


def stable_sort(x: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """As `sort`, which is always stable, as on PyTorch's CPU."""
    return sort(x, dim, descending)


def top_k(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """As torchax's, which negates what has no negative; NaN is larger than all numbers."""
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    moved = jnp.moveaxis(x, dim, -1)
    # lax.top_k orders by the sign of NaN, and by the sign of zero.
    keys = jnp.where(jnp.isnan(moved), jnp.nan, moved) if jnp.issubdtype(x.dtype, jnp.floating) else moved
    if not largest:
        keys = ~moved if jnp.issubdtype(x.dtype, jnp.integer) else ~_ranks(moved)
    _, positions = lax.top_k(lax.stop_gradient(keys), k)
    values = jnp.take_along_axis(moved, positions, -1)
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(positions, -1, dim)


def kth_value(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The k-th smallest element, and where it is."""
    return _selected(x, lambda places, _: jnp.take(places, jnp.array([k - 1]), -1), dim, keepdim)


def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of two; NaN where any element is."""

    def choose(places: Any, unknown: Any) -> Any:
        middle = jnp.take(places, jnp.array([(places.shape[-1] - 1) // 2]), -1)
        return jnp.where(unknown.any(-1, keepdims=True), jnp.argmax(unknown, -1, keepdims=True), middle)

    return _middle(x, choose, dim, keepdim)


def median_of_numbers(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of two, without NaN; NaN where all elements are."""

    def choose(places: Any, unknown: Any) -> Any:
        numbers = jnp.sum(~unknown, -1, keepdims=True, dtype=jnp.int32)
        return jnp.take_along_axis(places, jnp.maximum(numbers - 1, 0) // 2, -1)

    return _middle(x, choose, dim, keepdim)


def most_frequent(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and where it is last."""

    def choose(places: Any, _: Any) -> Any:
        moved = jnp.take_along_axis(row, places, -1)
        changes = jnp.concatenate([moved[..., 1:] != moved[..., :-1], jnp.ones_like(moved[..., :1], bool)], -1)
        ordinal = lax.broadcasted_iota(jnp.int32, moved.shape, moved.ndim - 1)
        # How many elements equal one, counted to its last: the distance to where the one before it ends.
        ends = lax.cummax(jnp.where(changes, ordinal, -1), axis=moved.ndim - 1)
        before = jnp.concatenate([jnp.full_like(ends[..., :1], -1), ends[..., :-1]], -1)
        longest = jnp.argmax(jnp.where(changes, ordinal - before, 0), -1, keepdims=True)
        return jnp.take_along_axis(places, longest, -1)

    row = jnp.moveaxis(lax.stop_gradient(x), dim, -1) if x.ndim else x
    return _selected(x, choose, dim, keepdim)


def largest(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The largest element and where it is first, which has the gradient."""
    return _extreme(jnp.argmax, x, dim, keepdim)


def smallest(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The smallest element and where it is first, which has the gradient."""
    return _extreme(jnp.argmin, x, dim, keepdim)


def largest_so_far(x: Any, dim: int) -> tuple[Any, Any]:
    """The largest element up to each, and where it is last; from the first NaN on the last NaN."""
    return _so_far(x, dim, lambda new, old: new >= old)


def smallest_so_far(x: Any, dim: int) -> tuple[Any, Any]:
    """The smallest element up to each, and where it is last; from the first NaN on the last NaN."""
    return _so_far(x, dim, lambda new, old: new <= old)


def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Between which boundaries elements are."""
    return search_sorted(boundaries, x, right=right)


def _ranks(x: Any) -> Any:
    """Whole numbers in the order of floats, with NaN above all; zeros of both signs are one."""
    x = jnp.where(jnp.isnan(x), jnp.nan, jnp.where(x == 0, 0, x)).astype(x.dtype)
    bits = lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _selected(x: Any, choose: Callable[[Any, Any], Any], dim: int, keepdim: bool) -> tuple[Any, Any]:
    """One element of each row, with the gradient, and where it is.

    `choose` gets the places of the ordered elements and which elements of the row are NaN, and gives the place.
    """
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    row = jnp.moveaxis(x, dim, -1)
    _, places = sort(lax.stop_gradient(row))
    place = choose(places, row != row)
    values = jnp.take_along_axis(row, place, -1)
    found = jnp.moveaxis(values, -1, dim), jnp.moveaxis(place, -1, dim)
    return found if keepdim else (jnp.squeeze(found[0], dim), jnp.squeeze(found[1], dim))


def _middle(x: Any, choose: Callable[[Any, Any], Any], dim: int | None, keepdim: bool) -> Any:
    if dim is not None:
        return _selected(x, choose, dim, keepdim)
    value = lax.stop_gradient(_selected(x.reshape(-1), choose, -1, False)[0])
    # All elements that equal it share its gradient.
    return jnp.where(value != value, value, jnp.max(x, where=x <= value, initial=_lowest(x.dtype)))


def _extreme(place_of: Callable[..., Any], x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)
    place = place_of(lax.stop_gradient(x), axis=dim, keepdims=True)
    values = jnp.take_along_axis(x, place, dim)
    return (values, place) if keepdim else (jnp.squeeze(values, dim), jnp.squeeze(place, dim))


def _so_far(x: Any, dim: int, replaces: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int32)

    def later(old: Any, new: Any) -> Any:
        is_new = (new[0] != new[0]) | ((old[0] == old[0]) & replaces(new[0], old[0]))
        return jnp.where(is_new, new[0], old[0]), jnp.where(is_new, new[1], old[1])

    dim %= x.ndim
    positions = lax.broadcasted_iota(jnp.int32, x.shape, dim)
    _, places = lax.associative_scan(later, (lax.stop_gradient(x), positions), axis=dim)
    return jnp.take_along_axis(x, places, dim), places


def _lowest(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.inexact) else np.iinfo(dtype).min


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
        rows, values = (a.reshape(math.prod(a.shape[:-1]), a.shape[-1]) for a in (ordered, x))
        found = jax.vmap(search)(rows, values).reshape(x.shape)
    return found.astype(jnp.int32)


def positions_of_true(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """As torchax's, which can not be compiled; JAX fills with 0 what it finds in no elements."""
    if not x.size:
        return jnp.full((size, x.ndim), fill_value)
    return jnp.argwhere(x, size=size, fill_value=fill_value)
