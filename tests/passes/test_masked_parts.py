"""Parts that are padded to the whole: whether they are computed on the whole, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, Y, CUBE, LINE = array(40, 6), array(40, 6), array(4, 5, 6), array(5000)
# What the part does not see must not be seen in the result.
HOLES = np.where(np.arange(6) < 2, np.nan, X).astype(np.float32)


def _falling(x, v):
    def step(_, state):
        x, v = state
        v = v + 0.1 * jnp.pad(jnp.where(x[:, 4:] < 0, -x[:, 4:] - v[:, 4:], 0), ((0, 0), (4, 0)))
        return x + 0.1 * v, v

    return lax.fori_loop(0, 5, step, (x, v))


def _columns(x):
    return jnp.pad(2 * x[:, 2:], ((0, 0), (2, 0)))


# Each with the number of pads that are left.
PROGRAMS = {
    "last columns": (lambda x: x + _columns(x), (X,), 0),
    "first columns": (lambda x: jnp.pad(x[:, :3] * x[:, :3], ((0, 0), (0, 3)), constant_values=7), (X,), 0),
    "the middle of two dimensions": (lambda x: jnp.pad(-x[1:39, 1:5], ((1, 1), (1, 1)), constant_values=3), (X,), 0),
    "of two tensors": (lambda x, y: jnp.pad(x[1:] * y[1:] - 3, ((1, 0), (0, 0))), (X, Y), 0),
    "padded with an argument": (lambda x, c: lax.pad(3 * x[:, 2:], c, ((0, 0, 0), (2, 0, 0))), (X, np.float32(4)), 0),
    "with a scalar": (lambda x, c: jnp.pad(c * x[:, 2:], ((0, 0), (2, 0))), (X, np.float32(4)), 0),
    "not a number outside": (_columns, (HOLES,), 0),
    "booleans": (lambda x: jnp.pad(x[:, 2:] > 0, ((0, 0), (2, 0)), constant_values=True), (X,), 0),
    "a value used twice": (lambda x: jnp.pad(jnp.square(x[:, 2:] + 1), ((0, 0), (2, 0))), (X,), 0),
    "gradient": (jax.grad(lambda x: (x[:, 1:] ** 3).sum()), (X,), 0),
    "gradient in a cube": (jax.grad(lambda x: (x[:, 1:, :5] ** 3).sum()), (CUBE,), 0),
    "state in a loop": (_falling, (X, Y), 0),
    "another place": (lambda x: jnp.pad(2 * x[:, :4], ((0, 0), (2, 0))), (X,), 1),
    "two places": (lambda x: jnp.pad(x[1:] - x[:-1], ((1, 0), (0, 0))), (X,), 1),
    "a small part": (lambda x: x + jnp.pad(2 * x[:, 5:], ((0, 0), (5, 0))), (X,), 1),
    "functions of half": (lambda x: jnp.pad(jnp.exp(x[:, 3:]), ((0, 0), (3, 0))), (X,), 1),
    "functions of most": (lambda x: jnp.pad(jnp.exp(x[:, 1:]), ((0, 0), (1, 0))), (X,), 0),
    "read elsewhere": (lambda x: (jnp.pad(y := 2 * x[:, 2:], ((0, 0), (2, 0))), y.sum()), (X,), 1),
    "a long mask": (lambda x: jnp.pad(2 * x[1:], (1, 0)), (LINE,), 1),
    "between": (lambda x: lax.pad(2 * x[:, 2:], np.float32(0), ((0, 0, 0), (2, 3, 1))), (X,), 1),
    "nothing computed": (lambda x: jnp.pad(x[:, 2:], ((0, 0), (2, 0))), (X,), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_pads_that_are_left(name):
    function, arguments, left = PROGRAMS[name]
    ops = optimized_ops(function, *arguments, memory=1 << 30)
    assert sum(op.name == "pad" for op in ops) == left


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)
