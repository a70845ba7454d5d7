"""Cumulative operations and long windows of narrow floats, against JAX on CPU in the same type and in f32."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from support.modes import array, check, close, cpu_jit, each_mode, run_ipu

OPERATIONS = {
    "cumsum": (jnp.cumsum, 0.4, 0.6),
    "cumprod": (jnp.cumprod, 0.999, 1.001),
    "cummax": (lax.cummax, -2, 2),
    "cummin_reverse": (lambda x: lax.cummin(x, reverse=True), -2, 2),
    "cumsum_reverse": (lambda x: lax.cumsum(x, reverse=True), 0.4, 0.6),
    "cumlogsumexp": (lax.cumlogsumexp, -2, 2),
    "cumlogsumexp_reverse": (lambda x: lax.cumlogsumexp(x, reverse=True), -2, 2),
    "window": (lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (3000,), (7,), "SAME"), 0.4, 0.6),
}
# One rounding of the result, and two more if lines are cut.
ROUNDING = {"float16": 1.5e-3, "bfloat16": 1.2e-2}


@each_mode
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", OPERATIONS)
def test_halves_accumulate_in_single_precision(name, dtype, mode):
    function, low, high = OPERATIONS[name]
    for length in (1, 130, 10_000):
        x = array(length, dtype=dtype, low=low, high=high)
        wide = np.asarray(cpu_jit(function)(x.astype(np.float32)))
        [actual] = run_ipu(function, (x,), mode)
        close(actual.astype(np.float32), wide.astype(x.dtype).astype(np.float32), rtol=ROUNDING[dtype], atol=1e-2)


@each_mode
@pytest.mark.parametrize("dtype", ROUNDING)
def test_as_on_the_cpu_in_the_same_type(dtype, mode):
    x = array(8192, dtype=dtype, low=0.4, high=0.6)
    check(lambda x: (jnp.cumsum(x), lax.cumlogsumexp(x)), x, mode=mode, rtol=1.6e-2, atol=1e-2)
    check(lambda x: jnp.cumsum(x, 1), x.reshape(4, 2048), mode=mode, rtol=1.6e-2)
    check(lambda x: lax.associative_scan(jnp.add, x), x, mode=mode, rtol=1.6e-2)


def rounded_steps(combine, x, axis):
    """Returns the values of a loop in the type of `x`."""
    steps = []
    for value in np.moveaxis(x, axis, 0):
        steps.append(combine(steps[-1], value) if steps else value)
    return np.moveaxis(np.stack(steps), 0, axis)


def rounded(function, *operands):
    """Computes in f64, and rounds to the type of the operands."""
    return function(*(x.astype(np.float64) for x in operands)).astype(operands[0].dtype)


def logaddexp(a, b):
    """The formula of jnp.logaddexp, with every operation rounded."""
    smaller = rounded(np.exp, -np.abs(rounded(np.subtract, a, b)))
    return rounded(np.add, np.maximum(a, b), rounded(np.log1p, smaller))


@each_mode
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("shape", [(2, 40), (16, 9), (7, 16), (300, 5)], ids=str)
def test_short_lines_round_every_step(shape, dtype, mode):
    short = int(np.argmin(shape))

    def scans(x):
        return lax.cumsum(x, short), lax.cumprod(x, short), lax.cummax(x, short), lax.cumlogsumexp(x, short)

    x = array(*shape, dtype=dtype)
    *same, logarithm = run_ipu(scans, (x,), mode)
    for actual, function in zip(same, (np.add, np.multiply, np.maximum), strict=True):
        expected = rounded_steps(functools.partial(rounded, function), x, short)
        np.testing.assert_array_equal(actual, expected)
    # The exponentials and logarithms of the steps may differ in their last places before they are rounded.
    expected = rounded_steps(logaddexp, x, short)
    last_place = np.spacing(np.abs(expected)).astype(np.float32)
    assert (np.abs(logarithm.astype(np.float32) - expected.astype(np.float32)) <= last_place).all()


def last_positive(a, b):
    """The last position, if any, with a positive number: associative but not commutative."""
    (x, i), (y, j) = a, b
    return lax.select(y > 0, y, x), lax.select(y > 0, j, i)


@each_mode
@pytest.mark.parametrize("shape", [(3000,), (2, 1001), (700, 3)], ids=str)
def test_any_combiner_of_several_operands(shape, mode):
    x, places = array(*shape), np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    long = int(np.argmax(shape))

    def scan(x, places):
        window = [n if d == long else 1 for d, n in enumerate(shape)]
        padding = [(n - 1, 0) for n in window]
        ones = [1] * len(shape)
        return lax.reduce_window((x, places), (np.float32(-1), np.int32(-1)), last_positive, window, ones, padding)

    # XLA's CPU backend cannot compile such a long window of two operands.
    last = np.maximum.accumulate(np.where(x > 0, np.indices(shape)[long], -1), axis=long)
    expected = [np.take_along_axis(a, np.maximum(last, 0), long) for a in (x, places)]
    for actual, value in zip(run_ipu(scan, (x, places), mode), expected, strict=True):
        np.testing.assert_array_equal(actual, np.where(last < 0, -1, value))


@each_mode
def test_sums_of_negative_zeros_keep_their_sign(mode):
    def sums(x, init):
        window = lax.reduce_window(x, init, lax.add, (5,), (1,), "VALID")
        return lax.reduce_window(x, init, lax.add, x.shape, (1,), [(x.size - 1, 0)]), window, jnp.cumsum(x)

    x = np.full(5000, -0.0, np.float32)
    for init in (np.float32(-0.0), np.float32(0.0)):
        for actual, expected in zip(run_ipu(sums, (x, init), mode), cpu_jit(sums)(x, init), strict=True):
            np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


def test_cost_is_linear_in_the_length():
    compiled = jax.jit(jnp.cumsum, backend="ipu").lower(np.zeros(5000, np.float32)).compile()
    assert compiled.cost_analysis()["flops"] == 5000


@pytest.mark.parametrize("columns", [(), (100,)], ids=["one line", "columns"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "int8"])
def test_longer_lines_cost_little_more(dtype, columns):
    """Twice the length takes less than twice the cycles and a sync, nor much fewer: lines are cut where that pays."""
    lengths = [32, 64, 128, 255, 510, 1020, 2040, 4080, 8160]
    shapes = [jax.ShapeDtypeStruct((n, *columns), dtype) for n in lengths]
    cycles = [jax_ipu.estimate(lambda x: jnp.cumsum(x, 0), shape).cycles for shape in shapes]
    # The shortest lines lie on one tile, so that nothing is exchanged and there is no sync of 126 cycles.
    assert all(0.8 * shorter < longer < 2 * shorter + 126 for shorter, longer in itertools.pairwise(cycles))
