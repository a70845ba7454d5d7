"""convolution, with operands viewed as [N, C, *spatial] and [O, I, *spatial]."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, broadcast
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.shapes import ConvShape
from jax_ipu.compiler.types import COMPLEX, num_elements, pack_scalar


def _options(context: Context, shape: ConvShape) -> dict[str, str]:
    """The options of poplin::convolution."""
    return context.planning | ({"pass": "TRAINING_WU"} if shape.updates_weights else {})


def lower_convolution(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """One call of poplin::convolution, which takes the operands in the memory order and mapping that they have."""
    name = context.name(op)
    result = op.result
    if num_elements(result.shape) == 0:
        return [context.variable(result.dtype, result.shape, name)]
    if any(num_elements(o.shape) == 0 for o in op.operands):
        return [broadcast(context.scalar_constant(result.dtype, pack_scalar(result.dtype, 0)), result.shape, ())]
    shape = ConvShape(op)
    lhs, rhs = context.operands(op)
    partner = context.partner(op)
    product = _ipu.convolution(
        context.graph,
        lhs.dim_shuffle(shape.lhs_permutation),
        rhs.dim_shuffle(shape.rhs_permutation),
        *shape.window,
        result.dtype,
        shape.output_layout,
        context.sequence,
        name,
        _options(context, shape),
        None if partner is None else partner.dim_shuffle(shape.output_permutation),
        context.plans,
    )
    return [product.dim_shuffle(shape.output_layout)]


def create_operand(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable mapped as the convolution plans for the demanded operand, in that operand's shape."""
    op = demand.op
    if dtype in COMPLEX or any(num_elements(v.shape) == 0 for v in (*op.operands, op.result)):
        return None
    shape = ConvShape(op)
    lhs = [op.operands[0].shape[d] for d in shape.lhs_permutation]
    rhs = [op.operands[1].shape[d] for d in shape.rhs_permutation]
    permutation = shape.lhs_permutation if demand.operand == 0 else shape.rhs_permutation
    # In memory the dimensions stand as in the StableHLO operand.
    layout = [permutation.index(d) for d in range(len(permutation))]
    create = _ipu.create_conv_input if demand.operand == 0 else _ipu.create_conv_weights
    planning = (_options(context, shape), context.plans)
    tensor = create(context.graph, lhs, rhs, *shape.window, op.result.dtype, layout, dtype, name, *planning)
    return tensor.dim_shuffle(layout)


LOWERINGS = {"convolution": lower_convolution}

CREATORS = {"convolution": create_operand}
