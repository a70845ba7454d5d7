"""PyTorch's norms and distances of vectors: where one is zero, its gradient is zero too, not a division of zeros."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from torchax.ops import mappings

from jax_ipu.models.frameworks.torch_kinks import absolute


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """torch.linalg.vector_norm."""
    if dtype is not None:
        x = x.astype(mappings.t2j_dtype(dtype))
    axes = (tuple(dim) or None) if isinstance(dim, (list, tuple)) else dim
    if x.ndim == 0:
        return vector_norm(x[None], ord, None, False)
    return _norm(x, ord, axes, keepdim)


def distance(x: Any, y: Any, p: float = 2) -> Any:
    """Of two tensors as vectors."""
    return vector_norm(x - y, p)


def distances(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Of each row of x to each row of y."""
    return _norm(x[..., :, None, :] - y[..., None, :, :], p, -1, False)


def euclidean_distances(x: Any, y: Any) -> Any:
    """By a product, for many rows."""
    product = jnp.matmul(x, jnp.swapaxes(y, -1, -2))
    squares = jnp.sum(x * x, -1)[..., :, None] + jnp.sum(y * y, -1)[..., None, :]
    return _root(jnp.maximum(squares - 2 * product, 0), 2)


def deviation(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """torch.std: where all elements are equal, it has the gradient zero."""
    axes = (tuple(dim) or None) if isinstance(dim, (list, tuple)) else dim
    variance = jnp.var(x, None if x.ndim == 0 else axes, ddof=1 if correction is None else correction, keepdims=keepdim)
    return _root(variance, 2)


def deviation_and_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """torch.std_mean."""
    axes = (tuple(dim) or None) if isinstance(dim, (list, tuple)) else dim
    mean = jnp.mean(x, None if x.ndim == 0 else axes, keepdims=keepdim)
    return deviation(x, dim, correction=correction, keepdim=keepdim), mean


def distances_of_pairs(x: Any, p: float = 2) -> Any:
    """Of each row to each later one."""
    first, second = np.triu_indices(x.shape[0], k=1)
    return _norm(x[first] - x[second], p, -1, False)


def group_norm(
    x: Any, weight: Any, bias: Any, rows: int, channels: int, size: int, groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """The elements [rows, channels, ...] of each group of channels with mean 0 and variance 1; means and factors."""
    parts = x.reshape(rows, groups, channels // groups * size)
    mean = jnp.mean(parts, -1, keepdims=True)
    factor = lax.rsqrt(jnp.var(parts, -1, keepdims=True) + eps)
    result = ((parts - mean) * factor).reshape(x.shape)
    along = (channels, *(1,) * (x.ndim - 2))
    if weight is not None:
        result = result * weight.reshape(along)
    if bias is not None:
        result = result + bias.reshape(along)
    return result, mean[..., 0], factor[..., 0]


def _norm(x: Any, ord: float, axes: Any, keepdim: bool) -> Any:
    sizes = absolute(x)
    if ord == 0:
        # Counted in a type of at least 32 bits.
        counts = jnp.sum(sizes != 0, axis=axes, keepdims=keepdim, dtype=jnp.promote_types(sizes.dtype, jnp.float32))
        return counts.astype(sizes.dtype)
    if ord in (np.inf, -np.inf):
        return (jnp.max if ord > 0 else jnp.min)(sizes, axis=axes, keepdims=keepdim)
    if ord == 1:
        return jnp.sum(sizes, axis=axes, keepdims=keepdim)
    if 0 < ord < 1:  # the slope of a power is infinite at zero
        powers = jnp.where(sizes == 0, 0, jnp.power(jnp.where(sizes == 0, 1, sizes), ord))
    else:
        powers = jnp.square(sizes) if ord == 2 else jnp.power(sizes, ord)
    return _root(jnp.sum(powers, axis=axes, keepdims=keepdim), ord)


def _root(sums: Any, ord: float) -> Any:
    is_zero = sums == 0
    safe = jnp.where(is_zero, jnp.ones_like(sums), sums)
    root = jnp.sqrt(safe) if ord == 2 else jnp.power(safe, 1 / ord)
    at_zero = 0 if ord > 0 else np.inf
    return jnp.where(is_zero, jnp.full_like(root, at_zero), root)
