"""Quotients and remainders of integers by constants, as few operations.

A device divides by a constant in about 20 instructions, by other numbers in about 280 (`hlo/ConstantDivision.hpp`), so
- a remainder is what the quotient leaves, and shares it with other uses;
- quotients and remainders that are rounded down, which JAX writes as `//` and `%`, are taken of numbers without a sign:
  the quotient of a negative x is that of ~x, inverted;
- numbers that are never negative (`intervals.py`) are divided without a sign as well.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.arithmetic.intervals import interval_of
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import INTEGER, SIGNED, bit_width

_UNSIGNED = {"s8": "u8", "s16": "u16", "s32": "u32", "s64": "u64"}


def run(module: Module) -> None:
    """Rewrites the divisions of main."""
    rewrite(module.main.block, {"select": _select})
    rewrite(module.main.block, {"divide": _divide, "remainder": _remainder})


def _select(op: Op, rewriter: Rewriter) -> Value | None:
    """The quotient or remainder that is rounded down; None for other selects."""
    predicate, corrected, source = op.operands
    division = source.op
    if division is None or division.name not in ("divide", "remainder") or source.dtype not in _UNSIGNED:
        return None
    x, y = division.operands
    divisor = _divisor(y)
    if divisor is None or divisor < 2 or not _is_correction(predicate, x, divisor):
        return None
    if division.name == "divide":
        if _added(corrected, source) != -1:
            return None
        return _rounded_down(x, divisor, rewriter)
    if _added(corrected, source) != divisor:
        return None
    if _is_power(divisor):
        return rewriter.elementwise("and", x, rewriter.full(x.shape, x.dtype, divisor - 1))
    return _rest(x, _rounded_down(x, divisor, rewriter), divisor, rewriter)


def _divisor(value: Value) -> int | None:
    literal = splat_of(value)
    return int(literal.scalar()) if literal is not None and literal.data and value.dtype in INTEGER else None


def _is_power(divisor: int) -> bool:
    return divisor & (divisor - 1) == 0


def _added(value: Value, source: Value) -> int | None:
    """n of `source + n`; None for other values."""
    op = value.op
    if op is None or op.name not in ("add", "subtract"):
        return None
    a, b = op.operands
    if op.name == "add" and b is source:
        a, b = b, a
    number = _divisor(b) if a is source else None
    return number if number is None or op.name == "add" else -number


def _is_correction(value: Value, x: Value, divisor: int) -> bool:
    """Whether a predicate says that x is negative and not a multiple of the positive divisor."""
    if value.op is None or value.op.name != "and":
        return False
    terms = value.op.operands
    return any(
        _is_inexact(some, x, divisor) and _is_negative(other, x, divisor) for some, other in (terms, terms[::-1])
    )


def _compared(value: Value, direction: str, number: int) -> Value | None:
    """v of the comparison of v with a number; None for other values."""
    op = value.op
    if op is None or op.name != "compare" or op.attrs["comparison_direction"] != direction:
        return None
    a, b = op.operands
    return a if _divisor(b) == number else None


def _is_remainder(value: Value | None, x: Value, divisor: int) -> bool:
    op = value.op if value is not None else None
    return op is not None and op.name == "remainder" and op.operands[0] is x and _divisor(op.operands[1]) == divisor


def _is_inexact(value: Value, x: Value, divisor: int) -> bool:
    return _is_remainder(_compared(value, "NE", 0), x, divisor)


def _is_negative(value: Value, x: Value, divisor: int) -> bool:
    """Of x, if the remainder is not 0; for x = 0, where it is, the answer may be anything."""
    if _is_remainder(_compared(value, "LT", 0), x, divisor):
        return True
    sign = _compared(value, "NE", 1)
    return sign is not None and sign.op is not None and sign.op.name == "sign" and sign.op.operands[0] is x


def _rounded_down(x: Value, divisor: int, rewriter: Rewriter) -> Value:
    if _is_power(divisor):
        bits = rewriter.full(x.shape, x.dtype, divisor.bit_length() - 1)
        return rewriter.elementwise("shift_right_arithmetic", x, bits)
    if interval_of(x).low >= 0:
        return _of_magnitudes(x, divisor, rewriter)
    sign = rewriter.elementwise("shift_right_arithmetic", x, rewriter.full(x.shape, x.dtype, bit_width(x.dtype) - 1))
    return rewriter.elementwise("xor", _of_magnitudes(rewriter.elementwise("xor", x, sign), divisor, rewriter), sign)


def _of_magnitudes(x: Value, divisor: int, rewriter: Rewriter) -> Value:
    """The quotient of numbers of a signed type that are not negative."""
    unsigned = _UNSIGNED[x.dtype]
    bits = rewriter.elementwise("bitcast_convert", x, dtype=unsigned)
    return rewriter.elementwise("bitcast_convert", _quotient(bits, divisor, rewriter), dtype=x.dtype)


def _quotient(x: Value, divisor: int, rewriter: Rewriter) -> Value:
    if _is_power(divisor) and x.dtype not in SIGNED:
        bits = rewriter.full(x.shape, x.dtype, divisor.bit_length() - 1)
        return rewriter.elementwise("shift_right_logical", x, bits)
    return rewriter.elementwise("divide", x, rewriter.full(x.shape, x.dtype, divisor))


def _rest(x: Value, quotient: Value, divisor: int, rewriter: Rewriter) -> Value:
    product = rewriter.elementwise("multiply", quotient, rewriter.full(x.shape, x.dtype, divisor))
    return rewriter.elementwise("subtract", x, product)


def _divide(op: Op, rewriter: Rewriter) -> Value | None:
    x, y = op.operands
    divisor = _divisor(y)
    if divisor is None or divisor < 2:
        return None
    interval = interval_of(x)
    if interval.low >= 0 and interval.high < divisor:
        return rewriter.full(x.shape, x.dtype, 0)
    if x.dtype in _UNSIGNED and interval.low >= 0:
        return _of_magnitudes(x, divisor, rewriter)
    return None


def _remainder(op: Op, rewriter: Rewriter) -> Value | None:
    x, y = op.operands
    divisor = _divisor(y)
    # Types below 8 bits have no division by products (hlo/ConstantDivision.hpp), so nothing is gained.
    if divisor is None or abs(divisor) < 2 or bit_width(x.dtype) < 8:
        return None
    interval = interval_of(x)
    if divisor > 0 and interval.low >= 0:
        if interval.high < divisor:
            return x
        if _is_power(divisor):
            return rewriter.elementwise("and", x, rewriter.full(x.shape, x.dtype, divisor - 1))
        if x.dtype in _UNSIGNED:
            return _rest(x, _of_magnitudes(x, divisor, rewriter), divisor, rewriter)
    return _rest(x, _quotient(x, divisor, rewriter), divisor, rewriter)
