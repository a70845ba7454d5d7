"""ONNX operators for products, convolutions, pooling and normalisation."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu.models.frameworks.onnx_table import Call, lowest, operator

# Products -------------------------------------------------------------------------------------------------------------


@operator("MatMul")
def _matmul(call: Call, x: Any, y: Any) -> Any:
    return jnp.matmul(x, y)


@operator("Gemm", 7)
def _gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    a = a.T if call.attributes.get("transA", 0) else a
    b = b.T if call.attributes.get("transB", 0) else b
    alpha, beta = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0)
    product = jnp.matmul(a, b)
    product = product if alpha == 1 else (alpha * product).astype(product.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (beta * c).astype(c.dtype))


@operator("Einsum")
def _einsum(call: Call, *inputs: Any) -> Any:
    return jnp.einsum(call.attributes["equation"].replace(" ", ""), *inputs)


def _windows(call: Call, size: Sequence[int], kernel: Sequence[int], input_dilation: bool = False) -> Any:
    """Returns strides, dilations and (before, after) padding of the spatial dimensions."""
    rank = len(size)
    strides = tuple(call.attributes.get("strides", (1,) * rank))
    dilations = tuple(call.attributes.get("dilations", (1,) * rank))
    mode = call.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and not input_dilation:
        pads = []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            less = total // 2
            pads.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
        return strides, dilations, pads
    flat = (0,) * (2 * rank) if mode == "VALID" else call.attributes.get("pads", (0,) * (2 * rank))
    return strides, dilations, list(zip(flat[:rank], flat[rank:], strict=True))


def _dimensions(rank: int, weights: str = "OI") -> Any:
    space = string.ascii_lowercase[:rank]
    return ("NC" + space, weights + space, "NC" + space)


def convolution(call: Call, x: Any, w: Any) -> Any:
    """The convolution that a node's attributes describe, without a bias."""
    strides, dilations, pads = _windows(call, x.shape[2:], w.shape[2:])
    return lax.conv_general_dilated(
        x,
        w,
        strides,
        pads,
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(x.ndim - 2),
        feature_group_count=call.attributes.get("group", 1),
    )


@operator("Conv")
def _conv(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    result = convolution(call, x, w)
    return result if bias is None else result + bias.reshape(-1, *[1] * (x.ndim - 2))


@operator("ConvTranspose")
def _conv_transpose(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    strides, dilations, pads = _windows(call, x.shape[2:], w.shape[2:], input_dilation=True)
    groups = call.attributes.get("group", 1)
    extra = tuple(call.attributes.get("output_padding", (0,) * rank))
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    mode = call.attributes.get("auto_pad", "NOTSET")
    wanted = call.attributes.get("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        pads = []
        for n, s, r, e, want in zip(x.shape[2:], strides, reach, extra, wanted[-rank:], strict=True):
            total = s * (n - 1) + e + r + 1 - want
            less = total // 2
            pads.append((total - less, less) if mode != "SAME_UPPER" else (less, total - less))
    # Convert [in, out / groups, ...] to [out, in / groups, ...] with all spatial dimensions reversed.
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape(-1, *w.shape[2:]), tuple(range(2, x.ndim)))
    result = lax.conv_general_dilated(
        x,
        w,
        (1,) * rank,
        [(r - a, r - b + e) for r, (a, b), e in zip(reach, pads, extra, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(rank),
        feature_group_count=groups,
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


# Pooling and normalisation --------------------------------------------------------------------------------------------


def _pooling(call: Call, x: Any) -> Any:
    """Returns window, strides, dilations and padding of all dimensions, and elements beyond the end.

    With ceil_mode the last window may reach beyond the padded input.
    """
    kernel = call.attributes["kernel_shape"]
    strides, dilations, pads = _windows(call, x.shape[2:], kernel)
    outside = []
    for i, (n, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations, strict=True)):
        before, after = pads[i]
        more = 0
        if call.attributes.get("ceil_mode", 0):
            span = n + before + after - (k - 1) * d - 1
            windows = -(-span // s) + 1
            if (windows - 1) * s >= n + before:  # a window that starts in the padding is left out
                windows -= 1
            more = max((windows - 1) * s + (k - 1) * d + 1 - (n + before + after), 0)
        outside.append(more)
    one = (1, 1)
    return (*one, *kernel), (*one, *strides), (*one, *dilations), [(0, 0), (0, 0), *pads], [0, 0, *outside]


@operator("MaxPool")
def _max_pool(call: Call, x: Any) -> Any:
    if call.outputs > 1:
        raise NotImplementedError("the second output, the indices of the largest elements, is not implemented")
    window, strides, dilations, pads, outside = _pooling(call, x)
    widths = [(a, b + more) for (a, b), more in zip(pads, outside, strict=True)]
    return lax.reduce_window(x, np.asarray(lowest(x), x.dtype), lax.max, window, strides, widths, None, dilations)


@operator("AveragePool")
def _average_pool(call: Call, x: Any) -> Any:
    window, strides, dilations, pads, outside = _pooling(call, x)

    def total(values: Any, widths: Any) -> Any:
        return lax.reduce_window(values, np.zeros((), x.dtype), lax.add, window, strides, widths, None, dilations)

    widths = [(a, b + more) for (a, b), more in zip(pads, outside, strict=True)]
    counted = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if call.attributes.get("count_include_pad", 0):
        counted = np.pad(counted, pads, constant_values=1)
        return total(x, widths) / total(counted, [(0, more) for more in outside])
    return total(x, widths) / total(counted, widths)


@operator("GlobalAveragePool")
def _global_average_pool(call: Call, x: Any) -> Any:
    return jnp.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max_pool(call: Call, x: Any) -> Any:
    return jnp.max(x, tuple(range(2, x.ndim)), keepdims=True)


def _by_channel(value: Any, x: Any) -> Any:
    return jnp.reshape(value, (-1, *[1] * (x.ndim - 2)))


@operator("BatchNormalization", 7)
def _batch_normalization(call: Call, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if call.attributes.get("training_mode", 0) or call.outputs > 1:
        raise NotImplementedError("it is exported for training: export the model in its evaluation mode (model.eval())")
    factor = scale * lax.rsqrt(variance + call.attributes.get("epsilon", 1e-5))
    return ((x - _by_channel(mean, x)) * _by_channel(factor, x) + _by_channel(bias, x)).astype(x.dtype)


def _centred(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


@operator("InstanceNormalization", 6)
def _instance_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    normal, _, _ = _centred(x, tuple(range(2, x.ndim)), call.attributes.get("epsilon", 1e-5))
    return normal * _by_channel(scale, x) + _by_channel(bias, x)


@operator("LayerNormalization", 17)
def _layer_normalization(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = call.attributes.get("axis", -1) % x.ndim
    stash = call.types(call.attributes.get("stash_type", 1))
    wide = x.astype(jax.dtypes.canonicalize_dtype(stash))
    normal, mean, inverse = _centred(wide, tuple(range(axis, x.ndim)), call.attributes.get("epsilon", 1e-5))
    result = normal.astype(x.dtype) * scale
    return (result if bias is None else result + bias, mean, inverse)[: call.outputs]


@operator("LRN")
def _local_response(call: Call, x: Any) -> Any:
    size, alpha = call.attributes["size"], call.attributes.get("alpha", 1e-4)
    before = (size - 1) // 2
    window, one = (1, size, *[1] * (x.ndim - 2)), (1,) * x.ndim
    widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    squares = lax.reduce_window(x * x, np.zeros((), x.dtype), lax.add, window, one, widths)
    scale = call.attributes.get("bias", 1.0) + alpha / size * squares
    return (x / scale ** call.attributes.get("beta", 0.75)).astype(x.dtype)
