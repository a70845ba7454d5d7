"""Takes the ops around "ipu.threefry2x32" into it: those that count its counters, and those that combine its words.

The attribute "counters" holds for each word of the counter its value at position 0 and how much it grows along every
dimension; then that word is no operand any more. With several IPUs, counters also depend on the part that an IPU has:
then the word stays an operand, but one number for all positions, and the attribute holds the rest of it. A hash whose
words are used in one way only, by their exclusive or or as one 64-bit number, has that as its one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.passes.threefry import NAME
from jax_ipu.compiler.types import SIGNED, Shape, bit_width, num_elements

# How many ops one after the other may count.
_MAX_DEPTH = 64
# What a word of a counter is, without its operand if it has one: (start, strides).
Counter = tuple[int, tuple[int, ...]]


class _Term(NamedTuple):
    """A number that is known at run time only: an integer tensor of one element, and its smallest and largest value."""

    value: Value
    least: int
    most: int


class _Affine(NamedTuple):
    """An integer tensor: start + sum(i_d * strides[d]) + the sum of the terms times their factors, without wrapping."""

    start: int
    strides: tuple[int, ...]
    terms: tuple[tuple[_Term, int], ...] = ()

    def range(self, shape: Shape) -> tuple[int, int]:
        """The smallest and the largest element."""
        last = self.start + sum(s * (n - 1) for s, n in zip(self.strides, shape, strict=True))
        least = self.start + sum(factor * term.least for term, factor in self.terms)
        return least, last + sum(factor * term.most for term, factor in self.terms)


def run(module: Module) -> None:
    """Rewrites every "ipu.threefry2x32" of main."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    rewriter = Rewriter()
    dropped: set[Op] = set()
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        if op.name == NAME and "counters" not in op.attrs:
            rewriter.location = op.location
            _rewrite(op, rewriter, dropped)
        else:
            rewriter.ops.append(op)
    block.ops = [op for op in rewriter.ops if op not in dropped] if dropped else rewriter.ops


def _rewrite(op: Op, rewriter: Rewriter, dropped: set[Op]) -> None:
    counters: list[Counter] = []
    operands: list[Value | None] = [*op.operands[:2]]
    known: dict[Value, _Affine | None] = {}
    for word in op.operands[2:]:
        affine = _affine(word, known)
        if affine is None:
            counters.append((0, (0,) * len(word.shape)))
            operands.append(word)
        else:
            counters.append((affine.start % (1 << 32), tuple(s % (1 << 32) for s in affine.strides)))
            operands.append(_total(affine, word.shape, rewriter))
    last, dtype, chain = _combined(op)
    olds = op.results if last is None else [last]
    attrs = {"counters": tuple(counters), "has_operand": tuple(o is not None for o in operands[2:])}
    given = [o for o in operands if o is not None]
    new = Op(NAME, given, [(o.shape, dtype) for o in olds], attrs, (), op.location)
    rewriter.ops.append(new)
    for old, result in zip(olds, new.results, strict=True):
        old.replace_with(result)
    for user in reversed(chain):
        user.drop()
    dropped.update(chain)
    op.drop()


def _total(affine: _Affine, shape: Shape, rewriter: Rewriter) -> Value | None:
    """The sum of the terms times their factors modulo 2**32, at every position; None where there are no terms."""
    total: Value | None = None
    for term, factor in affine.terms:
        number = rewriter.convert(rewriter.reshape(term.value, ()), "u32")
        part = rewriter.elementwise("multiply", number, rewriter.full((), "u32", factor))
        total = part if total is None else rewriter.elementwise("add", total, part)
    return None if total is None else rewriter.broadcast(total, shape, ())


def _combined(op: Op) -> tuple[Value | None, str, list[Op]]:
    """The one value that is made of both words, its type, and the ops that make it; no value where there is none."""
    x, y = op.results
    only_x, only_y = _only_user(x), _only_user(y)
    if only_x is None or only_y is None:
        return None, "u32", []
    if only_x is only_y and only_x.name == "xor":
        narrow = _only_user(only_x.result)
        if narrow is not None and narrow.name == "convert" and narrow.result.dtype in ("u8", "u16"):
            return narrow.result, narrow.result.dtype, [only_x, narrow]
        return only_x.result, "u32", [only_x]
    if all(user.name == "convert" and user.result.dtype == "u64" for user in (only_x, only_y)):
        shift, both = _only_user(only_x.result), _only_user(only_y.result)
        if shift is None or both is None or shift.name != "shift_left" or shift.operands[0] is not only_x.result:
            return None, "u32", []
        bits = splat_of(shift.operands[1])
        if bits is not None and bits.scalar() == 32 and both.name == "or" and _only_user(shift.result) is both:
            return both.result, "u64", [only_x, only_y, shift, both]
    return None, "u32", []


def _only_user(value: Value) -> Op | None:
    users = set(value.users)
    return next(iter(users)) if len(users) == 1 else None


def _affine(value: Value, known: dict[Value, _Affine | None], depth: int = 0) -> _Affine | None:
    """The value as numbers that count up, None where it is not known to be that."""
    if value in known:
        return known[value]
    found = _of_op(value, known, depth)
    if found is not None:
        least, most = found.range(value.shape)
        if least < 0 or most >= 1 << (bit_width(value.dtype) - (value.dtype in SIGNED)):
            found = None
    known[value] = found
    return found


def _of_op(value: Value, known: dict[Value, _Affine | None], depth: int) -> _Affine | None:
    op, rank = value.op, len(value.shape)
    if op is None or value.dtype[0] not in "us" or 0 in value.shape:
        return None
    literal = splat_of(value)
    if literal is not None:
        return _Affine(int(literal.scalar()), (0,) * rank)
    if op.name == "iota":
        return _Affine(0, tuple(int(d == op.attrs["iota_dimension"]) for d in range(rank)))
    if op.name == "dynamic_slice":
        return _looked_up(value, op)
    if depth == _MAX_DEPTH or op.name not in ("convert", "broadcast_in_dim", "reshape", "slice", *_COMBINATIONS):
        return None
    operands = [_affine(operand, known, depth + 1) for operand in op.operands]
    if any(operand is None for operand in operands):
        return None
    a, *rest = [operand for operand in operands if operand is not None]
    if op.name == "convert":
        return a
    if op.name == "broadcast_in_dim":
        return _broadcast(op, a)
    if op.name == "reshape":
        return _reshape(op.operands[0].shape, value.shape, a)
    if op.name == "slice":
        steps = op.attrs["strides"]
        start = a.start + sum(b * s for b, s in zip(op.attrs["start_indices"], a.strides, strict=True))
        return _Affine(start, tuple(s * k for s, k in zip(a.strides, steps, strict=True)), a.terms)
    return _COMBINATIONS[op.name](a, rest[0], value.shape)


def _looked_up(value: Value, op: Op) -> _Affine | None:
    """A number from a constant table, as the partitioner looks up by the number of an IPU which part it has."""
    table = op.operands[0].op
    if num_elements(value.shape) != 1 or table is None or table.name != "constant":
        return None
    numbers = table.attrs["value"].numpy()
    term = _Term(value, int(numbers.min()), int(numbers.max()))
    return _Affine(0, (0,) * len(value.shape), ((term, 1),))


def _broadcast(op: Op, a: _Affine) -> _Affine:
    strides = [0] * len(op.result.shape)
    for stride, size, d in zip(a.strides, op.operands[0].shape, op.attrs["broadcast_dimensions"], strict=True):
        strides[d] = stride if size > 1 else 0
    return _Affine(a.start, tuple(strides), a.terms)


def _reshape(shape: Shape, target: Shape, a: _Affine) -> _Affine | None:
    """Only where the elements are evenly spaced in row-major order."""
    step, size = _even_step(shape, a.strides), 1
    if step is None:
        return None
    strides: list[int] = []
    for n in reversed(target):
        strides.append(step * size)
        size *= n
    return _Affine(a.start, tuple(reversed(strides)), a.terms)


def _even_step(shape: Shape, strides: Sequence[int]) -> int | None:
    step: int | None = None
    size = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if step is None:
            step = stride
        if stride != step * size:
            return None
        size *= n
    return step or 0


def _add(a: _Affine, b: _Affine, shape: Shape) -> _Affine | None:
    del shape
    strides = tuple(x + y for x, y in zip(a.strides, b.strides, strict=True))
    return _Affine(a.start + b.start, strides, (*a.terms, *b.terms))


def _multiply(a: _Affine, b: _Affine, shape: Shape) -> _Affine | None:
    if any(b.strides) or b.terms:
        return None if any(a.strides) or a.terms else _multiply(b, a, shape)
    factor = b.start
    terms = tuple((term, own * factor) for term, own in a.terms)
    return _Affine(a.start * factor, tuple(s * factor for s in a.strides), terms)


def _shift_right(a: _Affine, b: _Affine, shape: Shape) -> _Affine | None:
    """Where the result has one value, as the upper words of counters below 2**32 do."""
    least, most = a.range(shape)
    if any(b.strides) or b.terms or least >> b.start != most >> b.start:
        return None
    return _Affine(least >> b.start, (0,) * len(shape))


_COMBINATIONS = {"add": _add, "multiply": _multiply, "shift_right_logical": _shift_right}
