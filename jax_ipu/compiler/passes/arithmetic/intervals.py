"""Between which numbers the elements of integer values lie, where the program says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.arithmetic.simplify_views import literal_of
from jax_ipu.compiler.types import INTEGER, SIGNED, bit_width, num_elements

# How many ops are between a value and what says where it lies, and how many elements of a constant are looked at.
_MAX_DEPTH = 12
_MAX_ELEMENTS = 4096
# Their elements are among those of their operands.
_MOVES = frozenset(
    ("broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "concatenate", "dynamic_slice", "sort")
)


class Interval(NamedTuple):
    """The least and the greatest number."""

    low: int
    high: int


def interval_of(value: Value) -> Interval:
    """Where the elements of an integer value or predicate (0 and 1) lie; at most all numbers of its type."""
    return _interval(value, _MAX_DEPTH, {})


def numbers_of(dtype: str) -> Interval:
    """All numbers of an integer type."""
    if dtype == "pred":
        return Interval(0, 1)
    bits = bit_width(dtype)
    return Interval(-(1 << bits - 1), (1 << bits - 1) - 1) if dtype in SIGNED else Interval(0, (1 << bits) - 1)


def _interval(value: Value, depth: int, known: dict[Value, Interval]) -> Interval:
    every = numbers_of(value.dtype)
    if value.op is None or depth == 0:
        return every
    if value not in known:
        found = _of_op(value.op, depth - 1, known)
        # Arithmetic wraps.
        inside = found is not None and every.low <= found.low and found.high <= every.high
        known[value] = found if found is not None and inside else every
    return known[value]


def _of_op(op: Op, depth: int, known: dict[Value, Interval]) -> Interval | None:
    if op.name == "constant":
        return _of_constant(op.result)
    if len(op.results) != 1:
        return None
    if op.name == "iota":
        return Interval(0, max(op.result.shape[op.attrs["iota_dimension"]] - 1, 0))
    sources: Sequence[Value] = op.operands
    if op.name == "dynamic_slice":
        sources = op.operands[:1]
    elif op.name == "select":
        sources = op.operands[1:]
    if any(o.dtype not in INTEGER and o.dtype != "pred" for o in sources) or not sources:
        return None
    terms = [_interval(o, depth, known) for o in sources]
    if op.name in _MOVES or op.name == "select":
        return Interval(min(t.low for t in terms), max(t.high for t in terms))
    if op.name == "convert" or (op.name == "bitcast_convert" and _keeps_numbers(op, terms[0])):
        return terms[0]
    if op.name == "clamp":
        low, x, high = terms
        return Interval(min(max(x.low, low.low), high.low), min(max(x.high, low.high), high.high))
    return _of_two(op.name, *terms) if len(terms) == 2 and op.result.dtype != "pred" else None


def _keeps_numbers(bitcast: Op, term: Interval) -> bool:
    """Whether the bits of numbers in `term` are the same numbers in the other type."""
    source = bitcast.operands[0].dtype
    return term.low >= 0 and bit_width(source) == bit_width(bitcast.result.dtype)


def _of_constant(value: Value) -> Interval | None:
    literal = splat_of(value) or literal_of(value)
    if literal is None or not literal.data or (value.dtype not in INTEGER and value.dtype != "pred"):
        return None
    if literal.splat:
        return Interval(int(literal.scalar()), int(literal.scalar()))
    if num_elements(literal.shape) > _MAX_ELEMENTS:
        return None
    numbers = literal.numpy()
    return Interval(int(numbers.min()), int(numbers.max()))


def _of_two(name: str, a: Interval, b: Interval) -> Interval | None:
    """Of exact arithmetic: the caller sees whether the numbers fit the type."""
    match name:
        case "add":
            return Interval(a.low + b.low, a.high + b.high)
        case "subtract":
            return Interval(a.low - b.high, a.high - b.low)
        case "multiply":
            corners = [x * y for x in a for y in b]
            return Interval(min(corners), max(corners))
        case "maximum":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "minimum":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "and" if a.low >= 0 or b.low >= 0:
            return Interval(0, min(t.high for t in (a, b) if t.low >= 0))
        case "divide" if b.low > 0 and a.low >= 0:
            return Interval(a.low // b.high, a.high // b.low)
        case "remainder" if b.low > 0 and a.low >= 0:
            return Interval(0, min(a.high, b.high - 1))
        case "shift_right_logical" | "shift_right_arithmetic" if a.low >= 0 and b.low == b.high and 0 <= b.low < 64:
            return Interval(a.low >> b.low, a.high >> b.low)
    return None
