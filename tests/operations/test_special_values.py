"""Signed zeros, infinities, NaN, denormals and integer limits, in every combination of operands."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.modes import MODES, RTOL, cpu_jit, run_ipu
from support.special_values import (
    DENORMAL_ROWS,
    ROWS,
    STRUCTURED_ROWS,
    combinations,
    denormal_combinations,
    flushed,
    lines,
)

FEW_TILES = MODES[::2]
each_mode = pytest.mark.parametrize("mode", FEW_TILES, ids=lambda mode: f"{mode[0]}{mode[1]}")


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def assert_same(actual, expected, operands=()) -> None:
    """NaN, infinities and zeros must match, with their signs; other floats within the type's tolerance."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    wrong = differs(actual, expected)
    if wrong.any():
        places = np.argwhere(wrong)[:5]
        shown = [([str(o[tuple(p)]) for o in operands], actual[tuple(p)], expected[tuple(p)]) for p in places]
        raise AssertionError(f"{wrong.sum()} of {wrong.size}: (operands, result, expected) {shown}")


def differs(actual, expected):
    if expected.dtype.kind in "biu" or expected.dtype.name.startswith(("int", "uint")):
        return actual != expected
    if expected.dtype.kind == "c":
        # A small component must be as exact as the large component of the same number.
        finite = np.isfinite(actual) & np.isfinite(expected) & (expected.real != 0) & (expected.imag != 0)
        error = RTOL[expected.dtype.name] * np.abs(np.where(finite, expected, 0))
        close = finite & (np.abs(np.where(finite, actual, 0) - np.where(finite, expected, 0)) <= error)
        return ~close & (differs(actual.real, expected.real) | differs(actual.imag, expected.imag))
    rtol = RTOL.get(expected.dtype.name, 0)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == e) & (np.signbit(a) == np.signbit(e)) | (np.isnan(a) & np.isnan(e))
        return ~(same | (np.isfinite(a) & np.isfinite(e) & (a * e > 0) & (np.abs(a - e) <= rtol * np.abs(e))))


@functools.cache
def of_all_types(rows, index):
    """Returns the row's operands by type, and the function over all types: one program per platform."""
    row = rows[index]
    if rows is STRUCTURED_ROWS:
        operands = {dtype: (lines(dtype, row.exact_sums),) for dtype in row.dtypes}
    elif rows is DENORMAL_ROWS:
        operands = {dtype: denormal_combinations(dtype, row.count) for dtype in row.dtypes}
    else:
        operands = {dtype: combinations(dtype, row.count, row.only_finite) for dtype in row.dtypes}

    def function(calls):
        return {dtype: jax.tree.leaves(row.function(*arguments)) for dtype, arguments in calls.items()}

    return operands, function


@functools.cache
def expected(rows, index):
    """Returns the results by type, of the row's NumPy reference or of JAX on CPU."""
    operands, function = of_all_types(rows, index)
    reference = getattr(rows[index], "reference", None)
    if reference is None:
        return jax.tree.map(np.asarray, cpu_jit(function)(operands))
    with np.errstate(all="ignore"):
        return {d: [reference(*a).astype(jax.eval_shape(function, operands)[d][0].dtype)] for d, a in operands.items()}


def actual(rows, index, mode):
    operands, function = of_all_types(rows, index)
    of_types = jax.tree.structure(jax.eval_shape(function, operands))
    return jax.tree.unflatten(of_types, run_ipu(function, (operands,), mode))


def each_of(rows):
    return pytest.mark.parametrize("index", range(len(rows)), ids=[row.name for row in rows])


@each_mode
@each_of(ROWS)
def test_every_combination(index, mode):
    results, wanted = actual(ROWS, index, mode), expected(ROWS, index)
    operands, _ = of_all_types(ROWS, index)
    for dtype in wanted:
        for a, e in zip(results[dtype], wanted[dtype], strict=True):
            assert_same(a, e, operands[dtype])


@each_mode
@each_of(STRUCTURED_ROWS)
def test_lines(index, mode):
    results, wanted = actual(STRUCTURED_ROWS, index, mode), expected(STRUCTURED_ROWS, index)
    for dtype in wanted:
        for a, e in zip(results[dtype], wanted[dtype], strict=True):
            assert_same(a, e)


@functools.cache
def exact_and_of_zeros(index):
    """Returns the results by type, from operands in f64 and from operands without denormals."""
    operands, function = of_all_types(DENORMAL_ROWS, index)

    both = cpu_jit(lambda *of_operands: [function(calls) for calls in of_operands])
    # Converted here, because XLA:CPU converts bf16 through f32 and flushes denormals.
    wide = jax.tree.map(lambda a: a.astype(np.float64), operands)
    return jax.tree.map(np.asarray, both(wide, jax.tree.map(flushed, operands)))


@each_mode
@each_of(DENORMAL_ROWS)
def test_denormals_count_as_themselves_or_as_zero(index, mode):
    """The exact result, or that of operands flushed to zero. A denormal result may also be zero. f16 is exact."""
    results, (exact, of_zeros) = actual(DENORMAL_ROWS, index, mode), exact_and_of_zeros(index)
    operands, _ = of_all_types(DENORMAL_ROWS, index)
    for dtype, (result,) in results.items():
        with np.errstate(over="ignore"):  # overflows to infinity, as in rounding to nearest
            one, other = (x.astype(result.dtype) for x in (*exact[dtype], *of_zeros[dtype]))
        wrong = differs(result, one)
        if dtype != "float16":
            wrong &= differs(flushed(result), flushed(one)) & differs(flushed(result), flushed(other))
        assert not wrong.any(), (dtype, [o[wrong][:5] for o in operands[dtype]], result[wrong][:5], one[wrong][:5])


def test_the_least_power_of_two_is_rounded_to():
    x = np.array([0, 1e-45, 2.0**-127, 1.4 * 2.0**-127, 1.6 * 2.0**-127, 2.0**-126, np.inf, -1], np.float32)
    for mode in FEW_TILES:
        (result,) = run_ipu(lambda x: x.astype(jnp.float8_e8m0fnu), (x,), mode)
        np.testing.assert_array_equal(result.view(np.uint8), [255, 0, 0, 0, 1, 1, 255, 255])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_denormal_constants_keep_their_bits(dtype):
    """The compiler runs on threads of jaxlib, which flush denormals."""
    bits = {2: np.uint16, 4: np.uint32}[jnp.dtype(dtype).itemsize]
    least = np.array(1, bits).view(dtype)[()]
    # The result does not depend on the argument, which jit would drop with the device that it is on.
    full = jax.jit(lambda x: jnp.full_like(x, least), keep_unused=True)
    y = full(jax.device_put(np.zeros(3, dtype), jax.devices("ipu")[0]))
    assert y.device.platform == "ipu"
    np.testing.assert_array_equal(np.asarray(y).view(bits), 1)


@each_mode
def test_a_mask_as_a_factor_hides_what_is_no_number(mode):
    """XLA makes a product with a converted predicate a select, which gradients of maxima rely on."""

    def function(x, mask):
        slopes = jax.grad(lambda x: jnp.max(x, 1).sum() + jnp.min(x))(x)
        return x * mask, mask.astype("float32") * x, jax.lax.complex(x, -x) * mask, slopes

    x = np.array([[np.nan, np.inf, -1], [-np.inf, 0, 2]], np.float32)
    mask = np.array([[False, False, True], [False, True, False]])
    expected = cpu_jit(function)(x, mask)
    for a, e in zip(run_ipu(function, (x, mask), mode), expected, strict=True):
        assert_same(np.asarray(a), np.asarray(e))
