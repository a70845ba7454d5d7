"""What elementwise vertices compute: for each primitive of `jax.lax`, C++ for its operands a, b, c.

Halves are computed as floats. The results are those of XLA also where C++ defines none: for divisions by zero, shifts
by more bits than there are, and conversions of numbers that the integer type does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax_ipu.tile.vertex import type_name

# (types of the operands on a tile, attributes) -> C++
Expression = Callable[[Sequence[Any], dict[str, Any]], str]


def number(dtype: Any) -> str:
    """The C++ type in which an element is computed."""
    name = type_name(dtype)
    return "float" if name == "half" else name


def _is_float(dtype: Any) -> bool:
    return bool(np.issubdtype(dtype, np.floating))


def _bits(dtype: Any) -> int:
    return 8 * int(np.dtype(dtype).itemsize)


def _unsigned(dtype: Any) -> str:
    return type_name(f"uint{_bits(dtype)}")


def _signed(dtype: Any) -> str:
    return type_name(f"int{_bits(dtype)}")


def _quotient(of_floats: str, by_zero: str, by_minus_one: str, of_integers: str) -> Expression:
    def text(avals: Sequence[Any], _: dict[str, Any]) -> str:
        dtype = avals[0].dtype
        if _is_float(dtype):
            return of_floats
        signed = f"b == -1 ? {by_minus_one} : " if np.issubdtype(dtype, np.signedinteger) else ""
        return f"b == 0 ? {by_zero} : {signed}{of_integers}"

    return text


def _shift(operator: str, kind: Callable[[Any], str], beyond: str) -> Expression:
    def text(avals: Sequence[Any], _: dict[str, Any]) -> str:
        dtype = avals[0].dtype
        shifted = f"static_cast<{kind(dtype)}>(a) {operator} b"
        return f"static_cast<{_unsigned(dtype)}>(b) >= {_bits(dtype)} ? {beyond} : {shifted}"

    return text


def _not(avals: Sequence[Any], _: dict[str, Any]) -> str:
    return "!a" if avals[0].dtype == np.bool_ else "~a"


def _population_count(avals: Sequence[Any], _: dict[str, Any]) -> str:
    return f"__builtin_popcount(static_cast<{_unsigned(avals[0].dtype)}>(a))"


def _clz(avals: Sequence[Any], _: dict[str, Any]) -> str:
    dtype = avals[0].dtype
    return f"a == 0 ? {_bits(dtype)} : __builtin_clz(static_cast<{_unsigned(dtype)}>(a)) - {32 - _bits(dtype)}"


def _round(_: Sequence[Any], attributes: dict[str, Any]) -> str:
    away_from_zero = int(attributes["rounding_method"]) == 0
    return "std::round(a)" if away_from_zero else "std::rint(a)"


def _integer_pow(avals: Sequence[Any], attributes: dict[str, Any]) -> str:
    exponent = int(attributes["y"])
    power = f"Power<{number(avals[0].dtype)}>(a, {abs(exponent)}u)"
    return f"1 / {power}" if exponent < 0 else power


def _convert(avals: Sequence[Any], attributes: dict[str, Any]) -> str:
    source, target = avals[0].dtype, np.dtype(attributes["new_dtype"])
    if target == np.bool_:
        return "a != 0"
    if not _is_float(source) or _is_float(target):
        return "a"
    # XLA rounds to zero and stays in range; NaN becomes 0.
    limits, name = np.iinfo(target), type_name(target)
    low, high = f"std::numeric_limits<{name}>::min()", f"std::numeric_limits<{name}>::max()"
    return (
        f"a != a ? 0 : a <= {float(limits.min)}f ? {low} : a >= {float(limits.max)}f ? {high} : static_cast<{name}>(a)"
    )


# C++ that expressions use, beside <cmath> and <limits>.
HELPERS = """template <typename T>
static T Power(T a, unsigned n) {
  T power = 1;
  for (; n != 0; n >>= 1, a *= a) power = n & 1 ? power * a : power;
  return power;
}
"""

ELEMENTWISE: dict[str, str | Expression] = {
    "abs": "a < 0 ? -a : a",
    "acos": "std::acos(a)",
    "acosh": "std::acosh(a)",
    "add": "a + b",
    "and": "a & b",
    "asin": "std::asin(a)",
    "asinh": "std::asinh(a)",
    "atan": "std::atan(a)",
    "atan2": "std::atan2(a, b)",
    "atanh": "std::atanh(a)",
    "cbrt": "std::cbrt(a)",
    "ceil": "std::ceil(a)",
    "clamp": "a != a ? a : c != c ? c : (b < a ? a : b) > c ? c : b < a ? a : b",
    "clz": _clz,
    "convert_element_type": _convert,
    "cos": "std::cos(a)",
    "cosh": "std::cosh(a)",
    "div": _quotient("a / b", "-1", "0 - a", "a / b"),
    "eq": "a == b",
    "erf": "std::erf(a)",
    "erfc": "std::erfc(a)",
    "exp": "std::exp(a)",
    "exp2": "std::exp2(a)",
    "expm1": "std::expm1(a)",
    "floor": "std::floor(a)",
    "ge": "a >= b",
    "gt": "a > b",
    "integer_pow": _integer_pow,
    "is_finite": "std::isfinite(a)",
    "le": "a <= b",
    "lgamma": "std::lgamma(a)",
    "log": "std::log(a)",
    "log1p": "std::log1p(a)",
    "logistic": "1 / (1 + std::exp(-a))",
    "lt": "a < b",
    "max": "a != a || a > b ? a : b",
    "min": "a != a || a < b ? a : b",
    "mul": "a * b",
    "ne": "a != b",
    "neg": "-a",
    "not": _not,
    "or": "a | b",
    "population_count": _population_count,
    "pow": "std::pow(a, b)",
    "rem": _quotient("std::fmod(a, b)", "a", "0", "a % b"),
    "round": _round,
    "rsqrt": "1 / std::sqrt(a)",
    "select_n": "a ? c : b",
    "shift_left": _shift("<<", _unsigned, "0"),
    "shift_right_arithmetic": _shift(">>", _signed, "a < 0 ? -1 : 0"),
    "shift_right_logical": _shift(">>", _unsigned, "0"),
    "sign": "a > 0 ? 1 : a < 0 ? -1 : a",
    "sin": "std::sin(a)",
    "sinh": "std::sinh(a)",
    "sqrt": "std::sqrt(a)",
    "square": "a * a",
    "sub": "a - b",
    "tan": "std::tan(a)",
    "tanh": "std::tanh(a)",
    "xor": "a ^ b",
}


def expression(name: str, avals: Sequence[Any], attributes: dict[str, Any]) -> str:
    """The C++ that computes the primitive of `jax.lax` of this name."""
    text = ELEMENTWISE[name]
    return text if isinstance(text, str) else text(avals, attributes)
