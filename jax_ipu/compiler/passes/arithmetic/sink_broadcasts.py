"""Small elementwise values that are only broadcast are computed where they are used, in the map of their user.

A map on a few elements takes a superstep of its own, most of whose cycles are the sync and the call of the vertex. The
same instructions in a map of more elements cost less, as long as these are not too many; otherwise the value stays
before the broadcast, where `hoist_broadcasts.py` has put it. What only depends on scalars costs a vertex the same for
any number of elements, because it is computed before the loop; but an op that is alone has a faster codelet than a map.
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
# The most that a scalar may take, and the most ops that may compute it again: every vertex does so once.
_MAX_SCALAR_COST = 8
_MAX_SCALAR_USERS = 2


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
    readers: list[Op] = []
    # Where one of the users needs the small value, it is computed in any case.
    for user in set(source.users):
        if user.name != "broadcast_in_dim" or not all(is_elementwise(u) for u in user.result.users):
            return None
        elements += num_elements(user.result.shape)
        readers += user.result.users
    cost = sum(COST[op.name] for op in chain)
    if num_elements(source.shape) == 1 and cost <= _MAX_SCALAR_COST and len(readers) <= _MAX_SCALAR_USERS:
        elements = 1 if all(map(_is_fused, readers)) else elements
    if elements > num_elements(source.shape) and elements * cost > _MAX_COST:
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


def _is_fused(op: Op) -> bool:
    """Whether another elementwise op of this shape makes or reads what `op` does, so that both become one map."""
    makers = [operand.op for operand in op.operands if operand.op is not None]
    return any(is_elementwise(other) and other.result.shape == op.result.shape for other in (*makers, *op.result.users))


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
