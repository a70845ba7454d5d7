"""A few elements of a large sorted array are found without the sort, where memory comes first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from support.modes import check, forget_executables, lower, run_ipu
from support.stages import imported

SIZE = 50_000  # a quarter of two tiles, in f32


def numbers(dtype="float32", size=SIZE):
    """Numbers with equal ones among them, of both signs; zeros of both signs are in the middle."""
    random = np.random.default_rng(3)
    x = np.round(random.normal(size=size) * 40)
    if np.dtype(dtype).kind in "iu":
        return (x - min(0, x.min()) * (np.dtype(dtype).kind == "u")).astype(dtype)
    x[random.integers(0, size, size // 3)] = -0.0
    return x.astype(dtype)


def with_nan(many):
    x = numbers()
    x[:: 3 if many else 9_999] = np.nan
    x[1 :: 3 if many else 7_777] = -np.nan
    x[17], x[18] = np.inf, -np.inf
    return x


def at(*places):
    return lambda x: jnp.sort(x)[jnp.array(places)]


X = numbers()
# Functions and an operand.
CASES = {
    "median": (jnp.median, X),
    "median of an odd number": (jnp.median, X[:-1]),
    "no number of parts": (jnp.median, numbers(size=49_999)),
    "quantile": (lambda x: jnp.quantile(x, 0.3), X),
    "quantiles": (lambda x: jnp.quantile(x, jnp.array([0.0, 0.2, 1.0])), X),
    "place known at run time": (lambda x: jnp.quantile(x, jnp.abs(x[0]) % 1), X),
    "first and last": (lambda x: (jnp.sort(x)[0], jnp.sort(x)[-1], jnp.sort(x)[:3]), X),
    "outside": (at(-1, 60_000, -60_000), X),
    "slice": (lambda x: jax.lax.dynamic_slice(jnp.sort(x), (x[3].astype(int),), (3,)), X),
    "computed": (lambda x: jnp.median(jnp.abs(x) - 3), X),
    "NaN": (lambda x: (jnp.nanmax(x), at(5, 17_000, 49_990)(x)), with_nan(False)),
    "many NaN": (at(0, 17_000, 25_000, 49_999), with_nan(True)),
    "median with NaN": (jnp.median, with_nan(False)),
    "f16": (at(0, 70_000, 99_999), numbers("float16", 100_000)),
    "bf16": (at(0, 70_000, 99_999), numbers("bfloat16", 100_000)),
    "s32": (at(0, 25_000, 49_999), numbers("int32") * 30_000_000),
    "u32": (at(0, 25_000, 49_999), numbers("uint32") * 12_000_000),
    "s16": (at(0, 25_000, 99_999), numbers("int16", 100_000)),
    "u8": (at(0, 25_000, 199_999), numbers("uint8", 200_000)),
}


@pytest.fixture
def always_frugal(monkeypatch):
    """All programs are compiled as where memory comes first."""
    forget_executables()
    monkeypatch.setattr(pipeline, "_SAVE_MEMORY", frozenset())
    yield
    forget_executables()


def ops(function, x, memory=638976 * 2):
    module = imported(lower(function, x)[0])
    module.memory, module.frugal = memory, True
    pipeline.rewrite(module, memory_first=True)
    return [op.name for op in module.main.block.walk()]


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("case", CASES)
def test_values(case, execution, always_frugal):
    function, x = CASES[case]
    assert "sort" not in ops(function, x)
    check(function, x, mode=(execution, 2))


@pytest.mark.parametrize("case", ["slice", "outside", "first and last"])
def test_bits_are_those_of_the_sorted_elements(case, always_frugal):
    """Zeros of both signs are equal in a sort: they keep their order."""
    function, x = CASES[case]
    for actual, expected in zip(
        run_ipu(function, (x,), ("fast", 2)), jax.tree.leaves(jax.jit(function)(x)), strict=True
    ):
        np.testing.assert_array_equal(actual.view(np.int32), np.asarray(expected).view(np.int32))


def test_zeros_keep_their_signs(always_frugal):
    zeros = np.where(np.arange(SIZE) % 3 == 0, np.float32(-0.0), np.float32(0.0))
    check(lambda x: jnp.signbit(at(0, 1, 2, 3, 30_000, 49_999)(x)), zeros, mode=("fast", 2))


# What reads many elements, or all, sorts.
SORTING = {
    "all": (jnp.sort, X),
    "many": (lambda x: jnp.sort(x)[:17], X),
    "both": (lambda x: (jnp.median(x), jnp.sort(x)), X),
    "of two": (lambda x: jax.lax.sort((x, -x), num_keys=1)[1][5], X),
    "rows": (lambda x: jnp.median(x.reshape(2, -1), axis=1), X),
    "small": (jnp.median, X[:1000]),
    "descending": (lambda x: jax.lax.sort(-x, is_stable=False)[5] + jnp.sort(-x)[::-1].sum(), X),
}


@pytest.mark.parametrize("case", SORTING)
def test_sorts(case):
    assert any(name in ("sort", "ipu.sort_with_positions") for name in ops(*SORTING[case]))


# The operand takes half of the memory.
FITTING = {
    "median": (jnp.median, 117_000_000, np.float32),
}


@pytest.mark.parametrize("case", FITTING)
def test_half_of_the_memory_fits(case):
    function, size, dtype = FITTING[case]
    assert jax_ipu.estimate(function, jax.ShapeDtypeStruct((size,), dtype)).fits
