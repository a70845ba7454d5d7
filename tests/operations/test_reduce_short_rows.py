"""Reductions of many short rows: every reducer, type and length of row, at once, in a scan, and of views."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import MODES, array, check, run_ipu

each_mode = pytest.mark.parametrize("mode", MODES[::2], ids=lambda mode: f"{mode[0]}{mode[1]}")
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64)
FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
EXTREMES = (lax.reduce_max, lax.reduce_min)
LOGICAL = (lax.reduce_and, lax.reduce_or, lax.reduce_xor)
TOTALS = (lax.reduce_sum, lax.reduce_prod)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25], np.float32)


def reducers(dtype):
    if dtype == "bool":
        return LOGICAL
    return (*TOTALS, *EXTREMES) if dtype in FLOATS else (*TOTALS, *EXTREMES, *LOGICAL)


def rows(dtype, length):
    return array(37, length, dtype=dtype, seed=length, low=0.75, high=1.25)


def reduce_all(operands):
    return [[f(x, (1,)) for f in reducers(x.dtype.name)] for x in operands]


@each_mode
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_values(dtype, mode):
    check(reduce_all, [rows(dtype, n) for n in LENGTHS], mode=mode)


@each_mode
@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "bool"])
def test_rows_of_a_view(dtype, mode):
    """Rows that are apart, that lie in two dimensions, and that are columns of what is stored."""
    x, y, z = (array(*shape, dtype=dtype, seed=3) for shape in ((40, 9), (40, 6, 7), (5, 70)))

    def function(x, y, z):
        return [[f(x[:, 2:7], (1,)), f(y, (1,)), f(y, (1, 2)), f(z.T, (1,))] for f in reducers(x.dtype.name)]

    check(function, x, y, z, mode=mode)


@each_mode
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_in_a_scan(dtype, mode):
    """A step's operations are bound once, so they run other code than the same operations alone."""
    operands = [rows(dtype, n) for n in (2, 3, 8, 33)]

    def function(xs):
        def step(xs, k):
            xs = [jnp.roll(x, 1, 0).at[0].set(x[k]) for x in xs]
            return xs, reduce_all(xs)

        return lax.scan(step, xs, jnp.arange(3))[1]

    check(function, operands, mode=mode)


@each_mode
def test_special_values(mode):
    """Signed zeros, infinities and NaN at any two places of a row: the sign of a zero counts, too."""
    operands = []
    for length in (2, 3, 8, 17):
        x = np.repeat(SPECIAL, len(SPECIAL))[:, None] * np.ones(length, np.float32)
        places = np.arange(len(x)) % length
        x[np.arange(len(x)), places] = np.tile(SPECIAL, len(SPECIAL))
        operands.append(x)
    got = run_ipu(reduce_all, (operands,), mode)
    expected = jax.tree.leaves(jax.jit(reduce_all, backend="cpu")(operands))
    for a, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, e)
        known = ~np.isnan(e)
        np.testing.assert_array_equal(np.signbit(a[known]), np.signbit(e[known]))


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_are_in_the_order_of_the_row(length):
    """The same bits whether rows are many or few, alone or in a scan."""
    x = array(200, length, seed=length)
    expected = x[:, 0].copy()
    for i in range(1, length):
        expected += x[:, i]

    def function(x):
        few = [x[i : i + 3].sum(1) for i in (0, 40)]
        carried = lax.scan(lambda x, _: (x, x.sum(1)), x, None, length=2)[1]
        return x.sum(1), *few, carried

    many, first, later, carried = run_ipu(function, (x,), ("fast", 1472))
    if length < 64:
        np.testing.assert_array_equal(many, expected)
    np.testing.assert_array_equal(first, many[:3])
    np.testing.assert_array_equal(later, many[40:43])
    np.testing.assert_array_equal(carried, np.stack([many, many]))
