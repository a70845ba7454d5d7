"""dot_general as a grouped matrix product [G, M, K] x [G, K, N]."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, broadcast
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.shapes import DotShape
from jax_ipu.compiler.types import COMPLEX, Shape, num_elements, pack_scalar


def lower_dot_general(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """One poplin::matMulGrouped; operands that are no strided matrix are copied first."""
    name = context.name(op)
    result = op.result
    if num_elements(result.shape) == 0:
        return [context.variable(result.dtype, result.shape, name)]
    shape = DotShape(op)
    if shape.k == 0:
        return [broadcast(context.scalar_constant(result.dtype, pack_scalar(result.dtype, 0)), result.shape, ())]
    lhs, rhs = context.operands(op)
    a = context.strided(as_matrix(lhs, shape.lhs_permutation, shape.lhs), name)
    b = context.strided(as_matrix(rhs, shape.rhs_permutation, shape.rhs), name)
    like = _partner(context, op, (shape.batch, shape.m, shape.n))
    product = _ipu.mat_mul_grouped(
        context.graph, a, b, result.dtype, context.sequence, name, options(context, op), like, context.plans
    )
    return [context.strided(product.reshape(result.shape), name)]


def create_operand(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable mapped as the product plans for the demanded operand, in that operand's shape."""
    op = demand.op
    shape = DotShape(op)
    if dtype in COMPLEX or 0 in shape.lhs or 0 in shape.rhs:
        return None
    create = _ipu.create_mat_mul_grouped_input_lhs if demand.operand == 0 else _ipu.create_mat_mul_grouped_input_rhs
    types = (dtype, op.result.dtype)
    tensor = create(context.graph, *types, shape.lhs, shape.rhs, name, options(context, op), context.plans)
    permutation = shape.lhs_permutation if demand.operand == 0 else shape.rhs_permutation
    return from_matrix(tensor, permutation, op.operands[demand.operand].shape)


def as_matrix(tensor: _ipu.Tensor, permutation: Shape, shape: Shape) -> _ipu.Tensor:
    """An operand as [G, M, K] or [G, K, N]."""
    if permutation != tuple(range(len(permutation))):
        tensor = tensor.dim_shuffle(permutation)
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def from_matrix(tensor: _ipu.Tensor, permutation: Shape, shape: Shape) -> _ipu.Tensor:
    """The inverse of as_matrix: a tensor of `shape` whose matrix form is `tensor`."""
    tensor = tensor.reshape(tuple(shape[p] for p in permutation))
    inverse = tuple(permutation.index(d) for d in range(len(permutation)))
    return tensor.dim_shuffle(inverse)


def options(context: Context, op: Op) -> dict[str, str]:
    """The planner's options for a product."""
    result = dict(context.planning)
    purpose = op.attrs.get("pass")
    if purpose is not None:
        result["fullyConnectedPass"] = purpose
    return result


def _partner(context: Context, op: Op, shape: Shape) -> _ipu.Tensor | None:
    """The tensor that the result updates, as `shape`, so that the result is made on the same tiles; or None."""
    tensor = context.partner(op)
    if tensor is None:
        return None
    tensor = tensor.reshape(shape)
    return tensor if tensor.is_strided else None


LOWERINGS = {"dot_general": lower_dot_general}

CREATORS = {"dot_general": create_operand}
