"""Positions that move along in a sort: those of `argsort` are made by the sort."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from support.modes import array, check, each_mode
from support.stages import imported

X = np.round(array(40, 6) * 4) / 4  # with equal elements
X[3, 2], X[7, 2], X[9, 1], X[5, 2], X[8, 2] = np.nan, -np.nan, np.inf, -0.0, 0.0
LONG = np.round(array(5000) * 50)


def with_positions(x, shape, dim, keys=1, dtype=jnp.int32):
    return jax.lax.sort((x, jax.lax.broadcasted_iota(dtype, shape, dim)), dimension=0, num_keys=keys)


# A function of X, and whether the sort makes the positions.
CASES = {
    "argsort": (lambda x: jnp.argsort(x, axis=0), True),
    "of_rows": (lambda x: jnp.argsort(x, axis=1), True),
    "descending": (lambda x: jnp.argsort(x, axis=0, descending=True), True),
    "of_integers": (lambda x: jnp.argsort(jnp.nan_to_num(x).astype(jnp.int8), axis=0), True),
    "lexsort": (lambda x: jnp.lexsort((x[:, 0], x[:, 1])), True),
    "with_sorted_elements": (lambda x: with_positions(x, x.shape, 0), True),
    "unsigned": (lambda x: with_positions(x, x.shape, 0, dtype=jnp.uint32), True),
    "permutation": (lambda x: jax.random.permutation(jax.random.key(1), 40), True),
    "twice": (lambda x: jax.lax.sort((x, *[jax.lax.iota(jnp.int32, 40)[:, None] + 0 * x.astype(int)] * 2), 0), False),
    "two_positions": (lambda x: jax.lax.sort((x[:, 0], jnp.arange(40), jnp.arange(40, dtype=jnp.uint32)), 0), True),
    "compared": (lambda x: with_positions(x, x.shape, 0, keys=2), False),
    "of_the_other_dimension": (lambda x: with_positions(x, x.shape, 1), False),
    "too_narrow": (lambda x: with_positions(x, x.shape, 0, dtype=jnp.int8), False),
    "only_positions": (lambda x: jax.lax.sort((jnp.arange(40), jnp.arange(40)), num_keys=2), False),
    "in_a_loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.argsort(s, axis=0), x), True),
}


@each_mode
@pytest.mark.parametrize("case", CASES)
def test_values(case, mode):
    check(CASES[case][0], X, mode=mode)


@pytest.mark.parametrize("case", CASES)
def test_what_is_sorted(case):
    function, made = CASES[case]
    module = imported(jax.jit(function).lower(X).as_text())
    pipeline.rewrite(module)
    sorts = [op for op in module.main.block.walk() if op.name == "ipu.sort_with_positions"]
    assert bool(sorts) == made
    assert all(o.op is None or o.op.name != "iota" for op in sorts for o in op.operands)


@pytest.mark.parametrize("mode", [("fast", 64), ("tile", 64)], ids=lambda mode: mode[0])
def test_rows_in_chunks(mode):
    check(lambda x: (jnp.argsort(x), jnp.argsort(x[:3000].astype(jnp.int16))), LONG, mode=mode)


def test_wide_positions():
    with jax.enable_x64(True):
        check(lambda x: jnp.argsort(x, axis=0), X.astype(np.float64), mode=("fast", 8))


# Operands and results take half of the memory.
FITTING = {
    "argsort": (jnp.argsort, 57_000_000, jnp.float32),
    "int8": (jnp.sort, 220_000_000, jnp.int8),
    "int16": (jnp.sort, 110_000_000, jnp.int16),
    "int32": (jnp.sort, 57_000_000, jnp.int32),
}


@pytest.mark.parametrize("case", FITTING)
def test_half_of_the_memory_fits(case):
    function, count, dtype = FITTING[case]
    assert jax_ipu.estimate(function, jax.ShapeDtypeStruct((count,), dtype)).fits
