"""Sums of values that are padded with zeros to different places become one concatenation.

The gradient of what is read in parts (`w[i]` of stacked weights, `x[:, :n]` and `x[:, n:]`, `x[..., ::2]` and
`x[..., 1::2]`) is such a sum, and `jax.lax.associative_scan` interleaves with such sums, or with `or`: each part is
made as large as the whole. Other values of the sum are added to the concatenation,
which may change the order of their sum. As with all sums of zeros that the compiler leaves out, -0 may stay -0.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import Shape, num_elements


class _Part(NamedTuple):
    """A value in a whole that is zero elsewhere: where it begins, and the distance of its elements."""

    value: Value
    begins: Shape
    steps: Shape

    def end(self, dim: int) -> int:
        """Behind the last element."""
        return self.begins[dim] + (self.value.shape[dim] - 1) * self.steps[dim] + 1

    def beside(self, dim: int) -> tuple[object, ...]:
        """Equal for parts that differ along `dim` only."""
        return tuple(
            (begin, step, extent) if d != dim else step
            for d, (begin, step, extent) in enumerate(zip(self.begins, self.steps, self.value.shape, strict=True))
        )


def run(module: Module) -> None:
    """Rewrites the sums of main and of its regions."""
    rewrite(module.main.block, {"add": _sum, "or": _sum})


def _sum(op: Op, rewriter: Rewriter) -> Value | None:
    if _is_inside(op):
        return None
    summands = _summands(op)
    padded = [(value, part) for value in summands if (part := _part_of(value)) is not None]
    if len(padded) < 2:
        return None
    parts = [part for _, part in padded]
    merged = _merge(parts, op.result.shape, rewriter)
    if len(merged) == len(parts):
        return None
    kept = [value for value in summands if all(value is not other for other, _ in padded)]
    # Parts that were not merged are as they were, so that their pads are not made again.
    old = {id(part): value for value, part in padded}
    made = [old.get(id(part)) or _whole(part, op.result.shape, rewriter) for part in merged]
    total, *others = (*kept, *made)
    for other in others:
        total = rewriter.elementwise(op.name, total, other)
    return total


def _is_inside(op: Op) -> bool:
    """Whether the sum is a summand of another one, which is rewritten as a whole."""
    return len(op.result.users) == 1 and op.result.users[0].name == op.name


def _summands(op: Op) -> list[Value]:
    """The values of which the op and the sums inside make the sum, in order. Sums may be nested by the thousands."""
    found: list[Value] = []
    waiting = list(op.operands[::-1])
    while waiting:
        value = waiting.pop()
        if value.op is not None and value.op.name == op.name and len(value.users) == 1:
            waiting += value.op.operands[::-1]
        else:
            found.append(value)
    return found


def _is_zero(value: Value) -> bool:
    literal = splat_of(value)
    return literal is not None and not any(literal.data)


def _part_of(value: Value) -> _Part | None:
    """The part of a value that is zero elsewhere and has no other use; None for other values."""
    op = value.op
    if op is None or len(value.users) != 1:
        return None
    if op.name == "pad":
        source, padding = op.operands
        low, high = op.attrs["edge_padding_low"], op.attrs["edge_padding_high"]
        if not _is_zero(padding) or min((*low, *high), default=0) < 0 or num_elements(source.shape) == 0:
            return None
        return _Part(source, tuple(low), tuple(n + 1 for n in op.attrs["interior_padding"]))
    if op.name == "ipu.update_slice":
        base, source = op.operands
        if not _is_zero(base) or num_elements(source.shape) == 0:
            return None
        return _Part(source, tuple(op.attrs["start_indices"]), tuple(op.attrs["strides"]))
    return None


def _merge(parts: list[_Part], whole: Shape, rewriter: Rewriter) -> list[_Part]:
    """Fewer parts with the same sum, as far as parts beside each other are found."""
    found = True
    while found:
        found = False
        for dim in range(len(whole)):
            groups: dict[tuple[object, ...], list[_Part]] = {}
            for part in parts:
                groups.setdefault(part.beside(dim), []).append(part)
            merged: list[_Part] = []
            for group in groups.values():
                in_order = sorted(group, key=lambda part: part.begins[dim])
                merge = _in_a_row if in_order[0].steps[dim] == 1 else _in_turns
                merged += merge(in_order, dim, whole[dim], rewriter)
            found = found or len(merged) < len(parts)
            parts = merged
    return parts


def _in_a_row(parts: list[_Part], dim: int, extent: int, rewriter: Rewriter) -> list[_Part]:
    """Concatenates parts that do not overlap; parts that do are left."""
    rows: list[list[_Part]] = []
    for part in parts:
        row = next((row for row in rows if row[-1].end(dim) <= part.begins[dim]), None)
        if row is None:
            rows.append([part])
        else:
            row.append(part)
    merged = []
    for row in rows:
        pieces = [row[0].value]
        for before, part in itertools.pairwise(row):
            gap = part.begins[dim] - before.end(dim)
            pieces += [_zeros(part.value, dim, gap, rewriter)] if gap else []
            pieces.append(part.value)
        merged.append(row[0] if len(row) == 1 else row[0]._replace(value=_concatenated(pieces, dim, rewriter)))
    return merged


def _in_turns(parts: list[_Part], dim: int, extent: int, rewriter: Rewriter) -> list[_Part]:
    """Joins parts of which each has every `step`th element, all with another first one; others are left."""
    begin, step = parts[0].begins[dim], parts[0].steps[dim]
    count = max(part.value.shape[dim] for part in parts)
    turns: dict[int, _Part] = {}
    left = []
    for part in parts:
        turn, missing = part.begins[dim] - begin, count - part.value.shape[dim]
        # The last turn may be short.
        fits = turn < step and (missing == 0 or (missing == 1 and begin + turn + (count - 1) * step >= extent))
        if fits and turns.setdefault(turn, part) is part:
            continue
        left.append(part)
    if len(turns) < 2:
        return parts
    first = next(iter(turns.values()))
    shape = first.value.shape
    pieces = []
    for turn in range(step):
        value = turns[turn].value if turn in turns else _zeros(first.value, dim, count, rewriter)
        if value.shape[dim] < count:
            value = _concatenated([value, _zeros(value, dim, 1, rewriter)], dim, rewriter)
        pieces.append(rewriter.reshape(value, (*shape[:dim], count, 1, *shape[dim + 1 :])))
    joined = _concatenated(pieces, dim + 1, rewriter)
    joined = rewriter.reshape(joined, (*shape[:dim], count * step, *shape[dim + 1 :]))
    ends = tuple(min(n, extent - begin) if d == dim else n for d, n in enumerate(joined.shape))
    joined = rewriter.slice(joined, (0,) * len(ends), ends)
    steps = tuple(1 if d == dim else n for d, n in enumerate(first.steps))
    begins = tuple(begin if d == dim else n for d, n in enumerate(first.begins))
    return [_Part(joined, begins, steps), *left]


def _concatenated(values: list[Value], dim: int, rewriter: Rewriter) -> Value:
    first = values[0]
    shape = tuple(sum(v.shape[dim] for v in values) if d == dim else n for d, n in enumerate(first.shape))
    return rewriter.emit("concatenate", values, shape, first.dtype, {"dimension": dim})


def _zeros(like: Value, dim: int, extent: int, rewriter: Rewriter) -> Value:
    shape = tuple(extent if d == dim else n for d, n in enumerate(like.shape))
    return rewriter.full(shape, like.dtype, 0)


def _whole(part: _Part, whole: Shape, rewriter: Rewriter) -> Value:
    """The part with the zeros around it."""
    high = tuple(n - part.end(d) for d, n in enumerate(whole))
    if part.value.shape == whole:
        return part.value
    padding = rewriter.full((), part.value.dtype, 0)
    attrs = {
        "edge_padding_low": part.begins,
        "edge_padding_high": high,
        "interior_padding": tuple(step - 1 for step in part.steps),
    }
    return rewriter.emit("pad", (part.value, padding), whole, part.value.dtype, attrs)
