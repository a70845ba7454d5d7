"""Small elementwise values that are only broadcast are computed where they are used, in the map of their user.

A map on a few elements takes a superstep of its own, most of whose cycles are the sync and the call of the vertex. The
same instructions in a map of more elements cost less, as long as these are not too many; otherwise the value stays
before the broadcast, where `hoist_broadcasts.py` has put it.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import COST, is_elementwise, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import num_elements

# The most instructions of a value, and the most that its computation in the users may take over all elements. On all
# tiles these are 22 per tile.
_MAX_OPS = 8
_MAX_COST = 32 * 1024


def run(module: Module) -> None:
    """Rewrites the broadcasts of main, and of the regions inside."""
    rewrite(module.main.block, {"broadcast_in_dim": _sunk})


def _sunk(broadcast: Op, rewriter: Rewriter) -> Value | None:
    """The value of a broadcast, computed after it; None where that does not pay."""
    source, result = broadcast.operands[0], broadcast.result
    chain = _chain(source)
    if chain is None:
        return None
    elements = 0
    # Where one of the users needs the small value, it is computed in any case.
    for user in set(source.users):
        if user.name != "broadcast_in_dim" or not all(is_elementwise(u) for u in user.result.users):
            return None
        elements += num_elements(user.result.shape)
    if elements > num_elements(source.shape) and elements * sum(COST[op.name] for op in chain) > _MAX_COST:
        return None
    shape, dims = result.shape, tuple(broadcast.attrs["broadcast_dimensions"])
    made: dict[Value, Value] = {}
    for op in chain:
        rewriter.location = op.location
        operands = []
        for operand in op.operands:
            if operand not in made:
                made[operand] = rewriter.broadcast(operand, shape, dims)
            operands.append(made[operand])
        made[op.result] = rewriter.emit(op.name, operands, shape, op.result.dtype, op.attrs)
    return made[source]


def _chain(value: Value) -> list[Op] | None:
    """The elementwise ops that compute `value`, in order; None if there are none, or others use their results."""
    ops: dict[Op, None] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        op = current.op
        if splat_of(current) is not None or op is None or not is_elementwise(op):
            continue
        if current is not value and not set(current.users) <= ops.keys():
            return None
        ops[op] = None
        if len(ops) > _MAX_OPS:
            return None
        pending.extend(op.operands)
    return _in_order(ops)


def _in_order(ops: dict[Op, None]) -> list[Op] | None:
    order: dict[Op, None] = {}

    def visit(op: Op) -> None:
        for operand in op.operands:
            if operand.op in ops and operand.op not in order and operand.op is not None:
                visit(operand.op)
        order[op] = None

    for op in ops:
        if op not in order:
            visit(op)
    return list(order) or None
