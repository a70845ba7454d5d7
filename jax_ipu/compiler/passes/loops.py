"""Simplifies loops: state that never changes is captured, and loops with a known trip count become "ipu.repeat"."""

from __future__ import annotations

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops, has_effect
from jax_ipu.compiler.passes.dce import keep_state
from jax_ipu.compiler.types import INTEGER


def run(module: Module) -> None:
    """Simplifies the loops of main, inner loops first."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        if op.name != "while":
            ops.append(op)
            continue
        _capture_invariant(op)
        count = trip_count(op)
        if count is None:
            ops.append(op)
        elif count == 0 or not (op.results or has_effect(op)):
            for result, operand in zip(op.results, list(op.operands), strict=True):
                result.replace_with(operand)
            op.drop()
        elif count == 1:
            ops.extend(_unrolled_once(op))
        else:
            ops.append(_repeat(op, count))
    block.ops = ops


def _capture_invariant(op: Op) -> None:
    condition, body = op.regions
    keep: list[int] = []
    for i, (arg, result) in enumerate(zip(body.args, body.results, strict=True)):
        if result is not arg:
            keep.append(i)
            continue
        operand = op.operands[i]
        body.terminator.operands[i] = operand
        operand.users.append(body.terminator)
        arg.users.remove(body.terminator)
        arg.replace_with(operand)
        condition.args[i].replace_with(operand)
        op.results[i].replace_with(operand)
    if len(keep) < len(op.operands):
        keep_state(op, keep)


def trip_count(op: Op) -> int | None:
    """The number of trips of a loop like `for (i = const; i < const; i += const)`; None for other loops."""
    condition, body = op.regions
    predicate = condition.results[0]
    test = predicate.op
    if test is None or test.name != "compare" or test not in condition.ops:
        literal = splat_of(predicate)
        return 0 if literal is not None and not literal.scalar() else None
    direction = test.attrs["comparison_direction"]
    counter, limit = test.operands
    if counter not in condition.args:
        counter, limit = limit, counter
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    if counter not in condition.args or counter.dtype not in INTEGER or counter.shape != ():
        return None
    index = condition.args.index(counter)
    end, start = splat_of(limit), splat_of(op.operands[index])
    step = _step(body, index)
    if end is None or start is None or step is None or step == 0:
        return None
    first, last = int(start.scalar()), int(end.scalar())
    if direction == "LE":
        last, direction = last + 1, "LT"
    elif direction == "GE":
        last, direction = last - 1, "GT"
    if direction == "NE" and (last - first) % step == 0 and (last - first) // step >= 0:
        return (last - first) // step
    if direction == "LT" and step > 0:
        return max(0, -(-(last - first) // step)) if _stays_in_range(counter.dtype, last + step) else None
    if direction == "GT" and step < 0:
        return max(0, -(-(first - last) // -step)) if _stays_in_range(counter.dtype, last + step) else None
    return None


def _stays_in_range(dtype: str, value: int) -> bool:
    """Whether a counter of this type can hold the value; otherwise it wraps around before the test fails."""
    bits = int(dtype[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)
    return low <= value <= high


def _step(body: Block, index: int) -> int | None:
    arg, update = body.args[index], body.results[index].op
    if update is None or update.name not in ("add", "subtract") or update not in body.ops:
        return None
    a, b = update.operands
    if a is not arg and update.name == "add":
        a, b = b, a
    literal = splat_of(b)
    if a is not arg or literal is None:
        return None
    step = int(literal.scalar())
    return step if update.name == "add" else -step


def _unrolled_once(op: Op) -> list[Op]:
    body = op.regions[1]
    mapping: dict[Value, Value] = dict(zip(body.args, op.operands, strict=True))
    ops = clone_ops(body, mapping)
    terminator = ops.pop()
    results = list(terminator.operands)
    terminator.drop()
    for result, value in zip(op.results, results, strict=True):
        result.replace_with(value)
    op.drop()
    return ops


def _repeat(op: Op, count: int) -> Op:
    condition, body = op.regions
    for inner in reversed(condition.ops):
        inner.drop()
    op.name = "ipu.repeat"
    op.attrs = {"count": count}
    op.regions = [body]
    return op
