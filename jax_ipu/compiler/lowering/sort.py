"""sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Block, Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.types import num_elements


def lower_sort(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Sorts one or several operands together along a dimension, by the comparison in the body."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    dim = op.attrs.get("dimension", -1)
    tensors = context.operands(op)
    if op.attrs.get("in_place"):
        return _in_place(context, op, tensors)
    rank = len(op.results[0].shape)
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
    if op.attrs.get("in_place"):
        return _in_place(context, op, context.operands(op))
    comparator = expression_of(region_program(op.regions[0], op))
    return _ipu.sort_with_positions(
        context.graph, context.operands(op), op.attrs["dimension"], comparator, context.sequence, context.name(op)
    )


def _in_place(context: Context, op: Op, tensors: list[_ipu.Tensor]) -> Sequence[_ipu.Tensor]:
    comparator = expression_of(region_program(op.regions[0], op))
    positions = len(op.results) > len(op.operands)
    dim = op.attrs.get("dimension", -1) % len(op.results[0].shape)
    name = context.name(op)
    if op in context.alike:
        return _by_function(context, op, tensors, comparator, dim)
    made = _ipu.sort_in_place(context.graph, tensors, dim, comparator, positions, context.sequence, name)
    return [*tensors, *made]


def _by_function(
    context: Context, op: Op, tensors: list[_ipu.Tensor], comparator: _ipu.Expression, dim: int
) -> Sequence[_ipu.Tensor]:
    """Sorts as all that are alike do: by one function, in its variables, as the code of a sort takes much memory."""
    name, first = context.name(op), context.alike[op]
    if first not in context.sorts:
        variables = [context.graph.clone(tensor, name) for tensor in tensors]
        with context.nested(name) as sequence:
            _ipu.sort_in_place(context.graph, variables, dim, comparator, False, sequence, name)
        context.sorts[first] = context.graph.add_function(sequence), variables
    function, variables = context.sorts[first]
    for tensor, variable in zip(tensors, variables, strict=True):
        context.sequence.copy(tensor, variable, name)
    context.sequence.call(function)
    for value, tensor, variable in zip(op.results, tensors, variables, strict=True):
        if value.users:
            context.sequence.copy(variable, tensor, name)
    return tensors


def alike(block: Block) -> dict[Op, Op]:
    """The sorts in place that differ in their operands only -> the first of them."""
    sorts: dict[Any, list[Op]] = {}
    for op in block.walk():
        if op.name == "sort" and op.attrs.get("in_place"):
            types = tuple((o.shape, o.dtype) for o in op.operands)
            key = op.attrs["dimension"], types, region_program(op.regions[0], op).key()
            sorts.setdefault(key, []).append(op)
    return {op: ops[0] for ops in sorts.values() if len(ops) > 1 for op in ops}


def create_operand(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable in which an operand of the sort can be sorted."""
    op = demand.op
    comparator = expression_of(region_program(op.regions[0], op))
    shape = op.results[0].shape
    return _ipu.create_sort_operand(
        context.graph,
        [operand.dtype for operand in op.operands],
        demand.operand,
        shape,
        op.attrs.get("dimension", -1) % len(shape),
        comparator,
        len(op.results) > len(op.operands),
        name,
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

CREATORS = dict.fromkeys(("sort", "ipu.sort_with_positions"), create_operand)
