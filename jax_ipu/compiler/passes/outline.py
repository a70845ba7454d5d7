"""Outlines repeated sequences of ops, such as the layers of a network: each becomes a call of one function.

A tile always holds the code and vertices of every op that it runs. A function is stored and planned once, however often
it is called. Its operands are copied into variables of the function before each call, its results out of them after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jax_ipu.compiler.ir import VIEWS, Block, Module, Op, Value, has_effect, outside_operands, size_in_bytes
from jax_ipu.compiler.passes.cse import structure_key

MIN_CALLS = 3
# A sequence must contain one of these: otherwise the copies cost more than the function saves.
_HEAVY = frozenset(("dot_general", "convolution"))
# Attributes that only tell collectives apart: in a function, one is called several times.
_NUMBER_OF_ONE = frozenset(("channel_handle",))
_NEVER = frozenset(("while", "if", "case", "ipu.random_bits", "rng_bit_generator", "rng"))
# Bytes of code and vertex state of an op and of a large copy, summed over all tiles of an IPU, as the IPU model reports
# them for a training step of GPT-2. A copy on few tiles has less.
_CODE_BYTES_OF_OP, _CODE_BYTES_OF_COPY = 250_000, 150_000
_MOST_SHIFTS = 64


def run(module: Module) -> None:
    """Replaces repeated sequences of main by calls, while that saves memory."""
    block = module.main.block
    while (found := _best_repetition(block)) is not None:
        _outline(block, found)


class _Repetition(NamedTuple):
    """Equal sequences of ops, called windows.

    `operands[j][i]` says what value i that op j reads (`_reads`) is in each window: ("inside", op, result),
    ("constant", op, i) or ("external", number, 0). `outputs` are the results that ops outside use, as (op, result).
    Instead of the result of a broadcast, its operand is an output: the broadcast, one of `repeated`, runs once more
    after each call.
    """

    windows: list[list[Op]]
    operands: list[list[tuple[str, int, int]]]
    externals: list[list[Value]]  # by window
    outputs: list[tuple[int, int]]
    repeated: list[int]

    def saved_bytes(self) -> int:
        """The bytes of code that the function saves, less the code of the copies and the variables that they write."""
        first, calls = self.windows[0], len(self.windows)
        moved = self.externals[0] + [first[j].results[i] for j, i in self.outputs]
        sizes = [size_in_bytes(value) for value in moved]
        copies = sum(min(_CODE_BYTES_OF_COPY, size) for size in sizes)
        work = sum(1 for op in first if op.name not in VIEWS)
        return _code_bytes(work, calls) - calls * copies - sum(sizes)


def _best_repetition(block: Block) -> _Repetition | None:
    ops = [op for op in block.ops if op.name not in ("constant", "return")]
    best, saved = None, 0
    # Try the candidates first that would save most without the copies.
    matched: set[int] = set()
    for start, slack, period, count in sorted(_candidates(ops), key=lambda c: ((1 - c[3]) * c[2], c[2])):
        if _code_bytes(period, count) <= saved:
            break
        if any(period % known == 0 for known in matched):
            continue  # a multiple of a block that is matched already
        # The start of the windows decides which values are copied.
        for shift in range(min(slack, _MOST_SHIFTS) + 1):
            first = start + shift
            found = _match([ops[first + k * period : first + (k + 1) * period] for k in range(count)])
            if found is not None:
                matched.add(period)
                if found.saved_bytes() > saved:
                    best, saved = found, found.saved_bytes()
    return best


def _code_bytes(period: int, count: int) -> int:
    return (count - 1) * period * _CODE_BYTES_OF_OP


def _keys(ops: list[Op]) -> list[int]:
    """For each op a number, equal for ops that differ in their operands only."""
    numbers: dict[Any, int] = {}
    keys = []
    for op in ops:
        own: Any = id(op) if _stays(op) else structure_key(op, _NUMBER_OF_ONE, captures=True)
        keys.append(numbers.setdefault(own, len(numbers)))
    return keys


def _stays(op: Op) -> bool:
    if op.name == "ipu.call" or has_effect(op):
        return True
    return any(inner.name in _NEVER for inner in _with_inner(op))


def _reads(op: Op) -> list[Value]:
    """The operands, then what the regions take from outside beside them; equal keys have as many, in this order."""
    if not op.regions:
        return op.operands
    return [*op.operands, *(value for value in outside_operands(op) if value not in op.operands)]


def _with_inner(op: Op) -> Iterator[Op]:
    """The op and those in its regions."""
    yield op
    for region in op.regions:
        yield from region.walk()


def _candidates(ops: list[Op]) -> Iterator[tuple[int, int, int, int]]:
    """Consecutive equal keys with a product or convolution: (start, how far it can shift, period, windows)."""
    keys = _keys(ops)
    heavy: dict[int, list[int]] = {}
    for position, (op, key) in enumerate(zip(ops, keys, strict=True)):
        if op.name in _HEAVY:
            heavy.setdefault(key, []).append(position)
    distances = {b - a for places in heavy.values() for i, a in enumerate(places) for b in places[i + 1 : i + 9]}
    for period in sorted(d for d in distances if d * MIN_CALLS <= len(ops)):
        start = 0
        while start + period < len(keys):
            end = start
            while end + period < len(keys) and keys[end] == keys[end + period]:
                end += 1
            count = (end - start) // period + 1
            if count >= MIN_CALLS and any(op.name in _HEAVY for op in ops[start : start + period]):
                yield start, (end - start) % period, period, count
            start = end + 1


def _match(windows: list[list[Op]]) -> _Repetition | None:
    """The windows as a repetition; None where the data flow inside them differs."""
    inside = [{result: (j, i) for j, op in enumerate(w) for i, result in enumerate(op.results)} for w in windows]
    slots: dict[tuple[Value, ...], int] = {}
    operands: list[list[tuple[str, int, int]]] = []
    for j in range(len(windows[0])):
        row = []
        for i, values in enumerate(zip(*(_reads(window[j]) for window in windows), strict=True)):
            places = [inside[k].get(value) for k, value in enumerate(values)]
            constants = {v.op.attrs["value"].key() for v in values if v.op is not None and v.op.name == "constant"}
            if places[0] is not None and all(place == places[0] for place in places):
                row.append(("inside", *places[0]))
            elif len(constants) == 1 and all(v.op is not None and v.op.name == "constant" for v in values):
                row.append(("constant", j, i))
            elif not any(place is not None for place in places) and not constants:
                row.append(("external", slots.setdefault(values, len(slots)), 0))
            else:
                return None
        operands.append(row)
    outputs = {
        inside[k][result]
        for k, window in enumerate(windows)
        for members in [{inner for op in window for inner in _with_inner(op)}]
        for op in window
        for result in op.results
        if any(user not in members for user in result.users)
    }
    # A broadcast is a view without memory of its own; copied out of the function, it would lie on the few tiles of its
    # operand.
    repeated: list[int] = []
    for j, op in reversed(list(enumerate(windows[0]))):
        if op.name == "broadcast_in_dim" and (j, 0) in outputs:
            outputs.remove((j, 0))
            repeated.insert(0, j)
            kind, a, b = operands[j][0]
            if kind == "inside":
                outputs.add((a, b))
    externals = [[values[k] for values in slots] for k in range(len(windows))]
    return _Repetition(windows, operands, externals, sorted(outputs), repeated)


def _outline(block: Block, found: _Repetition) -> None:
    first = found.windows[0]
    body = _body(found)
    result_types = [(v.shape, v.dtype) for v in (first[j].results[i] for j, i in found.outputs)]
    calls: dict[Op, list[Op]] = {}
    replaced: dict[Value, Value] = {}
    holder: Op | None = None
    for window, externals in zip(found.windows, found.externals, strict=True):
        attrs = {} if holder is None else {"of": holder}
        operands = [replaced.get(value, value) for value in externals]
        call = Op("ipu.call", operands, result_types, attrs, [body] if holder is None else (), window[0].location)
        holder = holder or call
        for (j, i), result in zip(found.outputs, call.results, strict=True):
            replaced[window[j].results[i]] = result
            window[j].results[i].replace_with(result)
        again = []
        for old in (window[j] for j in found.repeated):
            value = replaced.get(old.operands[0], old.operands[0])
            new = Op(old.name, [value], [(old.result.shape, old.result.dtype)], dict(old.attrs), (), old.location)
            replaced[old.result] = new.result
            old.result.replace_with(new.result)
            again.append(new)
        calls[window[0]] = [call, *again]
    gone = {op for window in found.windows for op in window}
    block.ops = [new for op in block.ops if op in calls or op not in gone for new in calls.get(op, [op])]
    for window in found.windows:
        for op in reversed(window):
            op.drop()


def _body(found: _Repetition) -> Block:
    args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate(found.externals[0])]
    ops: list[Op] = []
    for old, row in zip(found.windows[0], found.operands, strict=True):
        reads = []
        for value, (kind, a, b) in zip(_reads(old), row, strict=True):
            reads.append(ops[a].results[b] if kind == "inside" else args[a] if kind == "external" else value)
        inside = dict(zip(_reads(old), reads, strict=True))
        for region in old.regions:
            for inner in region.walk():
                if any(o in inside for o in inner.operands):
                    inner.set_operands([inside.get(o, o) for o in inner.operands])
        types = [(r.shape, r.dtype) for r in old.results]
        operands = reads[: len(old.operands)]
        ops.append(Op(old.name, operands, types, dict(old.attrs), old.regions, old.location))
        old.regions = []
    ops.append(Op("return", [ops[j].results[i] for j, i in found.outputs], []))
    return Block(args, ops)
