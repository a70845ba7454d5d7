"""Operations of PyTorch that replace those of torchax, or that torchax does not have.

This file imports PyTorch; `torch_graph.py` imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torchax
from jax import lax
from torchax.ops import mappings

from jax_ipu.models.frameworks import (
    torch_embeddings,
    torch_export,
    torch_kept,
    torch_kinks,
    torch_losses,
    torch_matrices,
    torch_norms,
    torch_ordering,
    torch_resize,
    torch_scatter,
    torch_special,
    torch_windows,
)


def _convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """As torchax's, whose transposed convolution mixes up the channels of several groups."""
    spatial = weight.ndim - 2
    stride, padding, dilation, output_padding = (
        tuple(values) * (spatial if len(values) == 1 else 1) for values in (stride, padding, dilation, output_padding)
    )
    batch = x.shape[: x.ndim - spatial - 1]
    x = x.reshape((-1, *x.shape[x.ndim - spatial - 1 :]))
    expansion = (1,) * spatial
    if transposed:
        # From (groups * inputs, outputs, ...) to (groups * outputs, inputs, ...), in each group turned around.
        inputs, outputs, *kernel = weight.shape
        weight = weight.reshape((groups, inputs // groups, outputs, *kernel)).swapaxes(1, 2)
        weight = jnp.flip(weight.reshape((groups * outputs, inputs // groups, *kernel)), range(2, 2 + spatial))
        front = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        around = [(f, f + more) for f, more in zip(front, output_padding, strict=True)]
        stride, expansion = expansion, stride
    else:
        around = [(p, p) for p in padding]
    result = lax.conv_general_dilated(
        x, weight, stride, around, lhs_dilation=expansion, rhs_dilation=dilation, feature_group_count=groups
    )
    if bias is not None:
        result = result + bias.reshape((-1, *(1,) * spatial))
    return result.reshape((*batch, *result.shape[1:]))


def _average_pool(
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Divides by the elements of each window: of the padded array, and in ceil mode no more than that."""
    spatial = max(len(kernel), len(stride or ()), len(padding))
    kernel = tuple(kernel) * (spatial if len(kernel) == 1 else 1)
    stride = tuple(stride) * (spatial if len(stride) == 1 else 1) if stride else kernel
    padding = tuple(padding) * (spatial if len(padding) == 1 else 1)
    sizes = x.shape[x.ndim - spatial :]
    after = []
    for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True):
        left = size + 2 * p - k
        windows = (math.ceil(left / s) if ceil_mode else left // s) + 1
        if ceil_mode and (windows - 1) * s >= size + p:  # the last window must not start in the padding after
            windows -= 1
        after.append((windows - 1) * s + k - size - p)
    lead = (1,) * (x.ndim - spatial)

    def window_sums(values: Any, around: Any) -> Any:
        zero = np.zeros((), values.dtype)
        around = [(0, 0)] * len(lead) + around
        return lax.reduce_window(values, zero, lax.add, (*lead, *kernel), (*lead, *stride), around)

    def divided(sums: Any, by: Any) -> Any:
        # Quotients of whole numbers are rounded to zero.
        by = jnp.broadcast_to(jnp.asarray(by, sums.dtype), sums.shape)
        return lax.div(sums, by)

    sums = window_sums(x, list(zip(padding, after, strict=True)))
    if divisor_override is not None:
        return divided(sums, divisor_override)
    counted = np.ones((*lead, *sizes), np.float32)
    beyond = list(zip(padding, after, strict=True))
    if count_include_pad:
        own = [(p, max(0, min(p, a))) for p, a in beyond]
        counted = np.pad(counted, [(0, 0)] * len(lead) + own, constant_values=1)
        beyond = [(0, a - more) for a, (_, more) in zip(after, own, strict=True)]
    counts = window_sums(jnp.asarray(counted), beyond)
    return divided(sums, counts)


def _accumulated(x: Any, *settings: Any, general: Callable[..., Any], dtype: Any = None, **options: Any) -> Any:
    """Sums and products of whole numbers and booleans are int64 in PyTorch, before anything is added."""
    if dtype is torch.bool:  # of truth values, as whether it is zero
        return general((x != 0).astype(jnp.int32), *settings, **options) != 0
    if dtype is not None:
        x = x.astype(mappings.t2j_dtype(dtype))
    elif not jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(jnp.int64)
    return general(x, *settings, **options)


def _mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.astype(mappings.t2j_dtype(dtype))
    axes = (tuple(dim) or None) if isinstance(dim, (list, tuple)) else dim
    return jnp.mean(x, None if x.ndim == 0 else axes, keepdims=keepdim)


def _of_floats(x: Any, *settings: Any, general: Callable[..., Any]) -> Any:
    """Functions of whole numbers and booleans are those of float32."""
    return general(x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32), *settings)


def _lgamma(x: Any) -> Any:
    """As torchax's, whose results are float32 for float64."""
    return _of_floats(x, general=lax.lgamma)


def _add(x: Any, y: Any, *, general: Callable[..., Any], alpha: Any = 1) -> Any:
    """The sum of booleans is a boolean, which torchax multiplies by the number 1 first."""
    if jnp.result_type(x, y) != jnp.bool_:
        return general(x, y, alpha=alpha)
    return jnp.logical_or(x, jnp.logical_and(y, bool(alpha)))


def _sign(x: Any) -> Any:
    """Of NaN it is 0, and of a boolean the boolean."""
    if x.dtype == jnp.bool_:
        return x
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _sign_of_any(x: Any, *, general: Callable[..., Any]) -> Any:
    return general(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else _sign(x)


def _remainder_of_dividend(x: Any, y: Any) -> Any:
    """The remainder has the sign of the dividend, and is exact: no quotient is rounded."""
    kind = jnp.result_type(x, y)
    if jnp.issubdtype(kind, jnp.inexact) and not any(
        jnp.issubdtype(jnp.asarray(v).dtype, jnp.inexact) for v in (x, y) if hasattr(v, "dtype")
    ):
        kind = jnp.dtype(jnp.float32)  # whole numbers with a float of Python
    return lax.rem(*jnp.broadcast_arrays(jnp.asarray(x, kind), jnp.asarray(y, kind)))


def _scatter_add(x: Any, dim: int, index: Any, source: Any, *, general: Callable[..., Any]) -> Any:
    """The sum of booleans is whether any of them is true."""
    if x.dtype != jnp.bool_:
        return general(x, dim, index, source)
    return general(x.astype(jnp.int32), dim, index, source.astype(jnp.int32)) > 0


def _scatter_reduce(
    x: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str | None = None,
    *,
    include_self: bool = True,
    general: Callable[..., Any],
) -> Any:
    """As torchax's, which has no sums of booleans, and starts the largest of whole numbers with an infinity."""
    if x.dtype == jnp.bool_ and reduce is not None:
        of_bits = {"sum": "amax", "add": "amax", "prod": "amin", "multiply": "amin"}.get(reduce, reduce)
        numbers = (x.astype(jnp.int32), dim, index, source.astype(jnp.int32), of_bits)
        return _scatter_reduce(*numbers, include_self=include_self, general=general) > 0
    if not include_self and reduce in ("amax", "amin") and jnp.issubdtype(x.dtype, jnp.integer):
        limits = np.iinfo(x.dtype)
        start = limits.min if reduce == "amax" else limits.max
        x, include_self = general(x, dim, index, jnp.full_like(source, start)), True
    if not include_self and reduce in ("amax", "amin") and x.ndim:
        return torch_scatter.extreme_of_others(x, dim % x.ndim, index, source, largest=reduce == "amax")
    if reduce in ("prod", "multiply") and jnp.issubdtype(x.dtype, jnp.inexact):
        return torch_scatter.product(x, dim, index, source, include_self)
    return general(x, dim, index, source, reduce, include_self=include_self)


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False, *, general: Callable[..., Any]) -> Any:
    if x.dtype != jnp.bool_ or not accumulate:
        return general(x, indices, values, accumulate)
    return general(x.astype(jnp.int32), indices, values.astype(jnp.int32), accumulate) > 0


def _put(x: Any, indices: Any, source: Any, accumulate: bool = False) -> Any:
    """Changes elements by their place in the flat tensor; all that go to one place are added."""
    if x.dtype == jnp.bool_ and accumulate:
        return _put(x.astype(jnp.int32), indices, source.astype(jnp.int32), True) > 0
    flat = x.reshape(-1).at[indices.reshape(-1)]
    return (flat.add if accumulate else flat.set)(source.reshape(-1)).reshape(x.shape)


def _slice_scatter(
    x: Any, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """As torchax's, which takes no dimension where it is counted from the end."""
    return x.at[(*(slice(None),) * (dim % x.ndim), slice(start, end, step))].set(source)


def _positions(x: Any, *, general: Callable[..., Any]) -> Any:
    """torch.nonzero, which has no positions where there is no element."""
    return general(x) if x.size else jnp.zeros((0, x.ndim), jnp.int64)


def _repeated(repeats: Any, *, output_size: int | None = None) -> Any:
    """Each place as often as its number says."""
    return jnp.repeat(jnp.arange(repeats.shape[0], dtype=repeats.dtype), repeats, total_repeat_length=output_size)


def _converted(x: Any, *, general: Callable[..., Any], **options: Any) -> Any:
    """A copy, of another type or of another memory format, which has no meaning here."""
    return x if options.get("dtype") is None else general(x, **options)


def _truth(x: Any, *settings: Any, general: Callable[..., Any]) -> Any:
    """Whether all or any elements are true, which PyTorch answers in uint8 for uint8."""
    result = general(x, *settings)
    return result.astype(x.dtype) if x.dtype == jnp.uint8 else result


def _divide(x: Any, y: Any, rounding_mode: str | None = None, *, general: Callable[..., Any]) -> Any:
    """As torchax's, which divides whole numbers as floats and then drops the fraction."""
    kind = jnp.result_type(x, y)
    if rounding_mode != "trunc" or jnp.issubdtype(kind, jnp.inexact):
        return general(x, y, rounding_mode)
    return lax.div(*jnp.broadcast_arrays(jnp.asarray(x, kind), jnp.asarray(y, kind)))


def _power(x: Any, y: Any, *, general: Callable[..., Any]) -> Any:
    """As torchax's, which computes powers of whole numbers as floats; x ** 0 has no gradient, also at zero."""
    kind = jnp.result_type(x, y)
    if jnp.issubdtype(kind, jnp.inexact):
        if isinstance(y, (int, float)):
            return general(lax.stop_gradient(x) if y == 0 else x, y)
        return general(jnp.where(y == 0, lax.stop_gradient(x), x), y)
    if isinstance(y, int):
        return lax.integer_pow(jnp.asarray(x, kind), y)
    return _whole_power(*jnp.broadcast_arrays(jnp.asarray(x, kind), jnp.asarray(y, kind)))


def _whole_power(x: Any, y: Any) -> Any:
    """The power of whole numbers, with all bits of the exponent; one over a whole number is 0 but for 1 and -1."""

    def step(_: Any, state: Any) -> Any:
        result, factor, rest = state
        return jnp.where(rest & 1 == 1, result * factor, result), factor * factor, rest >> 1

    result, _, _ = lax.fori_loop(0, np.iinfo(x.dtype).bits, step, (jnp.ones_like(x), x, jnp.maximum(y, 0)))
    inverse = jnp.where(jnp.abs(x) == 1, jnp.where(y & 1 == 1, x, 1), 0)
    return jnp.where(y < 0, inverse, result)


def _by_power_of_two(x: Any, y: Any) -> Any:
    """torch.ldexp, whose factor is a float32 where the exponent is a whole number."""
    whole = jnp.issubdtype(y.dtype, jnp.integer)
    return x * (jnp.ldexp(jnp.float32(1), y.astype(jnp.int32)) if whole else jnp.exp2(y))


def _leaky_at_random(
    x: Any, noise: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Any, Any]:
    """As a leaky rectifier whose slope is drawn for each element in training, and else the mean."""
    slopes = jnp.full_like(x, (lower + upper) / 2)
    if training:
        key = torchax.default_env().get_and_rotate_prng_key()
        slopes = jax.random.uniform(key, x.shape, x.dtype, lower, upper)
    return jnp.where(x > 0, x, x * slopes), jnp.where(x > 0, 1, slopes)


def _full(size: Any, value: Any, *, general: Callable[..., Any], dtype: Any = None, **options: Any) -> Any:
    """Without a type, whole numbers are int64 and truth values bool, which torchax makes float32."""
    if dtype is None and isinstance(value, int):
        dtype = torch.bool if isinstance(value, bool) else torch.int64
    return general(size, value, dtype=dtype, **options)


# Functions of numbers whose results are floats.
_OF_FLOATS = """
    acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp exp2 expm1 log log10 log1p log2
    reciprocal rsqrt sigmoid sin sinh special_i0e special_i1 special_i1e special_ndtri sqrt tan tanh
"""

OPERATIONS: dict[Any, Callable[..., Any]] = {
    torch_kept.STOP_GRADIENT: lax.stop_gradient,
    torch.ops.aten.embedding.default: torch_embeddings.embedding,
    torch.ops.aten._embedding_bag.default: torch_embeddings.embedding_bag,
    torch.ops.aten._embedding_bag_forward_only.default: torch_embeddings.embedding_bag,
    torch.ops.aten._upsample_bilinear2d_aa.default: torch_resize.bilinear,
    torch.ops.aten._upsample_bicubic2d_aa.default: torch_resize.bicubic,
    torch.ops.aten.convolution.default: _convolution,
    torch.ops.aten.avg_pool1d.default: _average_pool,
    torch.ops.aten.avg_pool2d.default: _average_pool,
    torch.ops.aten.avg_pool3d.default: _average_pool,
    torch.ops.aten.digamma.default: torch_special.digamma,
    torch.ops.aten.i0.default: lambda x: _of_floats(x, general=torch_kinks.bessel_i0),
    torch.ops.aten.lgamma.default: _lgamma,
    torch.ops.aten.sign.default: _sign,
    torch.ops.aten.abs.default: torch_kinks.absolute,
    torch.ops.aten.clamp.default: torch_kinks.clamp,
    torch.ops.aten.clamp.Tensor: torch_kinks.clamp,
    torch.ops.aten.fmax.default: torch_kinks.larger,
    torch.ops.aten.fmin.default: torch_kinks.smaller,
    torch.ops.aten.hardsigmoid.default: torch_kinks.hard_sigmoid,
    torch.ops.aten.hardswish.default: torch_kinks.hard_swish,
    torch.ops.aten.hardtanh.default: torch_kinks.hard_tanh,
    torch.ops.aten.nextafter.default: torch_kinks.next_number,
    torch.ops.aten.leaky_relu.default: torch_kinks.leaky_relu,
    torch.ops.aten.xlogy.Tensor: torch_special.x_log_y,
    torch.ops.aten.xlogy.Scalar_Self: torch_special.x_log_y,
    torch.ops.aten.xlogy.Scalar_Other: torch_special.x_log_y,
    torch.ops.aten.special_xlog1py.default: torch_special.x_log1p_y,
    torch.ops.aten.elu.default: torch_special.exponential_linear,
    torch.ops.aten.selu.default: torch_special.scaled_exponential_linear,
    torch.ops.aten.celu.default: torch_special.continuous_exponential_linear,
    torch.ops.aten.softplus.default: torch_special.softplus,
    torch.ops.aten.mish.default: torch_special.mish,
    torch.ops.aten.special_erfcx.default: torch_special.scaled_erfc,
    torch.ops.aten.special_entr.default: torch_special.entropy,
    torch.ops.aten.special_log_ndtr.default: torch_special.log_of_normal,
    torch.ops.aten._safe_softmax.default: torch_kinks.safe_softmax,
    torch.ops.aten.sinc.default: torch_kinks.sinc,
    torch.ops.aten.fmod.Tensor: _remainder_of_dividend,
    torch.ops.aten.fmod.Scalar: _remainder_of_dividend,
    torch.ops.aten.embedding_renorm.default: torch_embeddings.renormed,
    torch.ops.aten.linalg_vector_norm.default: torch_norms.vector_norm,
    torch.ops.aten.native_group_norm.default: torch_norms.group_norm,
    torch.ops.prims.convert_element_type.default: lambda x, dtype: x.astype(mappings.t2j_dtype(dtype)),
    torch.ops.aten.std.correction: torch_norms.deviation,
    torch.ops.aten.std_mean.correction: torch_norms.deviation_and_mean,
    torch.ops.aten.dist.default: torch_norms.distance,
    torch.ops.aten._cdist_forward.default: torch_norms.distances,
    torch.ops.aten._euclidean_dist.default: torch_norms.euclidean_distances,
    torch.ops.aten._pdist_forward.default: torch_norms.distances_of_pairs,
    torch.ops.aten.sort.default: torch_ordering.sort,
    torch.ops.aten.sort.stable: torch_ordering.stable_sort,
    torch.ops.aten.topk.default: torch_ordering.top_k,
    torch.ops.aten.kthvalue.default: torch_ordering.kth_value,
    torch.ops.aten.median.default: torch_ordering.median,
    torch.ops.aten.median.dim: torch_ordering.median,
    torch.ops.aten.nanmedian.default: torch_ordering.median_of_numbers,
    torch.ops.aten.nanmedian.dim: torch_ordering.median_of_numbers,
    torch.ops.aten.mode.default: torch_ordering.most_frequent,
    torch.ops.aten.max.dim: torch_ordering.largest,
    torch.ops.aten.min.dim: torch_ordering.smallest,
    torch.ops.aten.cummax.default: torch_ordering.largest_so_far,
    torch.ops.aten.cummin.default: torch_ordering.smallest_so_far,
    torch.ops.aten.bucketize.Tensor: torch_ordering.bucketize,
    torch.ops.aten.bucketize.Scalar: torch_ordering.bucketize,
    torch.ops.aten.searchsorted.Tensor: torch_ordering.search_sorted,
    torch.ops.aten.searchsorted.Scalar: torch_ordering.search_sorted,
    torch.ops.aten.nonzero_static.default: torch_ordering.positions_of_true,
    torch.ops.aten.cholesky.default: torch_matrices.cholesky_factor,
    torch.ops.aten.linalg_householder_product.default: torch_matrices.reflections,
    torch.ops.aten.ormqr.default: torch_matrices.reflected,
    torch.ops.aten.cholesky_inverse.default: torch_matrices.cholesky_inverse,
    torch.ops.aten.cholesky_solve.default: torch_matrices.cholesky_solve,
    torch.ops.aten.linalg_cholesky_ex.default: torch_matrices.cholesky,
    torch.ops.aten._linalg_eigh.default: torch_matrices.eigenvectors,
    torch.ops.aten._linalg_det.default: torch_matrices.determinant,
    torch.ops.aten._linalg_slogdet.default: torch_matrices.sign_and_log_of_determinant,
    torch.ops.aten._linalg_solve_ex.default: torch_matrices.solution,
    torch.ops.aten.linalg_inv_ex.default: torch_matrices.inverse,
    torch.ops.aten.linalg_pinv.atol_rtol_tensor: torch_matrices.pseudo_inverse,
    torch.ops.aten.linalg_qr.default: torch_matrices.qr,
    torch.ops.aten.linalg_lu_factor_ex.default: torch_matrices.lu_factor,
    torch.ops.aten.linalg_lu.default: torch_matrices.lu,
    torch.ops.aten.lu_unpack.default: torch_matrices.lu_unpack,
    torch.ops.aten.linalg_ldl_factor_ex.default: torch_matrices.ldl_factor,
    torch.ops.aten.binary_cross_entropy.default: torch_losses.binary_cross_entropy,
    torch_kept.MULTI_MARGIN_LOSS: torch_losses.multi_margin_loss,
    torch.ops.aten.multilabel_margin_loss.default: torch_losses.multilabel_margin_loss,
    torch.ops.aten.mean.default: _mean,
    torch.ops.aten.mean.dim: _mean,
    torch.ops.aten.max_pool2d_with_indices_backward.default: torch_scatter.max_pool_2d_backward,
    torch.ops.aten.max_pool3d_with_indices_backward.default: torch_scatter.max_pool_3d_backward,
    torch.ops.aten.adaptive_max_pool2d.default: torch_windows.adaptive_max_pool,
    torch.ops.aten.adaptive_max_pool3d.default: torch_windows.adaptive_max_pool,
    torch.ops.aten.max_unpool2d.default: torch_windows.max_unpool,
    torch.ops.aten.max_unpool3d.default: torch_windows.max_unpool,
    torch.ops.aten.put.default: _put,
    torch.ops.aten.slice_scatter.default: _slice_scatter,
    torch.ops.aten.index_reduce.default: torch_scatter.reduce_rows,
    torch.ops.aten.ldexp.Tensor: _by_power_of_two,
    torch_export.CTC_LOSSES: torch_losses.ctc_losses,
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
    torch.ops.aten.special_zeta.default: torch_special.zeta,
    torch.ops.aten.special_zeta.self_scalar: torch_special.zeta,
    torch.ops.aten.special_zeta.other_scalar: torch_special.zeta,
    torch.ops.aten.polygamma.default: torch_special.polygamma,
    torch.ops.aten.complex.default: lambda real, imaginary: lax.complex(*jnp.broadcast_arrays(real, imaginary)),
    torch.ops.aten.neg.default: jnp.negative,
    torch.ops.aten.angle.default: torch_special.angle,
    torch.ops.aten.rrelu_with_noise_functional.default: _leaky_at_random,
    # These work on bits; torchax takes the operands for truth values.
    torch.ops.aten.__and__.Scalar: jnp.bitwise_and,
    torch.ops.aten.__and__.Tensor: jnp.bitwise_and,
    torch.ops.aten.__or__.Scalar: jnp.bitwise_or,
    torch.ops.aten.__or__.Tensor: jnp.bitwise_or,
    torch.ops.aten.__xor__.Scalar: jnp.bitwise_xor,
    torch.ops.aten.__xor__.Tensor: jnp.bitwise_xor,
}
# Those that need torchax's operation as `general`.
WRAPPED: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.full.default: _full,
    torch.ops.aten._to_copy.default: _converted,
    torch.ops.aten.sum.default: _accumulated,
    torch.ops.aten.sum.dim_IntList: _accumulated,
    torch.ops.aten.prod.default: _accumulated,
    torch.ops.aten.prod.dim_int: _accumulated,
    torch.ops.aten.cumsum.default: _accumulated,
    torch.ops.aten.cumprod.default: _accumulated,
    **{getattr(torch.ops.aten, name).default: _of_floats for name in _OF_FLOATS.split()},
    torch.ops.aten.atan2.default: torch_special.angle_of,
    torch.ops.aten.copysign.Tensor: torch_kinks.with_sign,
    torch.ops.aten.copysign.Scalar: torch_kinks.with_sign,
    torch.ops.aten.add.Tensor: _add,
    torch.ops.aten.add.Scalar: _add,
    torch.ops.aten.sgn.default: _sign_of_any,
    torch.ops.aten.max_pool2d_with_indices.default: torch_windows.max_pool_2d,
    torch.ops.aten.max_pool3d_with_indices.default: torch_windows.max_pool_3d,
    torch.ops.aten.scatter_add.default: _scatter_add,
    torch.ops.aten.scatter.reduce: _scatter_reduce,
    torch.ops.aten.scatter_reduce.two: _scatter_reduce,
    torch.ops.aten.index_put.default: _index_put,
    torch.ops.aten._unsafe_index_put.default: _index_put,
    torch.ops.aten.nonzero.default: _positions,
    torch.ops.aten.any.default: _truth,
    torch.ops.aten.any.dim: _truth,
    torch.ops.aten.any.dims: _truth,
    torch.ops.aten.all.default: _truth,
    torch.ops.aten.all.dim: _truth,
    torch.ops.aten.all.dims: _truth,
    torch.ops.aten.div.Tensor_mode: _divide,
    torch.ops.aten.div.Scalar_mode: _divide,
    torch.ops.aten.pow.Scalar: _power,
    torch.ops.aten.pow.Tensor_Scalar: _power,
    torch.ops.aten.pow.Tensor_Tensor: _power,
}

# Those whose expressions in other operations have another value or gradient.
NOT_DECOMPOSED = (
    torch.ops.aten.binary_cross_entropy.default,
    torch.ops.aten.multilabel_margin_loss.default,
    torch.ops.aten._safe_softmax.default,
    torch.ops.aten._euclidean_dist.default,
    torch.ops.aten.xlogy.Tensor,
    torch.ops.aten.xlogy.Scalar_Self,
    torch.ops.aten.xlogy.Scalar_Other,
    torch.ops.aten.special_xlog1py.default,
    torch.ops.aten.elu.default,
    torch.ops.aten.selu.default,
    torch.ops.aten.celu.default,
    torch.ops.aten.softplus.default,
    torch.ops.aten.mish.default,
    torch.ops.aten.special_entr.default,
    torch.ops.aten.special_log_ndtr.default,
    torch.ops.aten.hardsigmoid.default,
    torch.ops.aten.hardswish.default,
    torch.ops.aten.sinc.default,
    torch.ops.aten.std.correction,
    torch.ops.aten.std_mean.correction,
    torch.ops.aten.max_unpool2d.default,
    torch.ops.aten.max_unpool3d.default,
)


DECOMPOSED_IN_FLOAT32 = (torch.ops.aten.grid_sampler_2d.default, torch.ops.aten.grid_sampler_3d.default)

# What has a fixed size instead of what depends on values.
_OF_FIXED_SIZE = {
    "bincount": "torch.zeros(n, dtype=torch.int64).scatter_add(0, x, torch.ones_like(x)), for values below n",
    "nonzero": "torch.nonzero_static(x, size=n), or masks instead of positions",
    "masked_select": "torch.where(mask, x, 0)",
    "index": "torch.where(mask, x, 0)",
    "repeat_interleave": "its argument output_size with repeats that are numbers, or torch.gather",
}


def not_fixed(target: Any) -> str:
    """The message about an operation whose result has a size that depends on values."""
    name = str(target).split(".")[1] if "." in str(target) else str(target)
    instead = _OF_FIXED_SIZE.get(name, "operations whose results have the same shape for all values")
    return (
        f"PyTorch's operation {target} has a result whose size depends on the values of its operands, and a program "
        f"for the IPU has one size for all: write {instead}"
    )
