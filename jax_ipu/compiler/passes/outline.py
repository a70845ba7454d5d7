"""Outlines repeated sequences of ops, such as the layers of a network: each becomes a call of one function.

A tile always holds the code and vertices of every op that it runs. A function is stored and planned once, however often
it is called. Its operands are copied into variables of the function before each call, its results out of them after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from jax_ipu.compiler.ir import VIEWS, Block, Module, Op, Value, has_effect, outside_operands, size_in_bytes
from jax_ipu.compiler.passes.cse import structure_key

# A sequence must contain one of these: otherwise the copies cost more than the function saves.
_HEAVY = frozenset(("dot_general", "convolution"))
# What PopART says that an op is worth in a function (`getHighSubgraphValue`, `getLowSubgraphValue`).
_HIGH_VALUE, _LOW_VALUE = 1000.0, 0.1
# Attributes that only tell collectives apart: in a function, one is called several times.
_NUMBER_OF_ONE = frozenset(("channel_handle",))
_NEVER = frozenset(("while", "if", "case", "ipu.random_bits", "rng_bit_generator", "rng"))
# Bytes of code and vertex state of an op and of a large copy, summed over all tiles of an IPU, as the IPU model reports
# them for a training step of GPT-2. A copy on few tiles has less.
_CODE_BYTES_OF_OP, _CODE_BYTES_OF_COPY = 250_000, 150_000
_MOST_SHIFTS = 64
# Sequences that are looked for in the whole program, the longest first, and parts of one that are tried.
_MOST_SEQUENCES, _MOST_PARTS = 100, 16
# Blocks that follow each other, for the search that comes first.
_FEWEST_IN_A_ROW = 3
# Shorter ones have no room for the copies of an operand and a result around both calls.
_SHORTEST = 3


def run(module: Module) -> None:
    """Replaces repeated sequences of main by calls, while that saves memory.

    A sequence is worth a function if its ops are worth `module.outline_threshold` or more. Blocks that follow each
    other come first, as layers do; what is left of them, forward and backward, may have parts that are equal.
    """
    block = module.main.block
    for apart in (False, True):
        while (found := _best_repetition(block, module.outline_threshold, apart)) is not None:
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


class _Candidate(NamedTuple):
    """Windows of equal keys; all of them may start up to `slack` later. `repeats`: each begins where one ends."""

    starts: tuple[int, ...]
    length: int
    slack: int
    repeats: bool

    @property
    def code_bytes(self) -> int:
        return _code_bytes(self.length, len(self.starts))

    def windows(self, ops: list[Op], first: int, last: int) -> list[list[Op]]:
        """The ops of each window, from the position `first` in it to `last`."""
        return [ops[start + first : start + last] for start in self.starts]


def _best_repetition(block: Block, threshold: float, apart: bool) -> _Repetition | None:
    """`apart`: two windows are enough, and they may lie anywhere."""
    ops = [op for op in block.ops if op.name not in ("constant", "return")]
    best, saved = None, 0
    # Try the candidates first that would save most without the copies.
    matched: set[int] = set()
    for candidate in sorted(_candidates(ops, apart), key=lambda c: (-c.code_bytes, c.length, c.starts)):
        if candidate.code_bytes <= saved:
            break
        if candidate.repeats and any(candidate.length % known == 0 for known in matched):
            continue  # a multiple of a block that is matched already
        for found in _matches(ops, candidate):
            if _value(found.windows[0]) < threshold:
                continue
            if candidate.repeats:
                matched.add(candidate.length)
            if found.saved_bytes() > saved:
                best, saved = found, found.saved_bytes()
    return best


def _matches(ops: list[Op], candidate: _Candidate) -> Iterator[_Repetition]:
    """The repetitions that a candidate has; the start of the windows decides which values are copied."""
    if candidate.repeats:
        for shift in range(min(candidate.slack, _MOST_SHIFTS) + 1):
            found = _match(candidate.windows(ops, shift, shift + candidate.length))
            if isinstance(found, _Repetition):
                yield found
        return
    # Where the data flow differs in an op, it may be equal before it and from it on.
    parts = [(0, candidate.length)]
    for _ in range(_MOST_PARTS):
        if not parts:
            return
        first, last = parts.pop(0)
        found = _match(candidate.windows(ops, first, last))
        if isinstance(found, _Repetition):
            yield found
            continue
        after = max(first + 1, first + found)
        following = [(first, first + found), (after, last)]
        parts += [part for part in following if part[1] - part[0] >= _SHORTEST and _is_heavy(ops, candidate, part)]
        parts.sort(key=lambda part: part[0] - part[1])


def _is_heavy(ops: list[Op], candidate: _Candidate, part: tuple[int, int]) -> bool:
    start = candidate.starts[0]
    return any(op.name in _HEAVY for op in ops[start + part[0] : start + part[1]])


def _value(window: list[Op]) -> float:
    """What a function is worth, in PopART's measure."""
    return sum(_HIGH_VALUE if op.name in _HEAVY else _LOW_VALUE for op in window if op.name not in VIEWS)


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


def _candidates(ops: list[Op], apart: bool) -> Iterator[_Candidate]:
    """Windows of equal keys with a product or convolution."""
    keys = _keys(ops)
    heavy: dict[int, list[int]] = {}
    for position, (op, key) in enumerate(zip(ops, keys, strict=True)):
        if op.name in _HEAVY:
            heavy.setdefault(key, []).append(position)
    distances = {b - a for places in heavy.values() for i, a in enumerate(places) for b in places[i + 1 : i + 9]}
    sequences: set[tuple[int, ...]] = set()
    for distance in sorted(distances):
        start = 0
        while start + distance < len(keys):
            end = start
            while end + distance < len(keys) and keys[end] == keys[end + distance]:
                end += 1
            equal, begin = end - start, start
            start = end + 1
            own = ops[begin : begin + min(equal, distance)]
            if equal < _SHORTEST or not any(op.name in _HEAVY for op in own):
                continue
            count = equal // distance + 1
            if count >= (2 if apart else _FEWEST_IN_A_ROW):
                starts = tuple(begin + k * distance for k in range(count))
                yield _Candidate(starts, distance, equal % distance, True)
            sequences.add(tuple(keys[begin : begin + len(own)]))
    if apart:
        yield from _apart(keys, heavy, sequences)


def _apart(keys: list[int], heavy: dict[int, list[int]], sequences: set[tuple[int, ...]]) -> Iterator[_Candidate]:
    """The windows anywhere that have the keys of a sequence, or of its beginning where windows would overlap."""
    left = sorted(sequences, key=lambda s: (-len(s), s))[:_MOST_SEQUENCES]
    seen = set(left)
    while left:
        sequence = left.pop(0)
        anchor = next(i for i, key in enumerate(sequence) if key in heavy)
        length = len(sequence)
        starts: list[int] = []
        places = [place - anchor for place in heavy[sequence[anchor]] if place >= anchor]
        places = [place for place in places if tuple(keys[place : place + length]) == sequence]
        closest = min((b - a for a, b in pairwise(places)), default=length)
        if closest < length and (shorter := sequence[:closest]) not in seen and any(key in heavy for key in shorter):
            seen.add(shorter)
            left.append(shorter)
        for place in places:
            if not starts or place >= starts[-1] + length:
                starts.append(place)
        if len(starts) > 1:
            yield _Candidate(tuple(starts), length, 0, False)


def _match(windows: list[list[Op]]) -> _Repetition | int:
    """The windows as a repetition, or the position of the first op whose data flow differs between them."""
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
                return j
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
