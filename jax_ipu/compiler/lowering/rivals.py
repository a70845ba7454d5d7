"""Chooses the tile mapping of tables in which ops look up rows, and which products read as well.

A lookup works with any mapping, and a product rearranges a table that is not mapped as it demands. Both are tried: the
lookups with each mapping, and the copy from one mapping to the other, in graphs of their own. The cycles of the model
decide. `spread.py` does the same for slices and elementwise ops.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op, Value, size_in_bytes
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.mapping import VIEWS, Demand, MappingPlan, Rivals

_PART_OF_MEMORY = 8
# More than any program takes: for what is not possible.
_NEVER = 1 << 62


def settle(mapping: MappingPlan, target: _ipu.Target, trial: Callable[[], Context]) -> None:
    """Chooses between each product and its rivals, and tells the mapping plan.

    Args:
        mapping: the plan, which learns the demand that decides.
        target: the IPU. Tables that take much of its memory are mapped as the product demands: a copy takes as much
            again.
        trial: makes a context with an empty graph, in which no op has a demand.
    """
    most = target.num_tiles * target.bytes_per_tile // _PART_OF_MEMORY
    for rivals in mapping.rivals.values():
        table = next(iter(rivals.lookups)).operands[0]
        if rivals.product.key() not in mapping.preferred and size_in_bytes(table) <= most:
            mapping.preferred[rivals.product.key()] = _cheapest(rivals, trial)


def variable_for(context: Context, demand: Demand | None, value: Value) -> _ipu.Tensor:
    """A variable of the value's type, mapped as demanded; spread over all tiles for None."""
    table = None if demand is None else context.create(demand, "table")
    if table is None:
        return context.variable(value.dtype, value.shape, "table")
    return table if table.dtype == value.dtype else context.graph.clone_as(value.dtype, table, "table")


def lower_alone(context: Context, op: Op, demand_of: Callable[[Value], Demand | None]) -> None:
    """Lowers an op with variables for what it reads, mapped as demanded, and with the views of these."""

    def make(value: Value) -> None:
        if value in context.tensors or (value.op is not None and value.op.name == "constant"):
            return
        if value.op is not None and value.op.name in VIEWS:
            for operand in value.op.operands:
                make(operand)
            context.lower_op(value.op)
            return
        context.tensors[value] = variable_for(context, demand_of(value), value)

    for value in (*op.operands, *op.attrs.get("write_over", {}).values()):
        make(value)
    context.lower_op(op)


def _cheapest(rivals: Rivals, trial: Callable[[], Context]) -> Demand:
    def lookups(demand: Demand) -> int:
        return sum(times * cycles_of_lookup(trial(), demand, op) for op, times in rivals.lookups.items())

    best, least = rivals.product, lookups(rivals.product)
    for op in rivals.lookups:
        demand = Demand(op, 0, best.priority)
        cycles = lookups(demand)
        if cycles < least:
            cycles += rivals.products * _cycles_of_copy(trial(), demand, rivals.product)
        if cycles < least:
            best, least = demand, cycles
    return best


def cycles_of_lookup(context: Context, demand: Demand | None, lookup: Op) -> int:
    """Cycles of a slice, gather or scatter in a table mapped as demanded; None: spread. The context is used up."""
    if demand is not None and context.create(demand, "table") is None:
        return _NEVER
    # A scatter may have several states, which lie alike.
    tables = lookup.operands[: len(lookup.results)] if lookup.name == "scatter" else lookup.operands[:1]
    for table in tables:
        context.tensors[table] = variable_for(context, demand, table)
    for operand in lookup.operands[1:]:
        if operand not in context.tensors and (operand.op is None or operand.op.name != "constant"):
            context.tensors[operand] = context.variable(operand.dtype, operand.shape, "operand")
    types = [(r.shape, r.dtype) for r in lookup.results]
    in_place = Op(lookup.name, lookup.operands, types, {**lookup.attrs, "in_place": True}, lookup.regions)
    try:
        context.lower_op(in_place)
        return cycles_of(context)
    finally:
        in_place.regions = []  # they belong to the other op
        in_place.drop()


def _cycles_of_copy(context: Context, source: Demand, target: Demand) -> int:
    """Cycles of a copy of a table from one tile mapping to the other; the context is used up."""
    tensors = context.create(source, "table"), context.create(target, "table")
    if tensors[0] is None or tensors[1] is None:
        return _NEVER
    wanted = context.graph.clone_as(tensors[0].dtype, tensors[1], "table")
    context.sequence.copy(tensors[0], wanted, "table")
    return cycles_of(context)


def cycles_of(context: Context) -> int:
    """Cycles of what was lowered so far."""
    try:
        return int(_ipu.compile_graph(context.graph, [context.sequence], "mapping").cost().cycles)
    except _ipu.OutOfMemory:
        return _NEVER
