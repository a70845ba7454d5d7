"""Reductions by way of partial results in several supersteps: their values, and how many supersteps they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu.debug
from support.modes import check, each_mode
from support.supersteps import supersteps

LONG = np.random.default_rng(0).standard_normal(94208, np.float32)


def largest_by_size(values, indices):
    """A combiner of two tensors that no specialised kernel has: the value with the largest absolute value."""

    def combine(a, b):
        first = jnp.abs(a[0]) >= jnp.abs(b[0])
        return tuple(jnp.where(first, x, y) for x, y in zip(a, b, strict=True))

    return lax.reduce((values, indices), (np.float32(0), np.int32(-1)), combine, (0,))


FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of bf16": lambda x: x.astype(jnp.bfloat16).sum(),
    "maximum": lambda x: x.max(),
    "argmax": lambda x: x.argmax(),
    "product": lambda x: jnp.prod(jnp.sign(x)),
    "two tensors": lambda x: largest_by_size(x, jnp.arange(x.size, dtype=jnp.int32)),
    "any": lambda x: (x > 4).any(),
}


@each_mode
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, mode):
    check(FUNCTIONS[name], LONG, mode=mode)


@pytest.mark.parametrize(
    ("axis", "shape", "expected"),
    # A result's values are all on its tile in the last case.
    [(None, (64,), 1), (None, (1024,), 2), (None, (1472 * 64,), 3), (1, (1472 * 8, 16), 1)],
)
def test_supersteps_follow_the_number_of_values(axis, shape, expected):
    assert supersteps(lambda x: x.sum(axis), jax.ShapeDtypeStruct(shape, np.float32), kind="reduce") == expected


@pytest.mark.parametrize("shape", [(300, 3000, 16), (901, 1009, 8), (7, 40_001, 24)])
def test_results_are_where_their_values_are(shape):
    """Whatever the rounding of shares: values that are spread linearly need not move for sums of adjacent ones."""
    pairs = [jax.ShapeDtypeStruct(s, np.float32) for s in ((shape[0], shape[2]), (shape[1], shape[2]))]
    operations = jax_ipu.debug.profile(lambda a, b: (a[:, None] * b[None]).sum(-1), *pairs)
    (reduction,) = [o for o in operations if o.operation == "reduce"]
    assert reduction.exchange_cycles < 100


@each_mode
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_sums_of_a_square(axis, mode):
    """Few results of many values: several tiles share a result, though every tile could have one."""
    check(lambda x: x.sum(axis), np.random.default_rng(1).standard_normal((512, 640), np.float32), mode=mode)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_square_uses_all_tiles(axis):
    """A tile receives its share of the values, not the whole rows of its results."""
    operations = jax_ipu.debug.profile(lambda x: x.sum(axis), jax.ShapeDtypeStruct((1024, 1024), np.float32))
    (reduction,) = [o for o in operations if o.operation == "reduce"]
    assert reduction.tiles > 1300 and reduction.exchange_cycles < 1024
