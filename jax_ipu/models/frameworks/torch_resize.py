"""PyTorch's interpolation with antialiasing: each output is a weighted mean of the inputs that it covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


def bilinear(
    x: Any,
    size: Sequence[int],
    align_corners: bool,
    scale_height: float | None = None,
    scale_width: float | None = None,
) -> Any:
    """Weights fall linearly with the distance."""
    return _resized(x, size, align_corners, (scale_height, scale_width), 1, _triangle)


def bicubic(
    x: Any,
    size: Sequence[int],
    align_corners: bool,
    scale_height: float | None = None,
    scale_width: float | None = None,
) -> Any:
    """Weights follow a cubic filter."""
    return _resized(x, size, align_corners, (scale_height, scale_width), 2, _cubic)


def _resized(
    x: Any,
    size: Sequence[int],
    align_corners: bool,
    scales: tuple[float | None, float | None],
    reach: int,
    filter_of: Callable[[Any], Any],
) -> Any:
    kind = np.dtype(jnp.promote_types(x.dtype, jnp.float32))
    result = x.astype(kind)
    for axis, to, scale in zip((-2, -1), size, scales, strict=True):
        weights = _weights(x.shape[axis], to, _step(x.shape[axis], to, align_corners, scale), reach, filter_of, kind)
        rows = jnp.matmul(jnp.moveaxis(result, axis, -1), weights.T, precision=lax.Precision.HIGHEST)
        result = jnp.moveaxis(rows, -1, axis)
    return result.astype(x.dtype)


def _step(size: int, to: int, align_corners: bool, scale: float | None) -> float:
    """How many inputs lie between two outputs."""
    if align_corners:
        return (size - 1) / (to - 1) if to > 1 else 0.0
    return 1 / scale if scale else size / to


def _weights(
    size: int, to: int, step: float, reach: int, filter_of: Callable[[Any], Any], kind: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """The weight of each input (columns) for each output (rows), computed in the type that PyTorch computes in."""
    step = kind.type(step)
    widening = np.maximum(step, kind.type(1))
    support = reach * widening
    centers = step * (np.arange(to, dtype=kind) + kind.type(0.5))
    first = np.maximum((centers - support + kind.type(0.5)).astype(np.int64), 0)
    last = np.minimum((centers + support + kind.type(0.5)).astype(np.int64), size)
    inputs = np.arange(size)
    values = filter_of((inputs - centers[:, None] + kind.type(0.5)) / widening)
    values = np.where((inputs >= first[:, None]) & (inputs < last[:, None]), values, 0)
    sums = values.sum(1, keepdims=True)
    return (values / np.where(sums == 0, 1, sums)).astype(kind)


def _triangle(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Any) -> Any:
    """Keys' filter with a = -0.5."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))
