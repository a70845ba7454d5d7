"""Sums of f16 values that JAX makes in f32: no array of f32 exists, and partial sums are not rounded to f16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import check, with_codelets
from support.stages import optimized_ops

# Their sums in f16 would stay at 2048.
ROWS = (1 + np.random.default_rng(0).integers(0, 2, (3, 5000)) / 1024).astype(np.float16)
SCORES = np.random.default_rng(1).normal(size=(2, 7, 40)).astype(np.float16)


def _wide_sum(x):
    return lax.reduce(x.astype(jnp.float32), jnp.float32(0), lax.add, (1,))


def sum_and_wide(x):
    total = _wide_sum(x)
    return total.astype(jnp.float16), total


def in_both_branches(x):
    """Each branch converts the sum that is made outside of both."""
    return [
        lax.cond(p, lambda t: 2 * t.astype("float16"), lambda t: t.astype("float16"), _wide_sum(x))
        for p in (x[0, 0] > 0, x[0, 0] < 0)
    ]


def in_a_loop(x):
    total = _wide_sum(x)
    return lax.fori_loop(0, 3, lambda i, s: 0.5 * s + total.astype("float16"), total.astype("float16"))


def within_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, y: y / _wide_sum(y).astype("float16")[:, None], x)


# Each with whether an array of f32 remains that is as large as the values.
PROGRAMS = {
    "sum": (lambda x: x.sum(-1), ROWS, False),
    "sum of all": (lambda x: x.sum(), ROWS, False),
    "sum of exponentials": (lambda x: jnp.exp(x).sum(-1), SCORES, False),
    "softmax": (lambda x: jax.nn.softmax(x, -1), SCORES, False),
    "masked softmax": (lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), 1), SCORES, False),
    "kept dimension": (lambda x: x - x.sum(1, keepdims=True), SCORES, False),
    "read in f32": (sum_and_wide, ROWS, False),
    "in both branches": (in_both_branches, ROWS / 8, False),
    "in a loop": (in_a_loop, ROWS / 8, False),
    "mean": (lambda x: x.mean(), ROWS, False),
    "means of columns": (lambda x: x.mean(0), SCORES, False),
    "sum in f32": (lambda x: x.sum((0, 2), dtype="float32"), SCORES, False),
    "of one element": (lambda x: x[:, :1].sum(1, dtype="float32"), ROWS, False),
    "of nothing": (lambda x: x[:, :0].sum(1, dtype="float32"), ROWS, False),
    "within a loop": (within_a_loop, ROWS, False),
    "not from zero": (
        lambda x: lax.reduce(x.astype("float32"), jnp.float32(1), lax.add, (1,)).astype("float16"),
        ROWS,
        True,
    ),
    "maximum": (lambda x: lax.reduce(x.astype("float32"), -jnp.inf, lax.max, (1,)).astype("float16"), ROWS, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
@with_codelets
def test_values(name, mode):
    function, values, _ = PROGRAMS[name]
    check(function, values, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_of_f32(name):
    function, values, wide = PROGRAMS[name]
    ops = optimized_ops(function, values)
    made = {(r.dtype, r.shape) for op in ops for r in op.results}
    assert (("f32", values.shape) in made) == wide, made
