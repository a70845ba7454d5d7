"""The operators of ONNX on quantised integers. Products of integers are summed in int32, as ONNX defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.models.frameworks.onnx_layers import convolution
from jax_ipu.models.frameworks.onnx_table import Call, operator

# NumPy's does not know the integers of 4 bits.
_limits: Callable[[Any], Any] = jnp.iinfo


def _along(call: Call, parameter: Any, x: Any) -> Any:
    """A scale or zero point in a form that broadcasts with x: one for all, for each index of an axis, or by blocks."""
    parameter = jnp.asarray(parameter)
    if parameter.size == 1:
        return parameter.reshape(())
    axis = call.attributes.get("axis", 1) % x.ndim
    block = call.attributes.get("block_size", 0)
    if block:
        return jnp.repeat(parameter, block, axis)[tuple(slice(size) for size in x.shape)]
    return parameter.reshape(-1, *[1] * (x.ndim - 1 - axis))


def _saturated(values: Any, zero: Any, dtype: Any) -> Any:
    """Rounded to the nearest even integers, moved by the zero point, and limited to what the type holds."""
    if not jnp.issubdtype(dtype, jnp.integer):
        raise NotImplementedError(f"it quantises to {np.dtype(dtype).name}, and only integers are implemented")
    limits = _limits(dtype)
    moved = jnp.round(values) if zero is None else jnp.round(values) + zero.astype(values.dtype)
    return jnp.clip(moved, int(limits.min), int(limits.max)).astype(dtype)


def _shifted(x: Any, zero: Any) -> Any:
    """An integer array as int32, less its zero point."""
    wide = jnp.asarray(x).astype(jnp.int32)
    return wide if zero is None else wide - jnp.asarray(zero).astype(jnp.int32)


def _of_rows(parameter: Any, x: Any) -> Any:
    """A parameter of a matrix, one for all or one for each row, in a form that broadcasts with it."""
    parameter = jnp.asarray(parameter)
    return parameter[:, None] if parameter.ndim == 1 and parameter.size == x.shape[-2] > 1 else parameter


@operator("QuantizeLinear", 10)
def _quantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    chosen = call.attributes.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else call.types(chosen) if chosen else np.dtype(np.uint8)
    x = jnp.asarray(x)
    scaled = x.astype(jnp.float32) / _along(call, scale, x).astype(jnp.float32)
    return _saturated(scaled, None if zero is None else _along(call, zero, x), dtype)


@operator("DequantizeLinear", 10)
def _dequantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise NotImplementedError(f"its input is {np.dtype(x.dtype).name}, and only integers are implemented")
    chosen = call.attributes.get("output_dtype", 0)
    dtype = jax.dtypes.canonicalize_dtype(call.types(chosen)) if chosen else scale.dtype
    shifted = _shifted(x, None if zero is None else _along(call, zero, x))
    return (shifted.astype(jnp.float32) * _along(call, scale, x).astype(jnp.float32)).astype(dtype)


@operator("MatMulInteger", 10)
def _matmul_integer(call: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    a_zero = None if a_zero is None else _of_rows(a_zero, a)
    return jnp.matmul(_shifted(a, a_zero), _shifted(b, b_zero))


@operator("QLinearMatMul", 10)
def _quantised_matmul(
    call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any
) -> Any:
    total = _matmul_integer(call, a, b, a_zero, b_zero)
    factor = _of_rows(a_scale, a).astype(jnp.float32) * jnp.asarray(b_scale).astype(jnp.float32)
    scaled = total.astype(jnp.float32) * (factor / _of_rows(scale, total).astype(jnp.float32))
    return _saturated(scaled, _of_rows(zero, total), zero.dtype)


@operator("ConvInteger", 10)
def _conv_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    by_channel = None if w_zero is None else jnp.reshape(w_zero, (-1, *[1] * (w.ndim - 1)))
    return convolution(call, _shifted(x, x_zero), _shifted(w, by_channel))


@operator("QLinearConv", 10)
def _quantised_conv(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    scale: Any,
    zero: Any,
    bias: Any = None,
) -> Any:
    total = _conv_integer(call, x, w, x_zero, w_zero)
    channels = (-1, *[1] * (w.ndim - 2))
    if bias is not None:
        total += jnp.reshape(bias, channels)
    factor = jnp.reshape(x_scale, ()).astype(jnp.float32) * jnp.reshape(w_scale, channels).astype(jnp.float32)
    scaled = total.astype(jnp.float32) * (factor / jnp.reshape(scale, ()).astype(jnp.float32))
    return _saturated(scaled, jnp.reshape(zero, ()), zero.dtype)
