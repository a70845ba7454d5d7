"""Elementwise operations of random programs. Each draws its operands and returns the error bound of its result."""

from __future__ import annotations

import math
from collections.abc import Callable

from support.programs import COMPLEX, EPSILON, EVERY, FLOATS, INTS, REAL, Drawer, Step, Unsuitable, copy
from support.random_programs.program_bodies import call, others, typed
from support.stablehlo_text import array, region, tensor


def _power(b: float) -> float:
    return 1.5 * (1 + b) ** 1.5


# Name -> (text, bound of the result for operands within a bound, bound of the derivative there, largest operand).
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
    "log": ("lax.log(lax.abs({0}) + lax.full_like({0}, 1))", lambda b: 1 + b, lambda b: 1, 1e30),
    "tan": ("lax.tan(lax.tanh({}))", lambda b: 1.6, lambda b: 3.5, 1e30),
    "sinh": ("lax.sinh({})", math.cosh, math.cosh, 8),
    "cosh": ("lax.cosh({})", math.cosh, math.cosh, 8),
    "exp2": ("lax.exp2({})", lambda b: 2**b, lambda b: 2**b, 12),
    "acos": ("lax.acos(lax.sin({0}) * lax.full_like({0}, 0.5))", lambda b: 3.2, lambda b: 0.6, 1e4),
    "asin": ("lax.asin(lax.sin({0}) * lax.full_like({0}, 0.5))", lambda b: 1.6, lambda b: 0.6, 1e4),
    "acosh": ("lax.acosh(lax.abs({0}) + lax.full_like({0}, 2))", lambda b: 2 + b, lambda b: 1, 1e4),
    "atanh": ("lax.atanh(lax.sin({0}) * lax.full_like({0}, 0.5))", lambda b: 1, lambda b: 0.7, 1e4),
    "erfc": ("lax.erfc({})", lambda b: 2, lambda b: 1.2, 1e30),
    "erf_inv": ("lax.erf_inv(lax.sin({0}) * lax.full_like({0}, 0.5))", lambda b: 1, lambda b: 0.6, 1e4),
    "lgamma": ("lax.lgamma(lax.abs({0}) + lax.full_like({0}, 2))", lambda b: (2 + b) ** 1.5, lambda b: 2 + b, 1e4),
    "digamma": ("lax.digamma(lax.abs({0}) + lax.full_like({0}, 1))", lambda b: 1 + b, lambda b: 1.7, 1e4),
    "bessel_i1e": ("lax.bessel_i1e({})", lambda b: 0.3, lambda b: 0.5, 1e4),
    "pow": ("lax.pow(lax.abs({0}) + lax.full_like({0}, 1), lax.full_like({0}, 1.5))", _power, _power, 1e4),
    "integer_pow": ("lax.integer_pow({}, 3)", lambda b: b**3, lambda b: 3 * b * b, 1e4),
}
# The same for complex numbers within a bound, away from poles and branch cuts.
RIGHT_HALF = "lax.complex(lax.abs(lax.real({0})) + 1, lax.imag({0}))"
SMOOTH_COMPLEX: dict[str, tuple[str, Callable[[float], float], Callable[[float], float], float]] = {
    "abs": ("lax.abs({})", lambda b: b, lambda b: 1, 1e8),
    "exp": ("lax.exp({})", math.exp, math.exp, 8),
    "expm1": ("lax.expm1({})", lambda b: 1 + math.exp(b), math.exp, 8),
    "sin": ("lax.sin({})", math.exp, math.exp, 8),
    "cos": ("lax.cos({})", math.exp, math.exp, 8),
    "log": (f"lax.log({RIGHT_HALF})", lambda b: 3 + b, lambda b: 1, 1e8),
    "log1p": (f"lax.log1p({RIGHT_HALF})", lambda b: 4 + b, lambda b: 1, 1e8),
    "sqrt": (f"lax.sqrt({RIGHT_HALF})", lambda b: 1 + b, lambda b: 1, 1e8),
    "rsqrt": (f"lax.rsqrt({RIGHT_HALF})", lambda b: 1, lambda b: 1, 1e8),
    "reciprocal": (f"lax.div(lax.full_like({{0}}, 1), {RIGHT_HALF})", lambda b: 1, lambda b: 1, 1e8),
    "quotient": (f"lax.div({{0}}, {RIGHT_HALF})", lambda b: 1, lambda b: 2, 1e8),
}
# Types of at most one byte, and the largest integers used in them: XLA:CPU reads the 6 of f4E2M1FN as infinity.
NARROW = {"int2": 1, "uint2": 3, "int4": 7, "uint4": 15}
NARROW |= {"float8_e4m3fn": 448, "float8_e5m2": 57344, "float8_e4m3fnuz": 240, "float8_e5m2fnuz": 57344}
NARROW |= {"float8_e4m3b11fnuz": 30, "float8_e3m4": 15, "float8_e4m3": 240, "float4_e2m1fn": 4}
# Operations on such a value; "{0}" is the narrow value.
NARROW_MOVES = (
    *("{0}", "lax.reshape({0}, ({0}.size,))", "lax.transpose({0}, tuple(range({0}.ndim))[::-1])", "lax.rev({0}, (0,))"),
    *("{0}[1:]", "{0}[..., ::2]", "lax.concatenate([{0}, {0}], 0)", "lax.broadcast({0}, (2,))"),
    *("lax.select({0} == lax.rev({0}, (0,)), {0}, lax.full_like({0}, 1))", "lax.max({0}, lax.full_like({0}, 1))"),
    *("jnp.roll({0}, 1, 0)", "{0}.at[:1].set({0}[-1:])", "{0}[np.array([0, -1, 0, 9])]", "lax.sort({0}, dimension=0)"),
    *("lax.dynamic_slice_in_dim({0}, {0}.ndim, 1)", "lax.pad({0}, {0}.dtype.type(1), [(1, -1, 1)] * {0}.ndim)"),
    "lax.fori_loop(0, 2, lambda i, y: lax.dynamic_update_slice_in_dim(y[::-1], y[:1], i, 0), {0})",
    "lax.switch({0}.size % 2, [lambda y: y, lambda y: y[::-1]], {0})",
)


def smooth(d: Drawer) -> Step:
    v = d.value((*FLOATS, *COMPLEX))
    functions = SMOOTH_COMPLEX if v.dtype in COMPLEX else SMOOTH
    text, bound, slope, largest = functions[d.pick(sorted(functions))]
    if v.bound > largest:
        raise Unsuitable
    return Step(text.format(v.name), bound(v.bound), v.error * slope(v.bound), 8, inexact=True)


def square_root(d: Drawer) -> Step:
    v = d.value(FLOATS, exact=True)
    return Step(f"lax.{d.pick(('sqrt', 'cbrt'))}(lax.abs({v.name}))", 1 + v.bound, 0, 4, inexact=True)


def unary(d: Drawer) -> Step:
    v = d.value()
    if v.dtype == "bool":
        return Step(f"lax.bitwise_not({v.name})")
    if v.dtype in INTS and d.flag():
        return Step(f"lax.{d.pick(('bitwise_not', 'population_count', 'clz'))}({v.name})")
    if v.dtype in COMPLEX:
        return copy(v, f"lax.{d.pick(('neg', 'conj', 'real', 'imag'))}({v.name})")
    names = ["neg", "abs", "square"] if v.dtype[0] != "u" else ["square", "neg"]
    if v.error == 0:
        names += ["sign"] + (["floor", "ceil", "round", "round_even", "is_finite"] if v.dtype in FLOATS else [])
    name = d.pick(names)
    if name == "square":
        return Step(f"lax.square({v.name})", v.bound**2, 2 * v.error * v.bound, 1)
    if name == "round_even":
        return copy(v, f"lax.round({v.name}, lax.RoundingMethod.TO_NEAREST_EVEN)")
    return copy(v, f"lax.{name}({v.name})")


def binary(d: Drawer) -> Step:
    v = d.value()
    other, w = d.partner(v)
    if v.dtype == "bool":
        return Step(f"lax.{d.pick(('bitwise_and', 'bitwise_or', 'bitwise_xor', 'max', 'min'))}({v.name}, {other})")
    if v.dtype in INTS and d.flag():
        names = ("bitwise_and", "bitwise_or", "bitwise_xor", "div", "rem", "shift_left", "shift_right_logical")
        name = d.pick((*names, "shift_right_arithmetic"))
        if name in ("div", "rem"):
            # XLA:CPU ends the process when it divides a constant by a constant zero.
            other = f"lax.optimization_barrier({other})"
        return Step(f"lax.{name}({v.name}, {other})")
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
    # For two constant zeros, XLA:CPU gives NaN if its algebraic simplifier does not run.
    return Step(f"lax.atan2({v.name}, lax.abs({other}) + lax.full_like({other}, 1))", 3.2, 0, 8, inexact=True)


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


def select_one(d: Drawer) -> Step:
    """select_n with an integer selector."""
    v, which = d.value(), d.value(("int32",))
    (second, w), (third, x) = d.partner(v), d.partner(v)
    text = f"lax.select_n(fit({which.name}, {v.shape}) & 3, {v.name}, {second}, {third}, {v.name})"
    return Step(text, max(v.bound, w.bound, x.bound), max(v.error, w.error, x.error))


def clamp(d: Drawer) -> Step:
    v = d.value(REAL)
    if d.flag():
        (a, w), (b, x) = d.partner(v), d.partner(v)
        text = f"lax.clamp(lax.min({a}, {b}), {v.name}, lax.max({a}, {b}))"
        return Step(text, max(v.bound, w.bound, x.bound), max(v.error, w.error, x.error))
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
    # The conversion of an exact value to an integer rounds in the same way everywhere.
    return Step(text, v.bound * 1.01, v.error, 1 if v.error else 0)


def reduced_precision(d: Drawer) -> Step:
    v = d.value(("float32", "float64"), exact=True)
    return Step(f"lax.reduce_precision({v.name}, {d.integer(5, 8)}, {d.integer(3, 12)})", v.bound * 1.2, 0)


def narrow(d: Drawer) -> Step:
    """Conversions to integers and floats of less than two bytes, whose values are integers here, and back."""
    v = d.value((*FLOATS, *INTS), exact=True, finite=True, min_rank=1)
    target = d.pick(sorted(NARROW))
    moved = d.pick(NARROW_MOVES).format("x")
    # XLA:CPU writes beyond the end of a two-bit array when it sorts it.
    if "sort" in moved and target in ("int2", "uint2"):
        raise Unsuitable
    if ("dynamic_slice_in_dim" in moved or "np.array" in moved) and not v.shape[0]:
        raise Unsuitable  # no row to take
    source = v.name
    # Values out of range become infinity or NaN in a float. In an integer, they wrap only if they come from an integer.
    if target == "float4_e2m1fn" or (v.dtype in FLOATS) != ("float" in target):
        largest = min(127, NARROW[target])
        source = f"lax.clamp(jnp.asarray(0, '{v.dtype}'), {v.name}, jnp.asarray({largest}, '{v.dtype}'))"
    text = f"(lambda x: lax.convert_element_type({moved}, '{v.dtype}'))(lax.convert_element_type({source}, '{target}'))"
    return Step(text, min(v.bound, NARROW[target]) * 2, 0, special="float8" in target)


def bit_pattern(d: Drawer) -> Step:
    v = d.value((*FLOATS, *INTS), exact=True, finite=True)
    if v.dtype in FLOATS:
        # XLA:CPU replaces x + 0 by x, so the sign of a zero is not compared.
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
    """Bits of a counter-based generator whose key is computed by the program."""
    v = d.value(INTS)
    key = f"lax.convert_element_type(fit({v.name}, (2,)), 'uint32')"
    bits = d.pick((8, 16, 32, 64))
    return Step(f"jax.random.bits(jax.random.wrap_key_data({key}), {d.shape(2)}, 'uint{bits}')")


# Computes %y from %a0, %a1 and %a2 of one type T; then the types, and the factor by which bound and error grow.
MAPS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("%p = stablehlo.add %a0, %a1 : T %y = stablehlo.subtract %p, %a2 : T", (*REAL, *COMPLEX), 3),
    ("%p = stablehlo.maximum %a2, %a1 : T %y = stablehlo.minimum %p, %a0 : T", REAL, 1),
    ("%p = stablehlo.xor %a0, %a1 : T %y = stablehlo.and %p, %a2 : T", (*INTS, "bool"), 1),
    (
        "%p = stablehlo.compare LT, %a0, %a1 : (T, T) -> tensor<i1> %n = stablehlo.negate %a2 : T "
        "%y = stablehlo.select %p, %a0, %n : tensor<i1>, T",
        INTS,
        1,
    ),
    (
        "%k = stablehlo.constant dense<2> : T %p = stablehlo.multiply %a0, %k : T %y = stablehlo.add %p, %a2 : T",
        INTS,
        3,
    ),
    (
        "%p = stablehlo.compare GE, %a0, %a1 : (T, T) -> tensor<i1> "
        '%y = "stablehlo.if"(%p) ({ %s = stablehlo.add %a1, %a2 : T stablehlo.return %s : T }, '
        "{ stablehlo.return %a2 : T }) : (tensor<i1>) -> T",
        INTS,
        2,
    ),
)


def map_elements(d: Drawer) -> Step:
    body, dtypes, grows = d.pick(MAPS)
    v = d.value(dtypes)
    names, bound, error = others(d, v, 2)
    scalar = tensor((), v.dtype)
    computed = region([(f"%a{i}", scalar) for i in range(3)], typed(body, scalar), [("%y", scalar)])
    shapes = [(v.shape, v.dtype)] * 3
    text = call("map", shapes, names, [], shapes[:1], f"{computed} {{dimensions = {array(range(v.rank))}}}")
    return Step(text, grows * bound, grows * error, grows if grows > 1 else 0)


OPERATIONS = (
    binary, bit_pattern, clamp, compare, convert, divide, make_complex, map_elements, narrow, reduced_precision, select,
    select_one, shifted_bits, smooth, square_root, unary,
)  # fmt: skip
