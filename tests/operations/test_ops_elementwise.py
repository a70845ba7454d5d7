"""Every elementwise operation, value and gradient, in every mode. A row is one line."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode, run_ipu

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")

# name: (function, lowest input, highest input)
UNARY_FLOAT = {
    "abs": (lax.abs, -2, 2),
    "neg": (lax.neg, -2, 2),
    "sign": (lax.sign, -2, 2),
    "floor": (lax.floor, -9, 9),
    "ceil": (lax.ceil, -9, 9),
    "round_away": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), -9, 9),
    "round_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), -9, 9),
    "exp": (lax.exp, -9, 9),
    "exp2": (lax.exp2, -9, 9),
    "expm1": (lax.expm1, -3, 3),
    "log": (lax.log, 0.01, 50),
    "log1p": (lax.log1p, -0.9, 50),
    "sqrt": (lax.sqrt, 0.01, 50),
    "rsqrt": (lax.rsqrt, 0.01, 50),
    "cbrt": (lax.cbrt, 0.1, 50),
    "logistic": (lax.logistic, -9, 9),
    "tanh": (lax.tanh, -5, 5),
    "sin": (lax.sin, -9, 9),
    "cos": (lax.cos, -9, 9),
    "tan": (lax.tan, -1.4, 1.4),
    "asin": (lax.asin, -0.9, 0.9),
    "acos": (lax.acos, -0.9, 0.9),
    "atan": (lax.atan, -5, 5),
    "sinh": (lax.sinh, -3, 3),
    "cosh": (lax.cosh, -3, 3),
    "asinh": (lax.asinh, -5, 5),
    "acosh": (lax.acosh, 1.1, 5),
    "atanh": (lax.atanh, -0.9, 0.9),
    "erf": (lax.erf, -3, 3),
    "erfc": (lax.erfc, -2, 2),
    "erf_inv": (lax.erf_inv, -0.9, 0.9),
    "lgamma": (lax.lgamma, 0.5, 9),
    "digamma": (lax.digamma, 0.5, 9),
    "is_finite": (lax.is_finite, -2, 2),
    "square": (lax.square, -3, 3),
    "integer_pow": (lambda x: x**3, -2, 2),
    "gelu": (jax.nn.gelu, -3, 3),
    "softplus": (jax.nn.softplus, -3, 3),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 4), -3, 3),
}

BINARY_FLOAT = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "max": lax.max,
    "min": lax.min,
    "atan2": lax.atan2,
    "pow": lambda x, y: lax.pow(lax.abs(x) + 0.5, y),
    "nextafter": lax.nextafter,
    "eq": lax.eq,
    "ne": lax.ne,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
}

BINARY_INTEGER = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "eq": lax.eq,
    "lt": lax.lt,
    "ge": lax.ge,
}

NO_GRADIENT = {
    "is_finite",
    "nextafter",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "sign",
    "floor",
    "ceil",
    "reduce_precision",
}


@each_mode
@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_unary(name, mode):
    function, low, high = UNARY_FLOAT[name]
    grad = name not in NO_GRADIENT and not name.startswith("round")
    check(function, array(5, 7, low=low, high=high), mode=mode, rtol=1e-4, grad=grad)


@each_mode
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["abs", "exp", "log", "sqrt", "tanh", "logistic", "floor"])
def test_unary_half(name, dtype, mode):
    function, low, high = UNARY_FLOAT[name]
    check(function, array(33, dtype=dtype, low=low, high=min(high, 3)), mode=mode)


@each_mode
def test_erfc_keeps_its_relative_accuracy(mode):
    """Also far right, where the result is small; exact at 0 and at the ends."""
    x = np.linspace(-6, 9, 1501, dtype=np.float32)
    expected = np.array([math.erfc(float(v)) for v in x])
    error = np.abs(run_ipu(lax.erfc, (x,), mode)[0].astype(np.float64) - expected) / expected
    assert error[x < 3].max() < 1.5e-6
    assert error.max() < 8e-6  # exp(-x^2) of the rounded square
    special = np.array([0.0, np.inf, -np.inf, np.nan, 40, -40], np.float32)
    np.testing.assert_array_equal(run_ipu(lax.erfc, (special,), mode)[0], [1, 0, 2, np.nan, 0, 2])


@each_mode
@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_binary(name, mode):
    function = BINARY_FLOAT[name]
    grad = name not in NO_GRADIENT
    check(function, array(5, 7), array(5, 7, seed=1, low=0.5), mode=mode, rtol=1e-4, grad=grad)


@each_mode
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_binary_integer(name, dtype, mode):
    y = np.resize(np.array([3, 1, 0, 7, 31, 2], dtype), (4, 9))
    check(BINARY_INTEGER[name], array(4, 9, dtype=dtype), y, mode=mode)


@each_mode
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", [lax.population_count, lax.clz, lax.bitwise_not, lax.neg, lax.sign])
def test_unary_integer(function, dtype, mode):
    check(function, array(11, dtype=dtype), mode=mode)


@each_mode
@pytest.mark.parametrize("dtype", [dtype for dtype in INTEGERS if not dtype.startswith("u")])
def test_abs_integer(dtype, mode):
    check(lax.abs, array(11, dtype=dtype), mode=mode)


@each_mode
def test_signed_division_edges(mode):
    x = np.array([-(2**31), -(2**31), 5, -5, 7, -7], np.int32)
    y = np.array([-1, 0, 0, 0, -2, 2], np.int32)
    check(lambda a, b: (lax.div(a, b), lax.rem(a, b)), x, y, mode=mode)


@each_mode
def test_special_floats(mode):
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.0], np.float32)
    y = np.roll(x, 3)
    check(lambda a, b: (lax.max(a, b), lax.min(a, b), a < b, a == b, lax.abs(a), lax.sign(a), a + b), x, y, mode=mode)


@each_mode
@pytest.mark.parametrize("target", ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"])
def test_convert(source, target, mode):
    check(lambda x: lax.convert_element_type(x, target), array(17, dtype=source), mode=mode)


@each_mode
def test_float_to_integer_saturates(mode):
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.9, -1.9], np.float32)
    check(lambda x: (x.astype(jnp.int32), x.astype(jnp.uint8), x.astype(jnp.int8)), x, mode=mode)


@each_mode
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4, 5), (4001,)])
def test_shapes(shape, mode):
    check(lambda x, y: x * y + 1, array(*shape), array(*shape, seed=1), mode=mode, grad=True)


@each_mode
def test_broadcasting(mode):
    check(lambda x, y, z: x * y + z, array(4, 1, 6), array(5, 1), array(6), mode=mode, grad=True)


@each_mode
def test_transposed_operand(mode):
    check(lambda x, y: x.T + jnp.tanh(y), array(6, 35), array(35, 6), mode=mode, grad=True)


@each_mode
def test_select_and_clamp(mode):
    check(lambda x, y: jnp.where(x > y, x, y * 2), array(9, 9), array(9, 9, seed=1), mode=mode, grad=True)
    check(lambda x: lax.clamp(-1.0, x, 1.0), array(9, 9), mode=mode, grad=True)
    check(lambda p, x, y: lax.select_n(p, x, y), array(9, dtype="bool"), array(9), array(9, seed=1), mode=mode)


@each_mode
def test_logical(mode):
    check(lambda p, q: (p & q, p | q, p ^ q, ~p), array(13, dtype="bool"), array(13, dtype="bool", seed=1), mode=mode)


@each_mode
def test_bitcast(mode):
    check(lambda x: lax.bitcast_convert_type(x, jnp.int32), array(13), mode=mode)
    check(lambda x: lax.bitcast_convert_type(x, jnp.uint8), array(13), mode=mode)
    check(lambda x: lax.bitcast_convert_type(x, jnp.int32), array(13, 4, dtype="uint8"), mode=mode)


@each_mode
def test_long_chain(mode):
    """Each step shrinks what was rounded before it."""

    def chain(x, y):
        for _ in range(30):
            x = 0.4 * jnp.sin(x) * y + jnp.cos(y) * 0.3
            y = 0.9 * y - 0.1 * x
        return x, y

    check(chain, array(37, 3), array(37, 3, seed=1), mode=mode)


@each_mode
def test_complex(mode):
    x, y = array(9, dtype="complex64"), array(9, dtype="complex64", seed=1)
    check(lambda x, y: (x * y, x / y, x + y, lax.abs(x), lax.real(x), lax.imag(y), lax.conj(x)), x, y, mode=mode)
    check(lambda x: (jnp.exp(x), jnp.log(x), jnp.sqrt(x), jnp.sin(x)), x, mode=mode, rtol=1e-4)


@each_mode
def test_double(mode):
    with jax.enable_x64(True):
        check(
            lambda x, y: jnp.exp(x) * y + jnp.sqrt(jnp.abs(y)),
            array(9, dtype="float64"),
            array(9, dtype="float64"),
            mode=mode,
        )
        check(
            lambda x, y: x * y + x // jnp.maximum(y, 1),
            array(9, dtype="int64"),
            array(9, dtype="int64", seed=1),
            mode=mode,
        )


@each_mode
def test_products_of_double_are_rounded(mode):
    with jax.enable_x64(True):
        x, y, z = (array(4001, dtype="float64", seed=seed) for seed in range(3))
        actual = run_ipu(lambda x, y, z: (x * y + z, x * y - z, z - x * y, x * 0.3 + 1.0), (x, y, z), mode)
    for a, expected in zip(actual, (x * y + z, x * y - z, z - x * y, x * 0.3 + 1.0), strict=True):
        np.testing.assert_array_equal(a, expected)
