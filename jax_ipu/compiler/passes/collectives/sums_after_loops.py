"""A loop that adds up sums over IPUs adds up what each IPU has, and the total is summed over the IPUs once, behind it.

JAX sums the gradient of weights that IPUs share in every trip: of a `scan` over micro-batches, or over the stages of a
pipeline. All-reduces move out where the loop only adds what is made of them to its state, by ops that are linear. Sums
of floats change their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jax_ipu.compiler.expression import single_op, splat_of
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.replica_groups import channel_of
from jax_ipu.compiler.types import FLOAT

# Ops that move elements, each to places that depend on shapes only.
_MOVES = frozenset(("reshape", "transpose", "slice", "reverse", "broadcast_in_dim", "concatenate", "copy"))
# Floats that hold every number of others.
_WIDER = {"f32": ("f16", "bf16"), "f64": ("f16", "bf16", "f32")}


def run(module: Module) -> None:
    """Moves sums out of the loops of main, out of inner loops first, in a program for several IPUs."""
    if module.num_replicas * module.num_partitions > 1:
        _run_block(module.main.block, module)


def _run_block(block: Block, module: Module) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            if op.name != "all_reduce":
                _run_block(region, module)
        if op.name not in LOOPS:
            ops.append(op)
            continue
        before, behind = Rewriter(), Rewriter()
        for index in range(len(op.results)):
            _move(op, index, before, behind, module)
        ops += [*before.ops, op, *behind.ops]
    block.ops = ops


def _move(loop: Op, index: int, before: Rewriter, behind: Rewriter, module: Module) -> None:
    """Moves the all-reduces of one carried value."""
    body, result = loop.regions[-1], loop.results[index]
    sums = _sums_added(body, index)
    if not sums or len({groups_key(value.op) for value in sums}) > 1:
        return
    if any(condition.args[index].users for condition in loop.regions[:-1]):
        return
    # A loop that runs an unknown number of times may run once.
    trips = loop.attrs["count"] if loop.name == "ipu.repeat" else 1
    if trips * sum(map(size_in_bytes, sums)) < size_in_bytes(result):
        return
    first = loop.operands[index]
    from_zero = is_zero(first)
    if module.frugal and not from_zero:
        return  # the first value would be kept until the loop ends
    model = sums[0].op
    assert model is not None
    before.location = behind.location = model.location
    types = [(result.shape, result.dtype)]
    total = Op("all_reduce", [], types, attributes(model), (combiner(result.dtype, model.location),), model.location)
    if from_zero:
        result.replace_with(total.result)
        behind.ops.append(total)
    else:
        behind.ops.append(total)
        added = behind.elementwise("add", first, total.result)
        result.replace_with(added)
        operands = list(loop.operands)
        operands[index] = before.full(first.shape, first.dtype, 0)
        loop.set_operands(operands)
    total.set_operands([result])
    for value in sums:
        _leave_out(body, value)


def _sums_added(body: Block, index: int) -> list[Value] | None:
    """The all-reduced values of which the body makes what it adds to the carried value, or None: see `addends`."""
    found = addends(body, index, is_sum, linear_in)
    return None if found is None else found.values


class Addends(NamedTuple):
    """What a loop's body adds to a carried value.

    Attributes:
        values: results of the ops that were looked for.
        between: the ops that make the new value of these and of the old one.
    """

    values: list[Value]
    between: set[Op]


def addends(
    body: Block, index: int, is_wanted: Callable[[Op], bool], operands_of: Callable[[Op], list[Value] | None]
) -> Addends | None:
    """How the body makes the carried value: the old one, to which it adds what it makes of the results of wanted ops.

    Args:
        body: of a loop.
        index: the carried value's.
        is_wanted: whether an op's result is an addend.
        operands_of: the operands in which another op is linear, None where it is not or may not lie between.

    Returns:
        None if the body does anything else, or uses a value on the way twice.
    """
    state = body.args[index]
    found = Addends([], set())
    seen_state = False
    # Values, and whether they are added to the result as they are.
    waiting = [(body.results[index], True)]
    inside = set(body.ops)
    while waiting:
        value, is_added = waiting.pop()
        if is_zero(value):
            continue
        op = value.op
        if len(value.users) != 1 or (op is None and value is not state) or (op is not None and op not in inside):
            return None
        if op is None:
            if not is_added:
                return None
            seen_state = True
        elif is_wanted(op):
            found.values.append(value)
        elif (operands := operands_of(op)) is not None:
            found.between.add(op)
            plain = op.name == "add"
            waiting += [(o, is_added and (plain or (op.name == "subtract" and i == 0))) for i, o in enumerate(operands)]
        else:
            return None
    return found if seen_state else None


def linear_in(op: Op) -> list[Value] | None:
    """The operands of which the result is a linear function, the same on all IPUs; None for other ops."""
    if op.result.dtype == "pred":
        return None
    if op.name in _MOVES or op.name in ("add", "subtract", "negate"):
        return op.operands
    if op.name == "pad":
        return op.operands[:1] if is_zero(op.operands[1]) else None
    if op.name == "convert":
        return op.operands if op.operands[0].dtype in _WIDER.get(op.result.dtype, ()) else None
    if op.name == "multiply":
        scaled = [o for o in op.operands if not _is_finite(o)]
        return scaled if len(scaled) == 1 else None
    if op.name == "divide" and op.result.dtype in FLOAT and _is_finite(op.operands[1]) and not is_zero(op.operands[1]):
        return op.operands[:1]
    return None


def is_sum(op: Op, name: str = "all_reduce") -> bool:
    """Whether the op is that collective, and sums numbers over IPUs."""
    return op.name == name and op.result.dtype != "pred" and single_op(op.regions[0]) == "add"


def _is_finite(value: Value) -> bool:
    """Whether the value is a number that is known, in all elements."""
    literal = splat_of(value)
    if literal is None:
        return False
    number = complex(literal.scalar())
    return math.isfinite(number.real) and math.isfinite(number.imag)


def is_zero(value: Value) -> bool:
    """Whether all elements are a zero that is known."""
    while value.op is not None and value.op.name in ("reshape", "broadcast_in_dim", "convert"):
        value = value.op.operands[0]
    literal = splat_of(value)
    return literal is not None and not literal.scalar()


def groups_key(op: Op | None) -> Any:
    """Equal for collectives over the same groups of IPUs."""
    assert op is not None
    return str(op.attrs.get("replica_groups")), bool(op.attrs.get("use_global_device_ids")), channel_of(op) > 0


def attributes(model: Op) -> dict[str, Any]:
    """Those of a collective over the same groups; the others describe the shape."""
    return {k: v for k, v in model.attrs.items() if k not in ("result_layout", "xla_shape")}


def combiner(dtype: str, location: Any) -> Block:
    """The body of a collective that adds."""
    rewriter = Rewriter()
    rewriter.location = location
    return rewriter.combiner("add", dtype)


def _leave_out(body: Block, value: Value) -> None:
    """Replaces one result of an all-reduce by its operand."""
    op = value.op
    assert op is not None
    position = op.results.index(value)
    value.replace_with(op.operands[position])
    kept = [i for i in range(len(op.results)) if i != position]
    if not kept:
        body.ops.remove(op)
        op.drop()
        return
    op.set_operands([op.operands[i] for i in kept])
    op.results = [op.results[i] for i in kept]
    for place, other in enumerate(op.results):
        other.index = place
