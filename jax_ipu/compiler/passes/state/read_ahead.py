"""Reads rows of values in host memory one trip of a loop before they are used, while the trip before computes.

Where tiles are kept for input and output (`ipu_io_tiles`), a loop that reads a row in each trip, such as one over
layers whose weights are stacked, becomes

    ipu.read_ahead(weights, 0)                  # starts the transfer to the tiles for input and output
    for i in range(n):
        row = ipu.take_ahead(weights)           # waits for it, and copies the row to the tiles that compute
        ipu.read_ahead(weights, i + 1)          # not in the last trip: see `lower_repeat`
        ... row ...

The number of a row must follow from counters of the loop and values from outside, and the loop must not write the rows.
A row that a loop writes leaves from these tiles in the trip after. Where only the run knows how many trips there are,
a transfer starts if the condition of the loop holds for the trip that takes it, as far as it follows from such values:
of a loop that ends on a computed value as well, one row is read that no trip takes. What is read as a whole is read as
early as there is room, in loops not before the trip that reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, clone_ops, size_in_bytes
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.state.host_memory import is_negative
from jax_ipu.compiler.types import Literal

logger = logging.getLogger(__name__)

# What may compute the numbers of rows, of which there are at most so many bytes.
_ARITHMETIC = ("add", "subtract", "multiply", "negate", "minimum", "maximum", "clamp", "compare", "select")
_INDEXING = frozenset((*_ARITHMETIC, "convert", "reshape", "broadcast_in_dim", "iota", "constant"))
_MOST_BYTES = 1 << 12
# What may compute the condition of a loop.
_CONDITION = _INDEXING | {"and", "or", "not"}


def run(module: Module) -> None:
    """Changes the reads of rows in all loops of main whose rows the tiles for input and output hold."""
    if module.io_bytes:
        _ReadAhead(module.io_bytes).run(module.main.block)


def run_whole(module: Module) -> None:
    """Starts the reads of whole values, which are in their order of execution, as early as there is room."""
    if module.io_bytes:
        ops = list(module.main.block.walk())
        slots = {op.attrs["slot"]: size_in_bytes(op.result) for op in ops if op.name == "ipu.take_ahead"}
        behind = sum(size_in_bytes(op.operands[0]) for op in ops if op.name == "ipu.host_write" and "slot" in op.attrs)
        _Whole().run(module.main.block, module.io_bytes - sum(slots.values()) - behind)


class _Whole:
    """The changes to the reads of whole values; each block has what the loops in it leave."""

    def __init__(self) -> None:
        self.number = 0

    def run(self, block: Block, room: int) -> int:
        """Changes the reads of a block and of its loops, with `room` bytes for them; returns how many it needs."""
        inside = max((self.run(op.regions[-1], room) for op in block.ops if op.name in LOOPS), default=0)
        left = room = room - inside
        least = left
        waiting = [op for op in block.ops if op.name == "ipu.host_read" and len(op.operands) == 1]
        waiting = [op for op in waiting if 0 < size_in_bytes(op.result) <= room]
        written: dict[object, int] = {}
        for i, op in enumerate(block.ops):
            # A loop writes what the ops in it write.
            within = (inner for region in op.regions for inner in region.walk())
            written.update((o.attrs.get("buffer"), i) for o in (op, *within) if o.name == "ipu.host_write")
        ops: list[Op] = []

        def start(index: int) -> None:
            nonlocal left, least
            while waiting and size_in_bytes(waiting[0].result) <= left:
                if written.get(waiting[0].attrs["buffer"], -1) >= index:
                    return
                read = waiting.pop(0)
                left -= size_in_bytes(read.result)
                least = min(least, left)
                read.attrs["slot"] = f"whole{self.number}"
                self.number += 1
                attrs = {"buffer": read.attrs["buffer"], "slot": read.attrs["slot"], "has_side_effect": True}
                ops.append(Op("ipu.read_ahead", read.operands, (), attrs, (), read.location))

        start(0)
        for index, op in enumerate(block.ops):
            if op.name == "ipu.host_read" and op in waiting:
                waiting.remove(op)  # what it reads is written just before
            ops.append(op)
            if op.name == "ipu.host_read" and "slot" in op.attrs:
                op.name = "ipu.take_ahead"
                op.set_operands(())
                left += size_in_bytes(op.result)
            if op is not block.terminator:
                start(index + 1)
        block.ops = ops
        return inside + room - least


class _ReadAhead:
    def __init__(self, io_bytes: int) -> None:
        self.left = io_bytes
        self.number = 0

    def run(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self.run(region)
            if op.name == "while" or (op.name == "ipu.repeat" and op.attrs["count"] > 1):
                ops += self._before_loop(op)
            ops.append(op)
        block.ops = ops

    def _before_loop(self, loop: Op) -> list[Op]:
        """Changes the reads of the loop; returns the ops that start the first ones."""
        body = loop.regions[-1]
        steps = _steps(loop)
        first = {arg: loop.operands[arg.index] for arg in steps}
        known = _known_conditions(loop, steps.keys()) if loop.name == "while" else None
        takes: list[Op] = []
        starts: list[Op] = []
        firsts: list[Op] = []
        following = [_following(arg, step, loop) for arg, step in steps.items()]
        then = dict(zip(steps, (add.result for _, add in following), strict=True))
        for read in list(body.ops):
            if read.name != "ipu.host_read" or len(read.operands) < 2 or read.operands[0] in body.args:
                continue
            chain = _chain(body, read.operands[1], steps.keys())
            if chain is None or _may_write_ahead(loop, read, steps.keys()):
                continue
            size = size_in_bytes(read.result)
            if size > self.left:
                self._warn(read, size)
                continue
            self.left -= size
            attrs = {"buffer": read.attrs["buffer"], "slot": f"ahead{self.number}", "has_side_effect": True}
            self.number += 1
            firsts += _start(read, chain, first, attrs)
            starts += _start(read, chain, then, {**attrs, "next": True})
            take = Op("ipu.take_ahead", (), [(read.result.shape, read.result.dtype)], attrs, (), read.location)
            takes.append(take)
            read.result.replace_with(take.result)
            read.drop()
            body.ops.remove(read)
        before: list[Op] = []
        if takes:
            before = _if_trip(loop, known, first, loop.operands, _numbers_first(firsts))
            starts = _if_trip(loop, known, then, body.args, _numbers_first(starts))
            body.ops[:0] = [*takes, *(op for ops in following for op in ops), *starts]
        else:
            for ops in following:
                for op in reversed(ops):
                    op.drop()
        for write in body.ops:
            size = size_in_bytes(write.operands[0]) if write.name == "ipu.host_write" else self.left + 1
            if size <= self.left and len(write.operands) == 3:
                self.left -= size
                write.attrs["slot"] = f"behind{self.number}"
                self.number += 1
        return before

    def _warn(self, read: Op, size: int) -> None:
        logger.warning(
            "%s is not read ahead: a row takes %.1f MiB, and %.1f MiB are free on the tiles for input and output. Give "
            "more of them (JAX_IPU_IO_TILES, or the compiler option ipu_io_tiles).",
            source_line(read.location) or "a value in host memory",
            size / 2**20,
            self.left / 2**20,
        )


def _steps(loop: Op) -> dict[Value, Literal]:
    """Arguments of the body to which each trip adds a constant, and this."""
    body = loop.regions[-1]
    found: dict[Value, Literal] = {}
    for argument, result in zip(body.args, body.results, strict=True):
        add = result.op
        if argument.shape or add is None or add.name != "add" or argument not in add.operands:
            continue
        step = splat_of(add.operands[1 if add.operands[0] is argument else 0])
        if step is not None and int(step.scalar()) != 0:
            found[argument] = step
    return found


def _chain(body: Block, rows: Value, counters: Set[Value]) -> list[Op] | None:
    """The ops of the body that make `rows` of counters and values from outside; None where they need others."""
    inside, arguments = set(body.ops), set(body.args)
    needed: set[Op] = set()
    pending = [rows]
    while pending:
        value = pending.pop()
        op = value.op
        if op is None or op not in inside:
            if value in arguments and value not in counters:
                return None
        elif op not in needed:
            if op.name not in _INDEXING or max(map(size_in_bytes, op.results)) > _MOST_BYTES:
                return None
            needed.add(op)
            pending += op.operands
    return [op for op in body.ops if op in needed]


def _start(read: Op, chain: list[Op], counters: Mapping[Value, Value], attrs: dict[str, object]) -> list[Op]:
    """Copies of the ops that make the numbers of the rows, of these counters, and the op that starts the transfer."""
    values = dict(counters)
    ops = []
    for op in chain:
        results = [(r.shape, r.dtype) for r in op.results]
        copy = Op(op.name, [values.get(o, o) for o in op.operands], results, dict(op.attrs), (), op.location)
        values.update(zip(op.results, copy.results, strict=True))
        ops.append(copy)
    source, rows = read.operands
    ops.append(Op("ipu.read_ahead", (source, values.get(rows, rows)), (), dict(attrs), (), read.location))
    return ops


def _known_conditions(loop: Op, counters: Set[Value]) -> list[Value]:
    """Values that must all be true for a trip: what follows from counters, carried values that stay, and outside."""
    condition, body = loop.regions
    computed = {
        arg
        for arg, carried, result in zip(condition.args, body.args, body.results, strict=True)
        if carried not in counters and result is not carried
    }
    for op in condition.ops[:-1]:
        small = max(map(size_in_bytes, op.results), default=0) <= _MOST_BYTES
        if op.name not in _CONDITION or not small or not computed.isdisjoint(op.operands):
            computed.update(op.results)
    known: list[Value] = []
    pending = [condition.results[0]]
    while pending:
        value = pending.pop()
        if value not in computed:
            known.append(value)
        elif value.op is not None and value.op.name == "and":
            pending += value.op.operands
    return known


def _if_trip(
    loop: Op,
    known: list[Value] | None,
    counters: Mapping[Value, Value],
    carried: Sequence[Value],
    starts: list[Op],
) -> list[Op]:
    """The ops `starts`, if the loop may have the trip with these counters, and the carried values that stay.

    Args:
        loop: the loop.
        known: the conditions for a trip that are known ahead; None where all trips are.
        counters, carried: of that trip.
        starts: what it takes.
    """
    if not known:
        return starts
    condition, body = loop.regions
    values = {arg: counters.get(own, carried[arg.index]) for arg, own in zip(condition.args, body.args, strict=True)}
    needed = {value.op for value in known if value.op is not None}
    for op in reversed(condition.ops[:-1]):
        if op in needed:
            needed.update(o.op for o in op.operands if o.op is not None)
    ops = clone_ops(Block([], [op for op in condition.ops[:-1] if op in needed]), values)
    predicate, *others = (values.get(value, value) for value in known)
    for other in others:
        ops.append(Op("and", (predicate, other), [(predicate.shape, predicate.dtype)], {}, (), loop.location))
        predicate = ops[-1].result
    regions = [Block([], [*inner, Op("return", (), (), None, (), loop.location)]) for inner in (starts, ())]
    return [*ops, Op("if", (predicate,), (), None, regions, loop.location)]


def _numbers_first(starts: list[Op]) -> list[Op]:
    """The same ops, with the transfers behind all that computes numbers: none waits for another one."""
    return sorted(starts, key=lambda op: op.name == "ipu.read_ahead")


def _following(counter: Value, step: Literal, loop: Op) -> tuple[Op, Op]:
    """The ops that make the counter of the next trip."""
    type_ = [(counter.shape, counter.dtype)]
    constant = Op("constant", (), type_, {"value": step}, (), loop.location)
    return constant, Op("add", (counter, constant.result), type_, {}, (), loop.location)


def _may_write_ahead(loop: Op, read: Op, counters: Set[Value]) -> bool:
    """Whether a trip may write rows that the next one reads: other rows than it reads itself.

    A result may lie in the memory of a donated argument of the same type.
    """
    source, rows = read.operands
    for op in loop.regions[-1].walk():
        if op.name != "ipu.host_write" or len(op.operands) < 2:
            continue
        target = op.operands[1]
        if op.attrs["buffer"] != read.attrs["buffer"] and (target.shape, target.dtype) != (source.shape, source.dtype):
            continue
        if loop.name == "while" and not _ends_by(loop, rows, source.shape[0]):  # it may go on at the last row
            return True
        if len(op.operands) < 3 or not _are_same(op.operands[2], rows) or not _moves(rows, counters):
            return True
    return False


def _ends_by(loop: Op, rows: Value, count: int) -> bool:
    """Whether the loop has no trip whose number of a row, before it is clamped, is `count` or more."""
    condition, body = loop.regions
    number = _number(rows)
    if number not in body.args:
        return False
    tested = condition.args[number.index]
    pending = [condition.results[0]]
    while pending:
        op = pending.pop().op
        if op is None or op.name not in ("and", "compare"):
            continue
        if op.name == "and":
            pending += op.operands
            continue
        direction, last = op.attrs["comparison_direction"], splat_of(op.operands[1])
        if op.operands[0] is tested and last is not None and direction in ("LT", "LE"):
            if int(last.scalar()) <= count - (direction == "LE"):
                return True
    return False


def _number(rows: Value) -> Value:
    """The number of a row, before it was converted, clamped or reshaped, or would count from the end."""
    while rows.op is not None:
        op = rows.op
        if op.name in ("reshape", "convert", "clamp"):
            rows = op.operands[1 if op.name == "clamp" else 0]
        elif op.name == "select" and is_negative(op.operands[0], op.operands[2]):
            rows = op.operands[2]
        else:
            break
    return rows


def _are_same(a: Value, b: Value) -> bool:
    a, b = _number(a), _number(b)
    if a is b:
        return True
    if a.op is None or b.op is None or a.op.name != b.op.name or a.op.attrs != b.op.attrs:
        return False
    return (bool(a.op.operands) and all(map(_are_same, a.op.operands, b.op.operands))) or a.op.name == "constant"


def _moves(rows: Value, counters: Set[Value]) -> bool:
    """Whether each trip has another row: the number is a counter and constants, added and subtracted."""
    number = _number(rows)
    if number in counters:
        return True
    op = number.op
    if op is None or op.name not in ("add", "subtract"):
        return False
    moving = [o for o in op.operands if splat_of(o) is None]
    return len(moving) == 1 and _moves(moving[0], counters)
