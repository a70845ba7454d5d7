"""Values that no trip of a loop changes are made before it: which ones, and values in every mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu.debug
from support.modes import array, check, each_mode

X = array(3, 3)


def _identity(x):
    return lax.fori_loop(0, 4, lambda _, x: x @ x * 0.1 + 0.5 * jnp.eye(3), x)


def _of_arguments(x, y):
    return lax.scan(lambda s, _: (s * jnp.tanh(y) + (y * y)[0], s.sum()), x, None, length=5)


def _nested(x, y):
    def outer(_, x):
        return lax.fori_loop(0, 3, lambda i, z: z * 0.5 + jnp.sin(y) * x.sum() + i, x)

    return lax.fori_loop(0, 2, outer, x)


def _no_trips(x, y):
    return lax.while_loop(lambda s: s[0, 0] > 100, lambda s: s / (y - y), x)


def _mask(x):
    def step(s, row):
        return jnp.where(jnp.arange(3) == s[0].astype(jnp.int32), row, s), s

    return lax.scan(step, x[0], x)


def _returned(x, y):
    return lax.fori_loop(0, 3, lambda _, s: (y * 2, s[0]), (x, x))


def _in_a_branch(x, y):
    def step(_, s):
        return lax.cond(s.sum() > 0, lambda s: s - jnp.eye(3), lambda s: s + jnp.exp(y), s)

    return lax.fori_loop(0, 4, step, x)


PROGRAMS = {
    "identity": (_identity, X),
    "of arguments": (_of_arguments, X, array(3, 3, seed=1)),
    "nested": (_nested, X, array(3, 3, seed=1)),
    "no trips": (_no_trips, X, X),
    "mask": (_mask, X),
    "returned": (_returned, X, array(3, 3, seed=1)),
    "in a branch": (_in_a_branch, X, array(3, 3, seed=1)),
}


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode):
    """As on the CPU."""
    function, *arguments = PROGRAMS[name]
    check(function, *arguments, mode=mode)


def _runs(function, *arguments) -> list[int]:
    """How often each step of the program runs that makes numbers of a kind that counts up."""
    steps = jax_ipu.debug.profile(function, *arguments)
    return [step.executions for step in steps if "iota" in step.name]


def test_small_values_are_made_once():
    """A mask or an identity costs nothing in a trip."""
    assert _runs(_identity, X) == [1]
    assert _runs(_nested, X, X) == []


def test_large_values_stay():
    """They would take memory during the whole loop."""

    def steps(x):
        return lax.fori_loop(0, 4, lambda _, x: jnp.sin(x[::-1] + jnp.arange(5000)), x)

    assert _runs(steps, jax.ShapeDtypeStruct((5000,), np.float32)) == [4]
