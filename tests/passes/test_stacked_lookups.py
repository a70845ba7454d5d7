"""Lookups in what has just been stacked are selects: no gather remains, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, Y, Z = (array(13, 7, seed=s) for s in range(3))
WHICH = np.random.default_rng(0).integers(-5, 6, (13, 7)).astype(np.int32)


def _along(*v, axis=0):
    return jnp.take_along_axis(jnp.stack(v[1:], axis), jnp.expand_dims(v[0], axis), axis)


# Each with how many gathers remain.
PROGRAMS = {
    "choose": (lambda i, *v: jnp.choose(i, v, mode="wrap"), (WHICH, X, Y, Z), 0),
    "choose, clipped": (lambda i, *v: jnp.choose(i, v, mode="clip"), (WHICH, X, Y, Z), 0),
    "of integers": (lambda i, *v: jnp.choose(i, v, mode="clip"), (WHICH, WHICH, -WHICH, WHICH + 1), 0),
    "of f16": (lambda i, *v: jnp.choose(i, [a.astype("float16") for a in v], mode="clip"), (WHICH, X, Y), 0),
    "of truth values": (lambda i, *v: jnp.choose(i, [a > 0 for a in v], mode="wrap"), (WHICH, X, Y), 0),
    "of complex numbers": (lambda i, x, y: jnp.choose(i, [x + 1j, y * 1j], mode="wrap"), (WHICH, X, Y), 0),
    "broadcast": (lambda i, x, y: jnp.choose(i, [x, y[0], 3.0], mode="clip"), (WHICH, X, Y), 0),
    "by bytes": (lambda i, *v: jnp.choose(i.astype(jnp.int8), v, mode="clip"), (WHICH, X, Y, Z), 0),
    "along an axis": (_along, (WHICH % 3, X, Y, Z), 0),
    "negative": (_along, (WHICH % 3 - 3, X, Y, Z), 0),
    "outside": (_along, (WHICH, X, Y, Z), 0),
    "along the last axis": (lambda *v: _along(*v, axis=-1), (WHICH % 3, X, Y, Z), 0),
    "gradient": (jax.grad(lambda x, i, y: (_along(i, x, y) ** 2).sum()), (X, WHICH % 2, Y), 0),
    "of one element": (lambda i, *v: jnp.choose(i, v, mode="wrap"), (WHICH[0, 0], X[0, 0], Y[0, 0]), 0),
    "of each row": (lambda i, *v: jax.vmap(lambda k, s: s[k])(i[:, 0] % 3, jnp.stack(v, 1)), (WHICH, X, Y, Z), 0),
    "elements that move": (lambda i, *v: jnp.stack(v)[i % 3, i % 13, 0], (WHICH, X, Y, Z), 1),
    "many": (lambda i, x: jnp.choose(i, [x * k for k in range(20)], mode="wrap"), (WHICH, X), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lookups_that_remain(name):
    function, arguments, count = PROGRAMS[name]
    assert sum(op.name == "gather" for op in optimized_ops(function, *arguments)) == count
