"""convolution, with operands viewed as [N, C, *spatial] and [O, I, *spatial]."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, broadcast
from jax_ipu.compiler.types import num_elements, pack_scalar

Window = tuple[Sequence[int], Sequence[tuple[int, int]], Sequence[int], Sequence[int], Sequence[bool], int, int]


class ConvShape:
    """Permutations and window of a convolution op."""

    __slots__ = ("lhs_permutation", "output_permutation", "rhs_permutation", "window")

    def __init__(self, op: Op) -> None:
        attrs = op.attrs
        d = attrs["dimension_numbers"]
        spatial = len(d["input_spatial_dimensions"])
        self.lhs_permutation = (
            d["input_batch_dimension"],
            d["input_feature_dimension"],
            *d["input_spatial_dimensions"],
        )
        self.rhs_permutation = (
            d["kernel_output_feature_dimension"],
            d["kernel_input_feature_dimension"],
            *d["kernel_spatial_dimensions"],
        )
        # Where each of [N, O, *spatial] is in the op's result.
        self.output_permutation = (
            d["output_batch_dimension"],
            d["output_feature_dimension"],
            *d["output_spatial_dimensions"],
        )
        ones = (1,) * spatial
        padding = attrs.get("padding")
        # As the bindings take it: strides, padding, dilation of both operands, reversal, groups of features and batch.
        self.window: Window = (
            attrs.get("window_strides") or ones,
            [(0, 0)] * spatial if padding is None else [(low, high) for low, high in padding],
            attrs.get("lhs_dilation") or ones,
            attrs.get("rhs_dilation") or ones,
            list(attrs.get("window_reversal") or (False,) * spatial),
            attrs.get("feature_group_count", 1),
            attrs.get("batch_group_count", 1),
        )

    @property
    def output_layout(self) -> tuple[int, ...]:
        """Dims of [N, O, *spatial] from major to minor: the op's own order."""
        rank = len(self.output_permutation)
        return tuple(self.output_permutation.index(d) for d in range(rank))


def lower_convolution(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    name = context.name(op)
    result = op.result
    if num_elements(result.shape) == 0:
        return [context.variable(result.dtype, result.shape, name)]
    if any(num_elements(o.shape) == 0 for o in op.operands):
        return [broadcast(context.scalar_constant(result.dtype, pack_scalar(result.dtype, 0)), result.shape, ())]
    shape = ConvShape(op)
    lhs, rhs = context.operands(op)
    product = _ipu.convolution(
        context.graph,
        lhs.dim_shuffle(shape.lhs_permutation),
        rhs.dim_shuffle(shape.rhs_permutation),
        *shape.window,
        result.dtype,
        shape.output_layout,
        context.sequence,
        name,
        context.planning,
        _partner_layout(context, op, shape),
    )
    return [product.dim_shuffle(shape.output_layout)]


def _partner_layout(context: Context, op: Op, shape: ConvShape) -> _ipu.Tensor | None:
    """The tensor that the result updates, as [N, O, *spatial]: the result is made on the same tiles."""
    partner = context.mapping.partners.get(op.result)
    tensor = None if partner is None else context.tensors.get(partner)
    if tensor is None or partner is None or partner.shape != op.result.shape:
        return None
    return tensor.dim_shuffle(shape.output_permutation)


LOWERINGS = {"convolution": lower_convolution}
