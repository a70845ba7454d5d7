"""PyTorch's maxima of windows of any form, and the places of maxima in a larger array."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# For each of the last dimensions, the positions that each window has of it, and which of them are there.
_Windows = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def adaptive_max_pool(x: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """The maxima of so many windows of about equal size along the last dimensions, and where each is."""
    windows: _Windows = []
    for size, count in zip(x.shape[x.ndim - len(output_size) :], output_size, strict=True):
        starts = [i * size // count for i in range(count)]
        ends = [-(-(i + 1) * size // count) for i in range(count)]
        widest = max((end - start for start, end in zip(starts, ends, strict=True)), default=1)
        positions = np.array(starts, np.int64).reshape(count, 1) + np.arange(widest)
        there = positions < np.array(ends, np.int64).reshape(count, 1)
        windows.append((np.minimum(positions, size - 1), there))
    return _largest(x, windows)


def max_pool(
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    general: Callable[..., Any],
    space: int,
) -> tuple[Any, Any]:
    """Windows with gaps between their elements, for which JAX has no gradient, are gathered."""
    kernel, stride, padding, dilation = (
        tuple(value) * (space if len(value) == 1 else 1) for value in (kernel, stride or kernel, padding, dilation)
    )
    if all(gap == 1 for gap in dilation):
        result: tuple[Any, Any] = general(x, list(kernel), list(stride), list(padding), list(dilation), ceil_mode)
        return result
    windows: _Windows = []
    sizes = x.shape[x.ndim - space :]
    for size, k, step, before, gap in zip(sizes, kernel, stride, padding, dilation, strict=True):
        left = size + 2 * before - gap * (k - 1) - 1
        count = (-(-left // step) if ceil_mode else left // step) + 1
        if ceil_mode and (count - 1) * step >= size + before:  # the last window must not start in the padding after
            count -= 1
        positions = np.arange(count)[:, None] * step - before + np.arange(k) * gap
        windows.append((np.clip(positions, 0, size - 1), (positions >= 0) & (positions < size)))
    return _largest(x, windows)


max_pool_2d = functools.partial(max_pool, space=2)
max_pool_3d = functools.partial(max_pool, space=3)


def _largest(x: Any, windows: _Windows) -> tuple[Any, Any]:
    """The maximum of each window, and its place among the elements of the last dimensions, row by row."""
    space = len(windows)
    outer, sizes = x.shape[: x.ndim - space], x.shape[x.ndim - space :]
    counts = [positions.shape[0] for positions, _ in windows]
    widths = [positions.shape[1] for positions, _ in windows]
    # [count of each dimension..., width of each dimension...]
    place, there = np.zeros((1,) * 2 * space, np.int64), np.ones((1,) * 2 * space, bool)
    for dim, (positions, known) in enumerate(windows):
        shape = [1] * 2 * space
        shape[dim], shape[space + dim] = positions.shape
        place = place * sizes[dim] + positions.reshape(shape)
        there = there & known.reshape(shape)
    place = np.broadcast_to(place, (*counts, *widths)).reshape(math.prod(counts), math.prod(widths))
    there = np.broadcast_to(there, (*counts, *widths)).reshape(place.shape)
    flat = x.reshape(*outer, math.prod(sizes))
    least = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    seen = jnp.where(there, jax.lax.stop_gradient(flat)[..., place], jnp.asarray(least, x.dtype))
    best = jnp.argmax(seen, -1)
    found = jnp.asarray(place)[jnp.arange(place.shape[0]), best]
    values = jnp.take_along_axis(flat, found, -1)
    return values.reshape(*outer, *counts), found.reshape(*outer, *counts)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _placed(x: Any, places: Any, size: int) -> Any:
    zeros = jnp.zeros((*x.shape[:-1], size), x.dtype)
    return jnp.put_along_axis(zeros, places, x, axis=-1, inplace=False)


@_placed.defjvp
def _(size: int, primals: Any, tangents: Any) -> Any:
    (x, places), (change, _) = primals, tangents
    outer = jnp.meshgrid(*(jnp.arange(n) for n in x.shape[:-1]), indexing="ij", sparse=True)
    at = (*(axis[..., None] for axis in outer), places)
    return _placed(x, places, size), jnp.zeros((*x.shape[:-1], size), x.dtype).at[at].add(change)


def max_unpool(x: Any, places: Any, output_size: Sequence[int], stride: Any = None, padding: Any = None) -> Any:
    """Zeros, and the elements at the places where they were maxima; of several at one place each has the gradient."""
    space = len(output_size)
    outer = x.shape[: x.ndim - space]
    rows = (*outer, math.prod(x.shape[x.ndim - space :]))
    whole = _placed(x.reshape(rows), places.reshape(rows), math.prod(output_size))
    return whole.reshape(*outer, *output_size)
