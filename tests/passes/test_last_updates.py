"""Many rows that are set in a large table: which are found by their last update, values, and cycles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu.compiler.passes.indices import last_updates
from support.modes import array, check, each_mode
from support.stages import optimized_ops

RANDOM = np.random.default_rng(2)
TABLE, ROWS = array(500), array(200, 3)
# Some are outside on either side, and most rows are set several times.
PLACES, ROW_PLACES = (RANDOM.integers(-n - 50, n + 50, 900).astype(np.int32) for n in (500, 200))
U, V = array(900), array(900, 3)
LEAST = last_updates._LEAST
UNIQUE = RANDOM.permutation(500).astype(np.int32)


def _in_a_loop(x, i, u):
    return lax.fori_loop(0, 3, lambda k, s: s.at[i + k].set(u * s[7]), x)


def _columns(x, i, u):
    return x.at[:, i % 3].set(u)


# Each with whether the last updates are found first.
PROGRAMS = {
    "elements": (lambda x, i, u: x.at[i].set(u), (TABLE, PLACES, U), True),
    "rows": (lambda x, i, u: x.at[i].set(u), (ROWS, ROW_PLACES, V), True),
    "a constant": (lambda x, i: x.at[i].set(2.0), (TABLE, PLACES), True),
    "not a number": (lambda x, i, u: x.at[i].set(jnp.where(u > 0, jnp.nan, u)), (TABLE, PLACES, U), True),
    "bytes": (lambda x, i, u: x.at[i].set(u), (TABLE.astype("int8"), PLACES, U.astype("int8")), True),
    "booleans": (lambda x, i, u: x.at[i].set(u), (TABLE > 0, PLACES, U > 0), True),
    "complex": (lambda x, i, u: x.at[i].set(u), (TABLE + 1j, PLACES, U - 1j), True),
    "f16": (lambda x, i, u: x.at[i].set(u), (ROWS.astype("float16"), ROW_PLACES, V.astype("float16")), True),
    "each once": (lambda x, i, u: x.at[i].set(u, unique_indices=True), (TABLE, UNIQUE, U[:500]), True),
    "the inverse of a permutation": (lambda i: jnp.zeros(500, int).at[i].set(jnp.arange(500)), (UNIQUE,), True),
    "two indices": (lambda x, i, j, u: x.at[i % 9, j % 7].set(u), (ROWS.reshape(20, 30), PLACES, ROW_PLACES, U), False),
    "a matrix of indices": (lambda x, i, u: x.at[i.reshape(30, 30)].set(u.reshape(30, 30)), (TABLE, PLACES, U), True),
    "in a loop": (_in_a_loop, (TABLE, PLACES, U), True),
    "sums": (lambda x, i, u: x.at[i].add(u), (TABLE, PLACES, U), False),
    "columns": (_columns, (ROWS, ROW_PLACES, array(200, 900)), False),
}


@pytest.fixture(autouse=True)
def _at_any_size(monkeypatch):
    monkeypatch.setattr(last_updates, "_LEAST", 0)
    monkeypatch.setattr(last_updates, "_FEWEST", 0)
    jax.clear_caches()


def _bodies(function, arguments):
    ops = optimized_ops(function, *arguments, memory=1 << 30)
    return [op.regions[0].ops[0].name for op in ops if op.name == "scatter"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_who_is_found_by_the_last_update(name):
    function, arguments, found = PROGRAMS[name]
    assert ("maximum" in _bodies(function, arguments)) == found


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize(("rows", "updates", "width"), [(3_000_000, 1_000_000, 1), (1_000_000, 100_000, 16)])
def test_takes_half_of_the_cycles(rows, updates, width, monkeypatch):
    def shape(n):
        return (n,) if width == 1 else (n, width)

    arguments = (
        jax.ShapeDtypeStruct(shape(rows), jnp.float32),
        jax.ShapeDtypeStruct((updates,), jnp.int32),
        jax.ShapeDtypeStruct(shape(updates), jnp.float32),
    )
    cycles = []
    for least in (0, LEAST, np.inf):
        monkeypatch.setattr(last_updates, "_LEAST", least)
        jax.clear_caches()
        cycles.append(jax_ipu.estimate(lambda x, i, u: x.at[i].set(u), *arguments).cycles)
    assert 2 * cycles[0] < cycles[2] and cycles[1] == cycles[0]
