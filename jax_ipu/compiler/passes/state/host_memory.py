"""Keeps values in host memory ("pinned_host") there: they are read where they are used and written where they are made.

An op "ipu.host_read" reads an argument or a buffer. A slice of rows, as in a loop over layers whose weights are
stacked, reads those rows alone: their numbers are the second operand. Every other use reads the whole; `schedule` moves
such reads of arguments to their first reader. An op "ipu.host_write" writes a value into a buffer, or the row whose
number is its third operand: the stacked results of a loop, if they are results in host memory or the program puts them
there, and other values that the program puts there. Other results in host memory leave the IPU where they are made.
"""

from __future__ import annotations

import numpy as np

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import LOOPS, MAJOR_TO_MINOR, Block, Module, Op, Value, blocks_of
from jax_ipu.compiler.passes.dce import keep_state
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.program_io import Signature, in_host_memory
from jax_ipu.compiler.types import Literal, num_elements

# What `jax.device_put` in a program becomes until this pass.
TO_HOST, TO_DEVICE = "ipu.to_host", "ipu.to_device"
# The most rows that one op reads: their numbers are in SRAM.
_MAX_ROWS = 1 << 16


def run(module: Module) -> None:
    """Adds the reads and writes to main."""
    main = module.main
    block = main.block
    sources: dict[Value, str] = {}
    for position, (argument, attrs) in enumerate(zip(block.args, main.arg_attrs, strict=True)):
        if in_host_memory(attrs) and num_elements(argument.shape):
            sources[argument] = f"in{position}"
    results = {
        position: f"out{position}"
        for position, attrs in enumerate(main.result_attrs)
        if in_host_memory(attrs) and _is_row_major(attrs)
    }
    by_rows = {a for a in sources if len(a.shape) > 1 and _is_row_major(main.arg_attrs[a.index])}
    stacks = _Stacks(block, results).run()
    by_rows.update(stacks)
    sources.update(stacks)
    _drop_markers(block, sources)
    if by_rows:
        _RowReads(by_rows, sources).run(block, {})
    blocks = blocks_of(block)
    for value, buffer in sources.items():
        # A buffer of a loop's body has what that trip writes.
        _read_whole(block if value.op is None else blocks[value.op], value, buffer, block.terminator)
    _Offload(block).run()


def write_results(module: Module, signature: Signature) -> None:
    """Adds an op "ipu.host_write" after each op of main that makes a result in host memory."""
    block = module.main.block
    made: dict[Op, list[int]] = {}
    for position, value in enumerate(signature.results):
        op = value.op
        if not signature.host_results[position] or position in signature.forwarded or not num_elements(value.shape):
            continue
        if op is not None and op.name != "constant":
            signature.written_where_made.add(position)
            if op.name != "ipu.host_buffer":
                made.setdefault(op, []).append(position)
    ops = []
    for op in block.ops:
        ops.append(op)
        for position in made.get(op, ()):
            ops.append(Op("ipu.host_write", (signature.results[position],), (), {"result": position}, (), op.location))
    block.ops = ops


def _is_row_major(attrs: dict[str, object]) -> bool:
    order = attrs.get(MAJOR_TO_MINOR) or ()
    return order == tuple(range(len(order))) if isinstance(order, tuple) else False


# Row numbers ----------------------------------------------------------------------------------------------------------

# Argument of the body of a loop that counts its trips from 0 -> the number of trips.
Counters = dict[Value, int]


def _counters(loop: Op) -> Counters:
    return dict.fromkeys(_trip_numbers(loop), int(loop.attrs["count"])) if loop.name == "ipu.repeat" else {}


def _trip_numbers(loop: Op) -> list[Value]:
    """Arguments of the body of a loop that count its trips from 0."""
    if loop.name not in LOOPS:
        return []
    body = loop.regions[-1]
    found: list[Value] = []
    for first, argument, update in zip(loop.operands, body.args, body.results, strict=True):
        start, add = splat_of(first), update.op
        if start is None or argument.shape or add is None or add.name != "add" or argument not in add.operands:
            continue
        step = splat_of(add.operands[1 if add.operands[0] is argument else 0])
        if int(start.scalar()) == 0 and step is not None and int(step.scalar()) == 1:
            found.append(argument)
    return found


def _range(index: Value, counters: Counters) -> tuple[int, int] | None:
    """The first and last of consecutive numbers that the index takes, in either order; None where that is not known."""
    known = splat_of(index)
    if known is not None:
        return int(known.scalar()), int(known.scalar())
    if index in counters:
        return 0, counters[index] - 1
    op = index.op
    if op is None or op.name not in ("add", "subtract", "convert"):
        return None
    ranges = [_range(operand, counters) for operand in op.operands]
    if any(r is None for r in ranges):
        return None
    if op.name == "convert":
        return ranges[0]
    (a, b), (c, d) = (r for r in ranges if r is not None)
    if a != b and c != d:
        return None
    return (a + c, b + d) if op.name == "add" else (a - d, b - c)


# Reads ----------------------------------------------------------------------------------------------------------------


class _RowReads:
    """Replaces slices of rows of values in host memory by reads of these rows."""

    def __init__(self, values: set[Value], buffers: dict[Value, str]) -> None:
        self.values = values
        self.buffers = buffers

    def run(self, block: Block, counters: Counters) -> None:
        rewriter = Rewriter()
        for op in block.ops:
            inside = counters | _counters(op)
            for region in op.regions:
                self.run(region, inside)
            rewriter.location = op.location
            rows = self._rows(op, counters, rewriter)
            if rows is None:
                rewriter.ops.append(op)
                continue
            value, result = op.operands[0], op.result
            attrs = {"buffer": self.buffers[value], "has_side_effect": value.op is not None}
            result.replace_with(rewriter.emit("ipu.host_read", (value, rows), result.shape, result.dtype, attrs))
            op.drop()
        block.ops = rewriter.ops

    def _rows(self, op: Op, counters: Counters, rewriter: Rewriter) -> Value | None:
        """The numbers of the rows that a slice reads, s32[rows]; None for other ops."""
        if not _is_of_rows(op) or op.operands[0] not in self.values:
            return None
        value, *starts = op.operands
        rows, count = value.shape[0], op.result.shape[0]
        if op.name == "slice":
            first, stride = (int(op.attrs[name][0]) for name in ("start_indices", "strides"))
            return rewriter.constant(Literal.from_numpy("s32", np.arange(count, dtype=np.int32) * stride + first))
        number = rewriter.convert(starts[0], "s32")
        known = _range(starts[0], counters)
        if known is None or known[0] < 0 or known[1] > rows - count:
            number = _clamped(rewriter, number, rows - count + 1)
        if count == 1:
            return rewriter.reshape(number, (1,))
        numbers = rewriter.emit("iota", (), (count,), "s32", {"iota_dimension": 0})
        return rewriter.elementwise("add", rewriter.broadcast(number, (count,), ()), numbers)


def _clamped(rewriter: Rewriter, number: Value, count: int) -> Value:
    """The nearest of the numbers 0 to `count` - 1, s32[]."""
    zero, last = rewriter.full((), "s32", 0), rewriter.full((), "s32", count - 1)
    return rewriter.emit("clamp", (zero, number, last), (), "s32")


def _is_of_rows(op: Op) -> bool:
    """Whether `op` is a slice of some of the rows of its first operand."""
    if op.name not in ("slice", "dynamic_slice"):
        return False
    (rows, *row), (count, *same) = op.operands[0].shape, op.result.shape
    return row == same and 0 < count <= min(_MAX_ROWS, rows - 1)


def _read_whole(block: Block, value: Value, buffer: str, end: Op) -> None:
    """Reads the whole value before the first op of the block that uses it, but for the op `end`."""

    def needs(op: Op) -> bool:
        return op is not end and op.name not in ("ipu.host_read", "ipu.host_write") and value in op.operands

    def contains(op: Op) -> bool:
        return needs(op) or any(needs(inner) for region in op.regions for inner in region.walk())

    first = next((i for i, op in enumerate(block.ops) if contains(op)), None)
    if first is None:
        return
    attrs = {"buffer": buffer, "has_side_effect": value.op is not None}
    read = Op("ipu.host_read", (value,), [(value.shape, value.dtype)], attrs, (), block.ops[first].location)
    for op in dict.fromkeys(value.users):
        if needs(op):
            op.set_operands([read.result if o is value else o for o in op.operands])
    block.ops.insert(first, read)


# Writes of rows -------------------------------------------------------------------------------------------------------


class _Stacks:
    """Finds loops that make one row of a value in host memory in each trip, and all trips together all of its rows.

    The loop then writes the rows into a buffer, and carries the value no more. The value is a result of main in host
    memory, or the program puts the rows into host memory, or takes from there each row that it reads. Where only the
    run knows how many rows the loop makes, those that it leaves get the constant that they had before, behind it.
    """

    def __init__(self, main: Block, results: dict[int, str]) -> None:
        self.main = main
        self.results = results
        self.made: dict[Value, str] = {}

    def run(self) -> dict[Value, str]:
        """The values that are in buffers now, with the names of these."""
        self._run_block(self.main)
        return self.made

    def _run_block(self, block: Block) -> None:
        for op in list(block.ops):
            for region in op.regions:
                self._run_block(region)
            if op.name in LOOPS:
                for result in list(op.results):
                    self._write_rows(block, op, result)

    def _write_rows(self, block: Block, loop: Op, result: Value) -> None:
        body = loop.regions[-1]
        carried, update = body.args[result.index], body.results[result.index].op
        if len(result.shape) < 2 or result.shape[0] < 2 or not num_elements(result.shape):
            return
        if update is None or update.name != "dynamic_update_slice" or update not in body.ops:
            return
        if carried.users != [update] or update.operands[0] is not carried or update.result.users != [body.terminator]:
            return
        _, row, *starts = update.operands
        if row.shape != (1, *result.shape[1:]):
            return
        count: Value | None = None
        if loop.name == "while":
            number = _number(starts[0])
            if number not in _trip_numbers(loop) or not _is_filled(loop, result):
                return
            count = loop.results[number.index]
        elif loop.attrs["count"] != result.shape[0]:
            return
        elif _range(starts[0], _counters(loop)) != (0, result.shape[0] - 1):
            return
        buffer = self._buffer(result, row)
        if buffer is None:
            return
        host = Op("ipu.host_buffer", (), [(result.shape, result.dtype)], {"buffer": buffer}, (), loop.location)
        rewriter = Rewriter()
        rewriter.location = update.location
        number = rewriter.convert(starts[0], "s32")
        if count is not None:
            number = _clamped(rewriter, number, result.shape[0])
        number = rewriter.reshape(number, (1,))
        attrs = {"buffer": buffer, "has_side_effect": True}
        rewriter.ops.append(Op("ipu.host_write", (row, host.result, number), (), attrs, (), update.location))
        at = body.ops.index(update)
        body.ops[at:at] = rewriter.ops
        result.replace_with(host.result)
        at = block.ops.index(loop)
        if count is not None:
            block.ops[at + 1 : at + 1] = _fill(loop, count, result, host.result, attrs)
        block.ops.insert(at, host)
        keep_state(loop, [i for i, r in enumerate(loop.results) if r is not result])
        self.made[host.result] = buffer

    def _buffer(self, result: Value, row: Value) -> str | None:
        """The name of the buffer for the value; None where it is on the IPU."""
        returned = [i for i, value in enumerate(self.main.results) if _before_markers(value) is result]
        if any(i not in self.results for i in returned):
            return None
        if returned:
            return self.results[returned[0]] if len(returned) == 1 else None
        source = row.op
        while source is not None and source.name in ("reshape", "broadcast_in_dim"):
            source = source.operands[0].op
        put = source is not None and source.name == TO_HOST
        if not put and not (result.users and all(_is_of_rows(op) and _is_taken(op.result) for op in result.users)):
            return None
        return f"offloaded{len(self.made)}"


def _number(start: Value) -> Value:
    """The number of a row that is not negative, before it was clamped or converted, or would count from the end."""
    while start.op is not None:
        op = start.op
        if op.name in ("convert", "clamp"):
            start = op.operands[1 if op.name == "clamp" else 0]
        elif op.name == "select" and is_negative(op.operands[0], op.operands[2]):
            start = op.operands[2]
        else:
            break
    return start


def is_negative(condition: Value, number: Value) -> bool:
    """Whether the condition is that the number is below 0."""
    op = condition.op
    if op is None or op.name != "compare" or op.attrs["comparison_direction"] != "LT" or op.operands[0] is not number:
        return False
    zero = splat_of(op.operands[1])
    return zero is not None and int(zero.scalar()) == 0


def _is_filled(loop: Op, result: Value) -> bool:
    """Whether a carried value is a constant before the loop, and only the body of the loop uses it."""
    return splat_of(_before_markers(loop.operands[result.index])) is not None and not any(
        region.args[result.index].users for region in loop.regions[:-1]
    )


def _fill(loop: Op, count: Value, result: Value, host: Value, attrs: dict[str, object]) -> list[Op]:
    """A loop that writes the constant from which `result` starts to the rows from number `count` on."""
    initial = splat_of(_before_markers(loop.operands[result.index]))
    assert initial is not None
    outer, test, body = Rewriter(), Rewriter(), Rewriter()
    outer.location = test.location = body.location = loop.location
    first = outer.convert(count, "s32")
    row = outer.full((1, *result.shape[1:]), result.dtype, initial.scalar())
    tested, number = Value((), "s32"), Value((), "s32")
    end = test.full((), "s32", result.shape[0])
    more = test.elementwise("compare", tested, end, dtype="pred", comparison_direction="LT")
    test.ops.append(Op("return", (more,), (), None, (), loop.location))
    body.ops.append(Op("ipu.host_write", (row, host, body.reshape(number, (1,))), (), dict(attrs), (), loop.location))
    following = body.elementwise("add", number, body.full((), "s32", 1))
    body.ops.append(Op("return", (following,), (), None, (), loop.location))
    regions = [Block([tested], test.ops), Block([number], body.ops)]
    return [*outer.ops, Op("while", (first,), [((), "s32")], None, regions, loop.location)]


def _drop_markers(main: Block, sources: dict[Value, str]) -> None:
    """Drops the markers that say nothing new: values in host memory put there, and arguments returned unchanged."""
    ops = []
    for op in main.ops:
        value = op.operands[0] if op.operands else None
        known = op.name == TO_HOST and value in sources
        same = op.name == TO_DEVICE and value in main.args and all(u is main.terminator for u in op.result.users)
        if value is not None and (known or same):
            op.result.replace_with(value)
            op.drop()
        else:
            ops.append(op)
    main.ops = ops


def _before_markers(value: Value) -> Value:
    while value.op is not None and value.op.name in (TO_HOST, TO_DEVICE):
        value = value.op.operands[0]
    return value


def _is_taken(value: Value) -> bool:
    """Whether the program puts the value onto the IPU wherever it uses it."""

    def taken(user: Op) -> bool:
        if user.name == TO_DEVICE:
            return True
        if user.name == "optimization_barrier":
            return all(_is_taken(r) for o, r in zip(user.operands, user.results, strict=True) if o is value)
        return user.name == "reshape" and _is_taken(user.result)

    return bool(value.users) and all(taken(user) for user in value.users)


# Other values ---------------------------------------------------------------------------------------------------------


class _Offload:
    """Writes values that the program puts into host memory to buffers, and reads them before their first use.

    Removes all markers.
    """

    def __init__(self, main: Block) -> None:
        self.main = main
        self.number = 0

    def run(self) -> None:
        self._run_block(self.main)

    def _stays(self, user: Op) -> bool:
        """Whether `user` does not need the value on the IPU again."""
        if user.name in ("reshape", "broadcast_in_dim", TO_HOST):
            return all(map(self._stays, user.result.users))
        # What a branch or a trip of a loop returns is used behind it, as a result of main is.
        return user.name in ("return", "ipu.host_write", "dynamic_update_slice")

    def _run_block(self, block: Block) -> None:
        for op in list(block.ops):
            for region in op.regions:
                self._run_block(region)
            if op.name not in (TO_HOST, TO_DEVICE):
                continue
            value, marked = op.operands[0], op.result
            at = block.ops.index(op)
            used = [user for user in marked.users if not self._stays(user)]
            if op.name == TO_DEVICE or not used or not num_elements(value.shape):
                marked.replace_with(value)
                block.ops.remove(op)
                op.drop()
                continue
            buffer = f"offloaded whole{self.number}"
            self.number += 1
            host = Op("ipu.host_buffer", (), [(value.shape, value.dtype)], {"buffer": buffer, "whole": True})
            attrs = {"buffer": buffer, "has_side_effect": True}
            write = Op("ipu.host_write", (value, host.result), (), attrs, (), op.location)
            host.location = op.location
            block.ops[at : at + 1] = [host, write]
            for user in [user for user in marked.users if user not in used]:
                user.set_operands([value if o is marked else o for o in user.operands])
            marked.replace_with(host.result)
            op.drop()
            _read_whole(block, host.result, buffer, block.terminator)
