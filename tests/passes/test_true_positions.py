"""Positions of what is true in a mask are sorted, not counted: which scatters remain, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import check, each_mode
from support.stages import optimized_ops

MASK = np.random.default_rng(0).random(500) < 0.3
GRID = MASK.reshape(20, 25)
NUMBERS = np.random.default_rng(1).integers(0, 40, 300).astype(np.int32)
NONE, ALL = np.zeros(50, bool), np.ones(50, bool)


def _counted(x, size):
    """As jnp.nonzero, of counts that are not those of a mask."""
    return jnp.cumsum(jnp.zeros(size, "int32").at[jnp.cumsum(x)].add(1, mode="drop"))


# Each with how many scatters remain.
PROGRAMS = {
    "fewer than there are": (lambda m: jnp.nonzero(m, size=100)[0], (MASK,), 0),
    "more than there are": (lambda m: jnp.nonzero(m, size=400)[0], (MASK,), 0),
    "more than elements": (lambda m: jnp.nonzero(m, size=600)[0], (MASK,), 0),
    "another fill value": (lambda m: jnp.nonzero(m, size=400, fill_value=-7)[0], (MASK,), 0),
    "one": (lambda m: jnp.nonzero(m, size=1)[0], (MASK,), 0),
    "of none": (lambda m: jnp.nonzero(m, size=20)[0], (NONE,), 0),
    "of all": (lambda m: jnp.nonzero(m, size=60)[0], (ALL,), 0),
    "of numbers": (lambda x: jnp.flatnonzero(x % 3, size=250, fill_value=300), (NUMBERS,), 0),
    "of two dimensions": (lambda m: jnp.nonzero(m, size=180), (GRID,), 0),
    "rows of places": (lambda m: jnp.argwhere(m, size=180, fill_value=-1), (GRID,), 0),
    "where": (lambda m: jnp.where(m, size=180), (GRID,), 0),
    "selected elements": (lambda x, m: x[jnp.nonzero(m[:300], size=120, fill_value=0)], (NUMBERS, MASK), 0),
    "distinct": (lambda x: jnp.unique(x, size=50, fill_value=-1), (NUMBERS,), 0),
    "distinct with counts": (lambda x: jnp.unique(x, size=50, return_counts=True), (NUMBERS,), 0),
    "distinct with places": (lambda x: jnp.unique(x, size=50, return_index=True), (NUMBERS,), 0),
    "in a loop": (
        lambda m: lax.fori_loop(
            0, 3, lambda i, s: s + jnp.nonzero(m & (s[0] >= 0), size=100)[0], jnp.zeros(100, "int32")
        ),
        (MASK,),
        0,
    ),
    "of each row": (jax.vmap(lambda m: jnp.nonzero(m, size=10)[0]), (GRID,), 0),
    "of each column": (jax.vmap(lambda m: jnp.nonzero(m, size=30)[0], 1, 1), (GRID,), 1),
    "of rows in rows": (jax.vmap(jax.vmap(lambda m: jnp.nonzero(m, size=3)[0])), (MASK.reshape(4, 25, 5),), 0),
    "the most frequent": (jax.scipy.stats.mode, (NUMBERS,), 0),
    "counts of numbers": (lambda x: _counted(x % 2, 200), (NUMBERS,), 1),
    "counts of a mask": (lambda m: _counted(m.astype("int32"), 200), (MASK,), 0),
    "weighed": (
        lambda m: jnp.cumsum(jnp.zeros(99, "int32").at[jnp.cumsum(m)].add(2, mode="drop")),
        (MASK,),
        1,
    ),
    "from another start": (
        lambda m: jnp.cumsum(jnp.ones(99, "int32").at[jnp.cumsum(m)].add(1, mode="drop")),
        (MASK,),
        1,
    ),
    "counts of few bits": (
        lambda m: jnp.cumsum(jnp.zeros(99, "int32").at[jnp.cumsum(m, dtype="int8")].add(1, mode="drop")),
        (MASK,),
        1,
    ),
    "from the end": (
        lambda m: lax.cumsum(jnp.zeros(99, "int32").at[jnp.cumsum(m)].add(1, mode="drop"), reverse=True),
        (MASK,),
        1,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_scatters_that_remain(name):
    function, arguments, count = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    assert sum(op.name == "scatter" for op in ops) == count


def _with(values, places, number):
    values = values.copy()
    values[places] = number
    return values


COUNT = np.arange(2000, dtype=np.int32)
HOLES = np.random.default_rng(2).random(2000) < 0.4
# Ascending but for one number, as the masked positions are, or nearly so.
ASCENDING = {
    "as it is": COUNT,
    "with the largest between": _with(COUNT, HOLES, 5000),
    "with the largest of its type between": _with(COUNT, HOLES, 2**31 - 1),
    "with a middle one between": _with(COUNT, HOLES, 1000),
    "with the least between": _with(COUNT, HOLES, -1),
    "one descent at the end": _with(COUNT, [1999], 7),
    "one descent after the largest": _with(_with(COUNT, HOLES, 5000), [1998], 7),
    "one larger at the end": _with(_with(COUNT, HOLES, 5000), [1998], 6000),
    "one larger in the middle": _with(_with(COUNT, HOLES, 5000), [900], 6000),
    "largest first": _with(COUNT, slice(0, 700), 5000),
    "descending": COUNT[::-1].copy(),
    "equal": np.zeros(2000, np.int32),
    "two numbers": _with(np.zeros(2000, np.int32), HOLES, 1),
}


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float32", "float16"])
@pytest.mark.parametrize("name", ASCENDING)
def test_sorts_of_ascending_numbers(name, dtype):
    with jax.enable_x64(True), np.errstate(over="ignore"):
        values = ASCENDING[name].astype(dtype)
        check(jnp.sort, values, mode=("fast", 8))
        check(lambda x: -jnp.sort(-x), values, mode=("fast", 8))
