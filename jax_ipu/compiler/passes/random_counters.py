"""Takes the ops around "ipu.threefry2x32" into it: those that count its counters, and those that combine its words.

The attribute "counters" holds for each word of the counter its value at position 0 and how much it grows along every
dimension; then that word is no operand any more. A hash whose words are used in one way only, by their exclusive or or
as one 64-bit number, has that as its one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.threefry import NAME
from jax_ipu.compiler.types import SIGNED, Shape, bit_width

# How many ops one after the other may count.
_MAX_DEPTH = 64
# The values of a word of a counter: (start, strides), or None where it is an operand.
Counter = tuple[int, tuple[int, ...]] | None


class _Affine(NamedTuple):
    """An integer tensor with the element start + sum(i_d * strides[d]) at position i, and no wrapping."""

    start: int
    strides: tuple[int, ...]


def run(module: Module) -> None:
    """Rewrites every "ipu.threefry2x32" of main."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    ops: list[Op] = []
    dropped: set[Op] = set()
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        if op.name == NAME and "counters" not in op.attrs:
            op = _rewrite(op, dropped)
        ops.append(op)
    block.ops = [op for op in ops if op not in dropped] if dropped else ops


def _rewrite(op: Op, dropped: set[Op]) -> Op:
    counters: list[Counter] = []
    operands = op.operands[:2]
    known: dict[Value, _Affine | None] = {}
    for word in op.operands[2:]:
        affine = _affine(word, known)
        counters.append(None if affine is None else (affine.start, affine.strides))
        if affine is None:
            operands.append(word)
    last, dtype, chain = _combined(op)
    olds = op.results if last is None else [last]
    new = Op(NAME, operands, [(o.shape, dtype) for o in olds], {"counters": tuple(counters)}, (), op.location)
    for old, result in zip(olds, new.results, strict=True):
        old.replace_with(result)
    for user in reversed(chain):
        user.drop()
    dropped.update(chain)
    op.drop()
    return new


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
        last = found.start + sum(s * (n - 1) for s, n in zip(found.strides, value.shape, strict=True))
        bits = bit_width(value.dtype) - (value.dtype in SIGNED)
        if last >= 1 << bits:
            found = None
    known[value] = found
    return found


def _of_op(value: Value, known: dict[Value, _Affine | None], depth: int) -> _Affine | None:
    op, rank = value.op, len(value.shape)
    if op is None or value.dtype[0] not in "us" or 0 in value.shape:
        return None
    literal = splat_of(value)
    if literal is not None:
        number = int(literal.scalar())
        return _Affine(number, (0,) * rank) if number >= 0 else None
    if op.name == "iota":
        return _Affine(0, tuple(int(d == op.attrs["iota_dimension"]) for d in range(rank)))
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
        return _Affine(start, tuple(s * k for s, k in zip(a.strides, steps, strict=True)))
    return _COMBINATIONS[op.name](a, rest[0], value.shape)


def _broadcast(op: Op, a: _Affine) -> _Affine:
    strides = [0] * len(op.result.shape)
    for stride, size, d in zip(a.strides, op.operands[0].shape, op.attrs["broadcast_dimensions"], strict=True):
        strides[d] = stride if size > 1 else 0
    return _Affine(a.start, tuple(strides))


def _reshape(shape: Shape, target: Shape, a: _Affine) -> _Affine | None:
    """Only where the elements are evenly spaced in row-major order."""
    step, size = _even_step(shape, a.strides), 1
    if step is None:
        return None
    strides: list[int] = []
    for n in reversed(target):
        strides.append(step * size)
        size *= n
    return _Affine(a.start, tuple(reversed(strides)))


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
    return _Affine(a.start + b.start, tuple(x + y for x, y in zip(a.strides, b.strides, strict=True)))


def _multiply(a: _Affine, b: _Affine, shape: Shape) -> _Affine | None:
    if any(b.strides):
        return None if any(a.strides) else _multiply(b, a, shape)
    return _Affine(a.start * b.start, tuple(s * b.start for s in a.strides))


def _shift_right(a: _Affine, b: _Affine, shape: Shape) -> _Affine | None:
    """Where the result has one value, as the upper words of counters below 2**32 do."""
    last = a.start + sum(s * (n - 1) for s, n in zip(a.strides, shape, strict=True))
    if any(b.strides) or a.start >> b.start != last >> b.start:
        return None
    return _Affine(a.start >> b.start, (0,) * len(shape))


_COMBINATIONS = {"add": _add, "multiply": _multiply, "shift_right_logical": _shift_right}
