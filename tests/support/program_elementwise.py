"""Elementwise operations of random programs: each draws its operands and says how far its result can be off."""

from __future__ import annotations

import math
from collections.abc import Callable

from support.programs import COMPLEX, EPSILON, EVERY, FLOATS, INTS, REAL, Drawer, Step, Unsuitable, copy

# Function -> (text, bound of the result over operands within a bound, bound of the derivative there, largest operand).
SMOOTH: dict[str, tuple[str, Callable[[float], float], Callable[[float], float], float]] = {
    "tanh": ("lax.tanh({})", lambda b: 1, lambda b: 1, 1e30),
    "sin": ("lax.sin({})", lambda b: 1, lambda b: 1, 1e4),
    "cos": ("lax.cos({})", lambda b: 1, lambda b: 1, 1e4),
    "logistic": ("lax.logistic({})", lambda b: 1, lambda b: 1, 1e30),
    "erf": ("lax.erf({})", lambda b: 1, lambda b: 1.2, 1e30),
    "exp": ("lax.exp({})", math.exp, math.exp, 8),
    "expm1": ("lax.expm1({})", math.exp, math.exp, 8),
    "atan": ("lax.atan({})", lambda b: 1.6, lambda b: 1, 1e30),
    "asinh": ("lax.asinh({})", lambda b: 1 + b, lambda b: 1, 1e4),
    "log1p": ("lax.log1p(lax.abs({}))", lambda b: 1 + b, lambda b: 1, 1e30),
    "rsqrt": ("lax.rsqrt(lax.abs({0}) + lax.full_like({0}, 1))", lambda b: 1, lambda b: 1, 1e30),
    "reciprocal": ("(1 / (lax.abs({0}) + lax.full_like({0}, 1)))", lambda b: 1, lambda b: 1, 1e30),
}


def smooth(d: Drawer) -> Step:
    v = d.value(FLOATS)
    text, bound, slope, largest = SMOOTH[d.pick(sorted(SMOOTH))]
    if v.bound > largest:
        raise Unsuitable
    return Step(text.format(v.name), bound(v.bound), v.error * slope(v.bound), 8, inexact=True)


def square_root(d: Drawer) -> Step:
    v = d.value(FLOATS, exact=True)
    return Step(f"lax.{d.pick(('sqrt', 'cbrt'))}(lax.abs({v.name}))", 1 + v.bound, 0, 4, inexact=True)


def unary(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX))
    if v.dtype in INTS and d.flag():
        return Step(f"lax.{d.pick(('bitwise_not', 'population_count', 'clz'))}({v.name})")
    if v.dtype in COMPLEX:
        return copy(v, f"lax.{d.pick(('neg', 'conj', 'real', 'imag'))}({v.name})")
    names = ["neg", "abs", "square"] if v.dtype[0] != "u" else ["square", "neg"]
    if v.error == 0:
        names += ["sign"] + (["floor", "ceil", "round", "is_finite"] if v.dtype in FLOATS else [])
    name = d.pick(names)
    if name == "square":
        return Step(f"lax.square({v.name})", v.bound**2, 2 * v.error * v.bound, 1)
    return copy(v, f"lax.{name}({v.name})")


def binary(d: Drawer) -> Step:
    v = d.value()
    other, w = d.partner(v)
    if v.dtype == "bool":
        return Step(f"lax.{d.pick(('bitwise_and', 'bitwise_or', 'bitwise_xor'))}({v.name}, {other})")
    if v.dtype in INTS and d.flag():
        names = ("bitwise_and", "bitwise_or", "bitwise_xor", "div", "rem", "shift_left", "shift_right_logical")
        return Step(f"lax.{d.pick((*names, 'shift_right_arithmetic'))}({v.name}, {other})")
    name = d.pick(("add", "sub", "mul") if v.dtype in COMPLEX else ("add", "sub", "mul", "max", "min"))
    text = f"lax.{name}({v.name}, {other})"
    if name == "mul":
        if v.dtype in COMPLEX and (v.special or w.special):
            raise Unsuitable
        return Step(text, 2 * v.bound * w.bound, 2 * (v.error * w.bound + w.error * v.bound), 2)
    if name in ("max", "min"):
        return Step(text, max(v.bound, w.bound), max(v.error, w.error))
    return Step(text, v.bound + w.bound, v.error + w.error, 1)


def divide(d: Drawer) -> Step:
    v = d.value(FLOATS, exact=True)
    other, _ = d.partner(v, exact=True)
    name = d.pick(("div", "rem", "atan2"))
    # A product without terms to add is 0 or -0: the sign of a zero must not matter.
    if name == "div":
        return Step(f"lax.div({v.name}, lax.abs({other}))", v.bound, 0, 4, inexact=True, special=True)
    if name == "rem":
        return Step(f"lax.rem({v.name}, {other})", v.bound, 0, special=True)
    return Step(f"lax.atan2({v.name}, lax.abs({other}))", 3.2, 0, 8, inexact=True)


def compare(d: Drawer) -> Step:
    v = d.value(EVERY, exact=True)
    other, _ = d.partner(v, exact=True)
    names = ("eq", "ne") if v.dtype in COMPLEX else ("eq", "ne", "lt", "le", "gt", "ge")
    return Step(f"lax.{d.pick(names)}({v.name}, {other})")


def select(d: Drawer) -> Step:
    v = d.value()
    other, w = d.partner(v)
    predicate = d.value(("bool",))
    text = f"lax.select(fit({predicate.name}, {v.shape}), {v.name}, {other})"
    return Step(text, max(v.bound, w.bound), max(v.error, w.error))


def clamp(d: Drawer) -> Step:
    v = d.value(REAL)
    low = d.integer(0, 4)
    bounds = [f"jnp.asarray({x}, '{v.dtype}')" for x in (low, low + d.integer(0, 5))]
    return copy(v, f"lax.clamp({bounds[0]}, {v.name}, {bounds[1]})")


def convert(d: Drawer) -> Step:
    target = d.pick(EVERY)
    v = d.value((*REAL, "bool") if target not in COMPLEX else EVERY, exact=target not in EPSILON)
    text = f"lax.convert_element_type({v.name}, '{target}')"
    if target not in EPSILON:
        return Step(text)
    if (v.bound > 6e4 and target == "float16") or (target in COMPLEX and v.special):
        raise Unsuitable
    # A conversion of an exact value rounds the same everywhere, to an integer.
    return Step(text, v.bound * 1.01, v.error, 1 if v.error else 0)


def reduced_precision(d: Drawer) -> Step:
    v = d.value(("float32", "float64"), exact=True)
    return Step(f"lax.reduce_precision({v.name}, {d.integer(5, 8)}, {d.integer(3, 12)})", v.bound * 1.2, 0)


def bit_pattern(d: Drawer) -> Step:
    v = d.value((*FLOATS, *INTS), exact=True, finite=True)
    if v.dtype in FLOATS:
        # XLA:CPU takes x + 0 for x: the sign of a zero is not compared.
        bits = 8 * (2 if "16" in v.dtype else 4 if "32" in v.dtype else 8)
        return Step(f"lax.bitcast_convert_type(lax.abs({v.name}), '{d.pick(('u', ''))}int{bits}')")
    target = d.pick(INTS)
    ratio = _bits(target) // _bits(v.dtype)
    if ratio > 1 and (not v.rank or v.shape[-1] != ratio):
        raise Unsuitable
    return Step(f"lax.bitcast_convert_type({v.name}, '{target}')")


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


def make_complex(d: Drawer) -> Step:
    v = d.value(("float32", "float64"), finite=True)
    other, w = d.partner(v, finite=True)
    return Step(f"lax.complex({v.name}, {other})", v.bound + w.bound, v.error + w.error)


def shifted_bits(d: Drawer) -> Step:
    """Bits of a counter-based generator from a key that the program computes."""
    v = d.value(INTS)
    key = f"lax.convert_element_type(fit({v.name}, (2,)), 'uint32')"
    bits = d.pick((8, 16, 32, 64))
    return Step(f"jax.random.bits(jax.random.wrap_key_data({key}), {d.shape(2)}, 'uint{bits}')")


OPERATIONS = (
    binary, bit_pattern, clamp, compare, convert, divide, make_complex, reduced_precision, select, shifted_bits, smooth,
    square_root, unary,
)  # fmt: skip
