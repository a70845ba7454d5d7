"""PyTorch's reductions into places, gradients of such reductions, and of places of a maximum."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _places(index: Any, dim: int) -> tuple[Any, ...]:
    """Where an index along `dim` points to."""
    grid = jnp.meshgrid(*(jnp.arange(n) for n in index.shape), indexing="ij", sparse=True)
    return (*grid[:dim], index, *grid[dim + 1 :])


def extreme_of_others(x: Any, dim: int, index: Any, source: Any, *, largest: bool) -> Any:
    """The largest or smallest of what goes to each place of x along `dim`; x where nothing does.

    Elements equal to the result share its gradient. PyTorch counts that of x among them, though it has no part in it.
    """

    @jax.custom_vjp
    def extreme(x: Any, source: Any, index: Any) -> Any:
        at = _places(index, dim)
        start = x.at[at].set(-jnp.inf if largest else jnp.inf)
        return start.at[at].max(source) if largest else start.at[at].min(source)

    def forward(x: Any, source: Any, index: Any) -> Any:
        result = extreme(x, source, index)
        return result, (x, source, index, result)

    def backward(saved: Any, gradient: Any) -> Any:
        x, source, index, result = saved
        at = _places(index, dim)
        chosen = source == result[at]
        share = gradient / (x == result).astype(x.dtype).at[at].add(chosen.astype(x.dtype))
        kept = jnp.ones(x.shape, bool).at[at].set(False)
        return jnp.where(kept, gradient, 0), jnp.where(chosen, share[at], 0), None

    extreme.defvjp(forward, backward)
    return extreme(x, source[tuple(slice(n) for n in index.shape)], index)


def product(x: Any, dim: int, index: Any, source: Any, include_self: bool) -> Any:
    """The product of what goes to each place of x along `dim`, and of x if `include_self`."""
    if x.ndim == 0:
        return product(x[None], 0, index.reshape(-1), source.reshape(-1), include_self)[0]
    source = source[tuple(slice(n) for n in index.shape)]
    return _product(include_self, lambda index: _places(index, dim % x.ndim), x, source, index)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _product(include_self: bool, places: Callable[[Any], Any], x: Any, source: Any, index: Any) -> Any:
    start = x if include_self else x.at[places(index)].set(1)
    return start.at[places(index)].multiply(source)


def _product_forward(include_self: bool, places: Callable[[Any], Any], x: Any, source: Any, index: Any) -> Any:
    result = _product(include_self, places, x, source, index)
    return result, (x, source, index, result)


def _product_backward(include_self: bool, places: Callable[[Any], Any], saved: Any, gradient: Any) -> Any:
    """Each factor has the product of the others, divided out where it is not zero. As in PyTorch, an x of zero has the
    product of what goes there."""
    x, source, index, result = saved
    at = places(index)
    of_x = jnp.where(x == 0, 1, x)
    of_x = gradient * _product(include_self, places, of_x, source, index) / of_x
    if not include_self:
        of_x = of_x.at[at].set(0)
    is_zero = source == 0
    zeros = jnp.zeros(x.shape, jnp.int32).at[at].add(is_zero.astype(jnp.int32))
    only_zero = is_zero & (zeros[at] == 1)
    others = _product(include_self, places, x, jnp.where(only_zero, 1, source), index)
    divided = (gradient * result)[at] / jnp.where(is_zero, 1, source)
    return of_x, jnp.where(only_zero, (gradient * others)[at], divided), None


_product.defvjp(_product_forward, _product_backward)


def reduce_rows(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """torch.index_reduce: combines rows of the source along `dim` with the rows of x that the index names."""
    if x.ndim == 0:
        return reduce_rows(x[None], 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self)[0]
    at = (*(slice(None),) * (dim % x.ndim), index)
    whole = jnp.issubdtype(x.dtype, jnp.integer)
    least, most = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if whole else (-np.inf, np.inf)
    start = x if include_self else x.at[at].set({"prod": 1, "mean": 0, "amax": least, "amin": most}[reduce])
    rows = start.at[at]
    if reduce == "prod":
        by_row = functools.partial(_product, include_self, lambda index: (*at[:-1], index))
        return rows.multiply(source) if whole else by_row(x, source, index)
    if reduce != "mean":
        return rows.max(source) if reduce == "amax" else rows.min(source)
    found = jnp.zeros(x.shape[dim % x.ndim], x.dtype).at[index].add(1)
    count = found + 1 if include_self else jnp.maximum(found, 1)
    count = count.reshape(-1, *(1,) * (x.ndim - 1 - dim % x.ndim))
    return rows.add(source) // count if whole else rows.add(source) / count


def _max_pool_backward(gradient: Any, x: Any, *settings: Any, space: int) -> Any:
    """The gradient of x, whose last `space` dimensions were pooled: the last setting says where each maximum was."""
    outer = x.shape[: x.ndim - space]
    rows = math.prod(outer)
    places = settings[-1].reshape(rows, math.prod(gradient.shape[x.ndim - space :]))
    flat = jnp.zeros((rows, math.prod(x.shape[x.ndim - space :])), x.dtype)
    return flat.at[jnp.arange(rows)[:, None], places].add(gradient.reshape(places.shape)).reshape(x.shape)


max_pool_2d_backward = functools.partial(_max_pool_backward, space=2)
max_pool_3d_backward = functools.partial(_max_pool_backward, space=3)
