"""Arithmetic with constants and repeated elements, simplified: which operations remain, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode, run_ipu
from support.stages import optimized_ops

X, IMAGE = array(40, 3), array(2, 4, 5, 3)
WIDE = np.array([0, 1, 2, 7, 8, 9, 255, 256, 65535], np.uint16)
SIGNED = np.array([0, 1, -1, 7, -8, -9, 2**31 - 1, -(2**31)], np.int32)
PREDICATES = np.array([True, False, True])
SCALES = jnp.array([0.229, 0.224, 0.225], jnp.float32)


def _names(function, *arguments):
    ops = optimized_ops(function, *arguments)
    return [name for op in ops for name in (*op.attrs.get("names", ()), op.name)]


# Each with operations that remain, and those that do not.
PROGRAMS = {
    "quotient by several constants": (lambda x: x / SCALES, (X,), {"multiply"}, {"divide"}),
    "quotient by zero": (lambda x: x / jnp.array([0, 1.5, -2], jnp.float32), (X,), {"divide"}, {"multiply"}),
    "unsigned quotient": (lambda x: lax.div(x, jnp.uint16(8)), (WIDE,), {"shift_right_logical"}, {"divide"}),
    "unsigned remainder": (lambda x: lax.rem(x, jnp.uint16(8)), (WIDE,), {"and"}, {"remainder"}),
    "unsigned quotient by 1": (lambda x: lax.div(x, jnp.uint16(1)), (WIDE,), set(), {"divide"}),
    "unsigned quotient by 10": (lambda x: lax.div(x, jnp.uint16(10)), (WIDE,), {"divide"}, set()),
    "signed quotient": (lambda x: (lax.div(x, 8), x // 8, x % 8), (SIGNED,), {"divide"}, set()),
    "predicates": (
        lambda p: (p > False, p <= False, p == True, p != True, p >= False, p < False),  # noqa: E712
        (PREDICATES,),
        {"not"},
        {"compare"},
    ),
    "never": (lambda x: (x > jnp.inf, x < -jnp.inf, jnp.inf < x), (X,), set(), {"compare"}),
    "perhaps": (lambda x: (x >= jnp.inf, x == x, x > -jnp.inf), (X,), {"compare"}, set()),
    "repeated twice": (
        lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 3, 2),
        (IMAGE,),
        {"broadcast_in_dim"},
        set(),
    ),
    "repeated and spread": (
        lambda x: jnp.repeat(x, 2, 0)[:, None, :] + jnp.zeros((80, 3, 3)),
        (X,),
        set(),
        set(),
    ),
    "tiled twice": (lambda x: jnp.tile(jnp.tile(x, (2, 1)), (1, 2)), (X,), set(), set()),
    "scaled up": (lambda x: jax.image.resize(x, (2, 8, 15, 3), "nearest"), (IMAGE,), set(), set()),
}


# (start, stop) with integer steps, as arguments and as constants.
LINES = {
    "scalars": (np.float32(0), np.float32(7 * 3)),
    "descending": (np.float32(0), np.float32(-7 * 11)),
    "integers": (np.int32(0), np.int32(7 * 9)),
    "vectors": (np.zeros(3, np.float32), np.array([7, 21, -35], np.float32)),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("axis", [0, -1])
@each_mode
def test_integer_steps_of_linspace_are_exact(name, axis, mode):
    start, stop = LINES[name]
    expected = np.linspace(start, stop, 8, axis=axis).astype(np.float32)
    (of_arguments,) = run_ipu(lambda a, b: jnp.linspace(a, b, 8, axis=axis), (start, stop), mode)
    (of_constants,) = run_ipu(lambda: jnp.linspace(start, stop, 8, axis=axis), (), mode)
    np.testing.assert_array_equal(of_arguments, expected)
    np.testing.assert_array_equal(of_constants, expected)


# Products of an iota, a constant and a number: the step is rounded as the constant is, and no larger than the number.
PRODUCTS = {
    "f64, nearly a reciprocal": (lambda i, x: i * 0.1000000001 * x, np.float64(3)),
    "f64, a reciprocal": (lambda i, x: i / 10 * x, np.float64(3)),
    "a step that would be infinite": (lambda i, x: i * 10 * x, np.float32(1e38)),
    "a quotient by less than one": (lambda i, x: i / 0.01 * x, np.float32(3e37)),
    "a quotient by zero": (lambda i, x: i / 0.0 * x, np.float32(2)),
    "no number": (lambda i, x: i * jnp.nan * x, np.float32(2)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@each_mode
def test_products_of_counts(name, mode):
    function, x = PRODUCTS[name]

    with jax.enable_x64(x.dtype == np.float64):
        (actual,) = run_ipu(lambda x: function(jnp.arange(4, dtype=x.dtype), jnp.full(4, x)), (x,), mode)
        (constant,) = run_ipu(lambda: function(jnp.arange(4, dtype=x.dtype), jnp.full(4, x)), (), mode)
        with np.errstate(all="ignore"):
            expected = function(np.arange(4, dtype=x.dtype), x)
    for result in (actual, constant):
        np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(x.dtype).eps)


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_remains(name):
    function, arguments, present, absent = PROGRAMS[name]
    names = _names(function, *arguments)
    assert present <= set(names), names
    assert not absent & set(names), names
    assert names.count("broadcast_in_dim") <= 1 or "broadcast_in_dim" not in present, names
