"""Lookups of what was sorted, at the positions that the sort gives, are the sorted elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from jax_ipu.compiler.passes.sorts import sorted_lookups
from support.modes import array, check, each_mode
from support.stages import imported

X = np.round(array(40, 6) * 4) / 4  # with equal elements
X[3, 2], X[7, 2], X[9, 1], X[5, 2], X[8, 2] = np.nan, -np.nan, np.inf, -0.0, 0.0


def along(x, axis):
    return jnp.take_along_axis(x, jnp.argsort(x, axis=axis), axis, mode="promise_in_bounds")


# A function of X, and whether a lookup is left.
CASES = {
    "vector": (lambda x: x[:, 2][jnp.argsort(x[:, 2])], False),
    "and_positions": (lambda x: (i := jnp.argsort(x[:, 2]), x[:, 2][i]), False),
    "of_a_column": (lambda x: (c := x[:, 2:3].T.reshape(-1))[jnp.argsort(c)], False),
    "columns": (lambda x: along(x, 0), False),
    "rows": (lambda x: along(x, 1), False),
    "whole_numbers": (lambda x: (i := jnp.nan_to_num(x[:, 1]).astype(jnp.int32))[jnp.argsort(i)], False),
    "unique": (lambda x: jnp.unique(x[:, 2], size=9), True),
    "narrow_positions": (lambda x: x[:, 2][jnp.argsort(x[:, 2]).astype(jnp.int8)], True),
    "of_another": (lambda x: x[:, 3][jnp.argsort(x[:, 2])], True),
    "twice": (lambda x: x[:, 2][jnp.argsort(x[:, 2])[jnp.argsort(x[:, 2])]], True),
    "backwards": (lambda x: x[:, 2][jnp.argsort(x[:, 2])[::-1]], True),
}


@each_mode
@pytest.mark.parametrize("case", CASES)
def test_values(case, mode):
    check(CASES[case][0], X, mode=mode)


@pytest.mark.parametrize("case", CASES)
def test_lookups(case):
    function, left = CASES[case]
    module = imported(jax.jit(function).lower(X).as_text())
    pipeline.rewrite(module)
    assert any(op.name == "gather" for op in module.main.block.walk()) == left


def test_bits_are_those_of_the_sorted_elements():
    """Signed zeros and NaN are equal in a sort: they keep their order."""
    check(lambda x: jax.lax.bitcast_convert_type(CASES["vector"][0](x), jnp.int32), X, mode=("fast", 8))


def test_costs_what_the_sort_does():
    x = jax.ShapeDtypeStruct((100_000,), np.float32)
    sort, lookup = (jax_ipu.estimate(f, x).cycles for f in (jnp.sort, lambda x: x[jnp.argsort(x)]))
    assert lookup == sort


@pytest.mark.parametrize(("memory", "left"), [(0, 1), (10_000_000, 1), (100_000, 2)])
def test_large_tables_of_further_lookups(memory, left):
    """What `unique` looks up lies as lookups want it, not as it was sorted."""
    module = imported(jax.jit(lambda x: jnp.unique(x, size=9)).lower(np.zeros(5_000, np.float32)).as_text())
    module.memory = memory
    pipeline.rewrite(module)
    assert sum(op.name == "gather" for op in module.main.block.walk()) == left


def _set_along(x, order, axis):
    return jnp.put_along_axis(jnp.zeros_like(x), order, x, axis, inplace=False)


# Elements that are set at the positions of a sort: a function of X, and whether a scatter is left.
SET = {
    "inverse": (lambda x: jnp.zeros(40, int).at[jnp.argsort(x[:, 2])].set(jnp.arange(40)), False),
    "elements": (lambda x: x[:, 0].at[jnp.argsort(x[:, 2])].set(x[:, 3]), False),
    "booleans": (lambda x: (x[:, 0] > 0).at[jnp.argsort(x[:, 2])].set(x[:, 3] > 0), False),
    "in_a_loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s.at[jnp.argsort(s)].set(s + 1), x[:, 3]), False),
    "one_value": (lambda x: x[:, 0].at[jnp.argsort(x[:, 2])].set(5), False),
    "rows": (lambda x: x.at[jnp.argsort(x[:, 2])].set(x + 1), True),
    "some": (lambda x: x[:, 0].at[jnp.argsort(x[:, 2])[:30]].set(x[:30, 3]), True),
    "of_more": (lambda x: jnp.zeros(50).at[jnp.argsort(x[:, 2])].set(x[:, 3]), True),
    "sums": (lambda x: x[:, 0].at[jnp.argsort(x[:, 2])].add(x[:, 3]), False),
    "products": (lambda x: x[:, 0].at[jnp.argsort(x[:, 2])].multiply(x[:, 3]), True),
    "gradient_of_a_sort": (lambda x: jax.grad(lambda x: (jnp.sort(x, 1) * x).sum())(x), False),
    "of_columns": (lambda x: jax.grad(lambda x: (jnp.sort(x, 0) * x).sum())(x), False),
    "of_halves": (lambda x: jax.grad(lambda x: jnp.sort(x.astype(jnp.bfloat16), 1)[:, 1:4].sum())(x), False),
    "along_the_other_dimension": (lambda x: _set_along(x, jnp.argsort(x, 1), 0), True),
}


@pytest.fixture
def _at_any_size(monkeypatch):
    monkeypatch.setattr(sorted_lookups, "_MANY", 0)
    jax.clear_caches()


@each_mode
@pytest.mark.parametrize("case", SET)
def test_values_that_are_set(case, mode, _at_any_size):
    check(SET[case][0], X, mode=mode)


@pytest.mark.parametrize("case", SET)
def test_elements_that_are_set(case, _at_any_size):
    function, left = SET[case]
    module = imported(jax.jit(function).lower(X).as_text())
    pipeline.rewrite(module)
    assert any(op.name == "scatter" for op in module.main.block.walk()) == left


def test_many_elements_are_sorted():
    x = jax.ShapeDtypeStruct((3_000_000,), np.float32)
    sort, inverse = (
        jax_ipu.estimate(f, x).cycles
        for f in (jnp.argsort, lambda x: jnp.zeros(x.size, int).at[jnp.argsort(x)].set(jnp.arange(x.size)))
    )
    assert inverse < 2.5 * sort


def test_gradients_of_sorts_of_few_long_rows():
    """They take no more than a few sorts, however many rows there are."""

    def gradient(x):
        return jax.grad(lambda x: (jnp.sort(x, 1) * jnp.arange(x.shape[1])).sum())(x)

    for shape in ((2, 20_000), (7, 150_000), (100, 10_000)):
        x = jax.ShapeDtypeStruct(shape, np.float32)
        assert jax_ipu.estimate(gradient, x).cycles < 3 * jax_ipu.estimate(jnp.argsort, x).cycles
