"""dot_general as a grouped matrix product [G, M, K] x [G, K, N]."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, broadcast
from jax_ipu.compiler.types import Shape, num_elements, pack_scalar


class DotShape:
    """How the operands of a dot_general become matrices: a permutation, then a reshape."""

    __slots__ = ("batch", "k", "lhs_permutation", "m", "n", "rhs_permutation")

    def __init__(self, op: Op) -> None:
        lhs, rhs = op.operands[0].shape, op.operands[1].shape
        numbers = op.attrs["dot_dimension_numbers"]
        lhs_batch, rhs_batch = numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"]
        lhs_contract, rhs_contract = numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"]
        lhs_free = tuple(d for d in range(len(lhs)) if d not in lhs_batch and d not in lhs_contract)
        rhs_free = tuple(d for d in range(len(rhs)) if d not in rhs_batch and d not in rhs_contract)
        self.batch = math.prod(lhs[d] for d in lhs_batch)
        self.m = math.prod(lhs[d] for d in lhs_free)
        self.n = math.prod(rhs[d] for d in rhs_free)
        self.k = math.prod(lhs[d] for d in lhs_contract)
        self.lhs_permutation = (*lhs_batch, *lhs_free, *lhs_contract)
        self.rhs_permutation = (*rhs_batch, *rhs_contract, *rhs_free)

    @property
    def lhs(self) -> Shape:
        return (self.batch, self.m, self.k)

    @property
    def rhs(self) -> Shape:
        return (self.batch, self.k, self.n)


def as_matrix(tensor: _ipu.Tensor, permutation: Shape, shape: Shape) -> _ipu.Tensor:
    if permutation != tuple(range(len(permutation))):
        tensor = tensor.dim_shuffle(permutation)
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def from_matrix(tensor: _ipu.Tensor, permutation: Shape, shape: Shape) -> _ipu.Tensor:
    """The inverse of as_matrix: a tensor of `shape` whose matrix form is `tensor`."""
    tensor = tensor.reshape(tuple(shape[p] for p in permutation))
    inverse = tuple(permutation.index(d) for d in range(len(permutation)))
    return tensor.dim_shuffle(inverse)


def options(context: Context, op: Op) -> dict[str, str]:
    result = dict(context.planning)
    purpose = op.attrs.get("pass")
    if purpose is not None:
        result["fullyConnectedPass"] = purpose
    return result


def lower_dot_general(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
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
    like = partner_layout(context, op, (shape.batch, shape.m, shape.n))
    product = _ipu.mat_mul_grouped(
        context.graph, a, b, result.dtype, context.sequence, name, options(context, op), like
    )
    return [context.strided(product.reshape(result.shape), name)]


def partner_layout(context: Context, op: Op, shape: Shape) -> _ipu.Tensor | None:
    """The tensor of what the result updates, as `shape`: the result is made on the same tiles."""
    partner = context.mapping.partners.get(op.result)
    tensor = None if partner is None else context.tensors.get(partner)
    if tensor is None or partner is None or partner.shape != op.result.shape:
        return None
    tensor = tensor.reshape(shape)
    return tensor if tensor.is_strided else None


LOWERINGS = {"dot_general": lower_dot_general}
