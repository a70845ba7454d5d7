"""PyTorch's lookups in tables: rows, and sums, means and maxima of bags of rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jax_ipu.models.frameworks import torch_norms

_SUM, _MEAN, _MAX = range(3)  # aten's numbers of the modes of a bag


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """Rows of a table; `sparse` says how PyTorch holds the gradient."""
    rows = _rows(weight, indices, scale_grad_by_freq)
    if padding_idx < 0:
        return rows
    # In PyTorch the row of padding_idx gets no gradient.
    return jnp.where((indices == padding_idx)[..., None], lax.stop_gradient(rows), rows)


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, None, None, None]:
    """Rows of a table, combined by bags, each of which begins at an offset in `indices`.

    The further results are what PyTorch keeps for the backward pass.
    """
    count, bags = indices.shape[0], offsets.shape[0] - include_last_offset
    # The last offset begins a bag that is none: what lies behind it belongs nowhere.
    begins = jnp.zeros(count, jnp.int32).at[offsets].add(1)
    bag = jnp.cumsum(begins, dtype=jnp.int32) - 1
    kept = jnp.ones(count, jnp.bool_) if padding_idx < 0 else indices != padding_idx
    rows = _rows(weight, indices, False)
    if scale_grad_by_freq:
        rows = _without_gradient(rows)
    if mode == _MAX:
        return _largest(rows, kept, bag, bags), None, None, None
    rows = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    result = _sums(jnp.where(kept[:, None], rows, 0), bag, bags)
    if mode == _MEAN:
        sizes = _sums(kept.astype(rows.dtype), bag, bags)
        result = result / jnp.maximum(sizes, 1)[:, None]
    return result.astype(weight.dtype), None, None, None


def renormed(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """A table of which the rows that are looked up have at most this norm."""
    norms = torch_norms.vector_norm(weight, norm_type, (1,), True)
    is_read = jnp.zeros((weight.shape[0], 1), jnp.bool_).at[indices.reshape(-1)].set(True)
    return jnp.where(is_read & (norms > max_norm), weight * (max_norm / (norms + 1e-7)), weight)


def _rows(weight: Any, indices: Any, scale_grad_by_freq: bool) -> Any:
    rows = jnp.take(weight, indices, axis=0)
    if not scale_grad_by_freq:
        return rows
    times = jnp.zeros(weight.shape[0], rows.dtype).at[indices].add(1)
    return _with_gradient_scaled(rows, (1 / times[indices])[..., None])


@jax.custom_vjp
def _with_gradient_scaled(x: Any, scale: Any) -> Any:
    """Returns x; its gradient is multiplied by `scale`."""
    return x


_with_gradient_scaled.defvjp(
    lambda x, scale: (x, scale), lambda scale, gradient: (gradient * scale, jnp.zeros_like(scale))
)


@jax.custom_vjp
def _without_gradient(x: Any) -> Any:
    """Returns x, and cannot be trained."""
    return x


def _refused(residual: None, gradient: Any) -> Any:
    raise NotImplementedError("the gradient of an EmbeddingBag with scale_grad_by_freq: leave that setting out")


_without_gradient.defvjp(lambda x: (x, None), _refused)


def _sums(values: Any, bag: Any, bags: int) -> Any:
    return jax.ops.segment_sum(values, bag, bags, indices_are_sorted=True)


def _largest(rows: Any, kept: Any, bag: Any, bags: int) -> Any:
    """The largest element of each bag and column, zero where a bag is empty; the first of equals has the gradient."""
    count = rows.shape[0]
    values = lax.stop_gradient(jnp.where(kept[:, None], rows, -jnp.inf))
    largest = jax.ops.segment_max(values, bag, bags, indices_are_sorted=True)
    is_largest = kept[:, None] & ~(values < jnp.take(largest, bag, axis=0, mode="clip"))
    positions = jnp.where(is_largest, jnp.arange(count, dtype=jnp.int32)[:, None], count)
    first = jax.ops.segment_min(positions, bag, bags, indices_are_sorted=True)
    found = first < count
    return jnp.where(found, jnp.take_along_axis(rows, jnp.where(found, first, 0), axis=0), 0)
