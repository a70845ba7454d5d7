"""Sorts and argmax of operands that take much of the memory: copied to where they are sorted, and in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from jax_ipu.compiler.lowering import sort
from jax_ipu.compiler.lowering.sort import alike
from support.modes import check, forget_executables


def numbers(size, dtype="float32"):
    """Numbers, with equal ones among them, signed zeros and NaN."""
    random = np.random.default_rng(7)
    x = np.round(random.normal(size=size) * 300).astype(dtype)
    x.flat[random.integers(0, x.size, 50)] = np.nan
    x.flat[random.integers(0, x.size, 50)] = -0.0
    return x


def by_absolute_value(x):
    return jax.lax.sort((jnp.abs(x), x), num_keys=1)


def backwards(x):
    """Sorts by a comparison that is no known key."""
    return jax.lax.sort((x * x, jnp.sin(x), x), num_keys=2)


# A function, and elements that take more than an eighth of four tiles.
CASES = {
    "f16": (jnp.sort, 170_000, "float16"),
    "pairs": (by_absolute_value, 44_000, "float32"),
    "triples": (backwards, 30_000, "float32"),
    "positions": (lambda x: jnp.argsort(x, descending=True), 84_000, "float32"),
    "rows": (lambda x: jnp.sort(x.reshape(2, -1), axis=1), 84_000, "float32"),
    "columns": (lambda x: jnp.sort(x.reshape(-1, 2), axis=0), 84_000, "float32"),
    # In place where nothing else reads the operands.
    "kept": (lambda x: (jnp.sort(x), x[::-1] * 2), 170_000, "float16"),
    "computed": (lambda x: jnp.sort(jnp.where(x > 3, -x, x))[::7], 170_000, "float32"),
    "twice": (lambda x: jax.lax.sort((x, jnp.sort(x)), num_keys=1), 44_000, "float32"),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jnp.sort(x * (i - 1)), x), 84_000, "float32"),
    "branches": (lambda x: jax.lax.cond(x[0] > x[1], jnp.sort, lambda x: -jnp.sort(-x), x), 84_000, "float32"),
}


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("case", CASES)
def test_values(case, execution):
    function, size, dtype = CASES[case]
    check(function, numbers(size, dtype), mode=(execution, 4))


# Functions of shapes that four tiles do not hold together with the positions of all elements.
PARTS = {
    "argmax": (jnp.argmax, (330_000,)),
    "argmin of rows": (lambda x: jnp.argmin(x, 1), (3, 110_000)),
    "argmax of columns": (lambda x: jnp.argmax(x, 0), (110_000, 3)),
    "two of the best": (lambda x: (jnp.argmax(x, 0), jnp.max(x, 0)), (500, 660)),
}


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("case", PARTS)
def test_values_in_parts(case, execution):
    function, shape = PARTS[case]
    check(function, numbers(shape), mode=(execution, 4))


def test_vertices():
    function, size, dtype = CASES["f16"]
    check(function, numbers(size, dtype), mode=("codelets", 4))


# Operands and results take half of the memory, or what the function sorts does.
FITTING = {
    "f16": (jnp.sort, (110_000_000,), jnp.float16),
    "permutation": (lambda key: jax.random.permutation(key, 58_000_000), (2,), jnp.uint32),
    "shuffle": (lambda x: jax.random.permutation(jax.random.key(1), x), (58_000_000,), jnp.float32),
    "median": (jnp.median, (80_000_000,), jnp.float32),
    "argmax": (jnp.argmax, (117_000_000,), jnp.float32),
    "argmax of int8": (jnp.argmax, (468_000_000,), jnp.int8),
    "argmin of rows": (lambda x: jnp.argmin(x, 1), (1_170, 100_000), jnp.float32),
}


@pytest.mark.parametrize("case", FITTING)
def test_half_of_the_memory_fits(case):
    function, shape, dtype = FITTING[case]
    assert jax_ipu.estimate(function, jax.ShapeDtypeStruct(shape, dtype)).fits


# Shuffles sort three times or twice.
ALIKE = {
    "shuffle": (lambda x: jax.random.permutation(jax.random.key(1), x), numbers(84_000)),
    "permutation": (lambda x: jax.random.permutation(jax.random.key(1), 84_000) + 0 * x[0].astype(int), numbers(3)),
    "pairs": (lambda x: by_absolute_value(by_absolute_value(x * 2)[1] - 3), numbers(84_000)),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jnp.sort(-jnp.sort(x * (i - 1))), x), numbers(170_000)),
}


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("case", ALIKE)
def test_sorts_that_share_their_code(case, execution, monkeypatch):
    """Where memory comes first, sorts that are alike are calls of one function."""
    optimize, shared = pipeline.optimize, []
    monkeypatch.setattr(pipeline, "optimize", lambda p, memory, _, *rest: optimize(p, memory, True, *rest))
    monkeypatch.setattr(sort, "alike", lambda block: shared.append(alike(block)) or shared[-1])
    forget_executables()
    try:
        function, x = ALIKE[case]
        check(function, x, mode=(execution, 4))
        assert shared[-1]
    finally:
        forget_executables()


def test_rows_that_two_or_three_tiles_share():
    """405 rows of 1472 tiles: three parts of each take less than the whole row on one."""
    few, many = (
        jax_ipu.estimate(lambda x: jnp.sort(x, 1), jax.ShapeDtypeStruct((n, n), jnp.float32)).cycles for n in (286, 405)
    )
    assert many < 2.2 * few


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("rows", [3, 4])
def test_values_of_rows_in_two_or_three_parts(rows, execution):
    x = np.round(np.random.default_rng(0).normal(size=(rows, 51)).astype("float32") * 9)
    x[0, 3:5] = np.nan, -0.0
    check(lambda x: (jnp.sort(x, 1), jnp.argsort(x, 1), jax.lax.top_k(x, 40)), x, mode=(execution, 2 * rows))
    check(lambda x: jnp.sort(x.T, 0), x, mode=(execution, rows * 3))
