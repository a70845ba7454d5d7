"""sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.types import num_elements


def lower_sort(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Sorts one or several operands together along a dimension, by the comparison in the body."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    rank = len(op.results[0].shape)
    dim = op.attrs.get("dimension", -1)
    tensors = context.operands(op)
    return _ipu.sort(
        context.graph,
        tensors,
        dim % rank,
        expression_of(region_program(op.regions[0], op)),
        bool(op.attrs.get("is_stable", False)),
        context.sequence,
        name,
    )


def lower_sort_with_positions(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """As `lower_sort`; the last result has the positions of the elements before."""
    comparator = expression_of(region_program(op.regions[0], op))
    return _ipu.sort_with_positions(
        context.graph, context.operands(op), op.attrs["dimension"], comparator, context.sequence, context.name(op)
    )


def lower_top_k(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The k largest or smallest elements along the last dimension, and their indices."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    largest = bool(op.attrs.get("largest", True))
    tensor = context.tensor(op.operands[0])
    return _ipu.top_k(context.graph, tensor, op.attrs["k"], context.sequence, name, largest)


LOWERINGS = {"chlo.top_k": lower_top_k, "ipu.sort_with_positions": lower_sort_with_positions, "sort": lower_sort}
