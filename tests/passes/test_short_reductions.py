"""Reductions over what is stacked or repeated are elementwise operations: which remain, and values."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, Y, Z = (array(41, 3, seed=s) for s in range(3))
SPECIAL = np.array([0.0, -0.0, 1, np.nan, np.inf, -np.inf, -1], np.float32)
A, B, C = (g.ravel() for g in np.meshgrid(SPECIAL, SPECIAL, SPECIAL))
NUMBERS = tuple(np.arange(-5, 6, dtype=np.int32) * k for k in (1, -2, 3))
BOARDS = np.random.default_rng(0).integers(0, 3, (20, 3)).astype(np.int32)


def _spread(x, y, z):
    """The sums of elements and of their squares, by a body of two operations."""
    parts = jnp.stack([x, y, z])
    zero = jnp.float32(0.5)
    return lax.reduce((parts, parts * parts), (zero, zero), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))


def _select(x, y, z):
    return jnp.select([x > 1, y > 1, x + y > z, z == 0], [x, y * 2, z - x, x + y], -1)


def _pieces(x, y, z):
    """The first condition that holds is found by a cumulative sum of the conditions."""
    return jnp.piecewise(x, [y > 1, z < 0, x == y], [jnp.sin, lambda v: v * v, -3.0, lambda v: v + 1])


def _running(*v, axis=0):
    return jnp.cumsum(jnp.stack(v, axis), axis).max(axis)


# Each with how many reductions, cumulative operations and concatenations remain.
PROGRAMS = {
    "select": (_select, (X, Y, Z), 0),
    "select of special values": (_select, (A, B, C), 0),
    "sum": (lambda *v: jnp.stack(v).sum(0), (X, Y, Z), 0),
    "product": (lambda *v: jnp.stack(v).prod(0), (X, Y, Z), 0),
    "mean of the last axis": (lambda *v: jnp.stack(v, -1).mean(-1), (X, Y, Z), 0),
    "largest": (lambda *v: jnp.stack(v).max(0), (A, B, C), 0),
    "place of the largest": (lambda *v: jnp.stack(v).argmax(0), (A, B, C), 0),
    "place of the least": (lambda *v: jnp.stack(v).argmin(0), (A, B, C), 0),
    "place of the largest integer": (lambda *v: jnp.stack(v).argmax(0), NUMBERS, 0),
    "all": (lambda *v: jnp.stack([x > 0 for x in v]).all(0), (A, B, C), 0),
    "largest and its place": (lambda *v: (jnp.stack(v, 1).max(1), jnp.stack(v, 1).argmax(1)), (A, B, C), 0),
    "in a loop": (lambda x, *v: lax.fori_loop(0, 3, lambda i, s: jnp.stack([s, *v]).min(0) + i, x), (X, Y, Z), 0),
    "and its squares": (_spread, (X, Y, Z), 0),
    "also returned": (lambda *v: (jnp.stack(v), jnp.stack(v).sum(0)), (X, Y, Z), 2),
    "over two dimensions": (lambda *v: jnp.stack(v).sum((0, 1)), (X, Y, Z), 2),
    "of f16": (lambda *v: jnp.stack([x.astype("float16") for x in v]).max(0), (X, Y, Z), 0),
    "members": (lambda v: jnp.isin(v, jnp.array([3, -4, 0, 7])), (NUMBERS[2],), 0),
    "members that are arguments": (lambda v, m: jnp.isin(v, m), (NUMBERS[2], NUMBERS[0][:4]), 0),
    "members of few": (lambda v, m: (v[:3, None] == m).any(1), (NUMBERS[2], NUMBERS[0][:4]), 1),
    "patterns": (lambda x, p: (x[:, None] == p).all(-1).sum(1), (BOARDS, BOARDS[::-1] % 2), 1),
    "constant patterns": (lambda x: (x[:, None] == BOARDS[3:]).any(-1).sum(1), (BOARDS,), 1),
    "distances": (lambda x, y: jnp.square(x[:, None] - y).sum(-1), (X, Y), 0),
    "distances in many dimensions": (lambda x, y: jnp.square(x[:, None] - y).sum(-1), (X.T, Y.T), 1),
    "bell curves": (lambda x: jnp.exp(-((x[..., None] - jnp.arange(4.0)) ** 2)).sum(-1), (X,), 0),
    "rows and bell curves": (lambda x, c: (jnp.sin(x[:, None, :] - c[:, None]) * x[:, None]).sum(1), (X, A[:4]), 0),
    "read twice": (lambda x, c: (lambda d: d * jnp.exp(d) + d)(x - c[:, None]).max(0), (A, X[0]), 0),
    "nearest centre": (lambda x, c: jnp.abs(x[:, None] - c).argmin(1), (Y[:, 0], X[0]), 0),
    "bits": (lambda x: ((x[:, None] >> jnp.arange(5)) & 1).sum(1), (NUMBERS[0],), 0),
    "polynomial": (lambda x, c: (x[:, None] ** jnp.arange(3) * c).sum(1), (Y[:, 0], X[0]), 0),
    "repeated and returned": (lambda x, c: (lambda d: (d, d.sum(1)))(x[:, None] - c), (Y[:, 0], X[0]), 1),
    "repeated and large": (lambda x, c: (x[:, None] - c).max(1), (X[:, 0], Y), 1),
    "of f16, repeated": (lambda x: (x[:, None] - jnp.arange(3)).astype("float16").max(1), (Y[:, 0],), 0),
    "sum of f16": (lambda x: (x[:, None] - jnp.arange(3)).astype("float16").sum(1), (Y[:, 0],), 0),
    "repeated in a loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, s: (s[:, None] * jnp.array([1, i])).min(1), x),
        (A,),
        1,
    ),
    "pieces": (_pieces, (X, Y, Z), 0),
    "pieces of special values": (_pieces, (A, B, C), 0),
    "pieces of seven conditions": (
        lambda x, y, z: jnp.piecewise(x, [y > k for k in range(1, 8)], [*range(7), lambda v: v * 2]),
        (X, Y, Z),
        0,
    ),
    "largest running sum": (_running, (X, Y, Z), 0),
    "of integers": (_running, NUMBERS, 0),
    "along the last axis": (functools.partial(_running, axis=-1), (X, Y, Z), 0),
    "of running extrema": (lambda *v: lax.cummax(jnp.stack(v), 0).sum(0), (X, Y, Z), 0),
    "of sums from the end": (lambda *v: lax.cumsum(jnp.stack(v), 0, reverse=True).max(0), (X, Y, Z), 3),
    "of sums of f16": (lambda *v: lax.cumsum(jnp.stack(v).astype("float16"), 0).max(0), (X, Y, Z), 3),
    "of sums in the other dimension": (lambda *v: jnp.cumsum(jnp.stack(v), 1).max(0), (X, Y, Z), 3),
    "and its running sums": (lambda *v: (lambda s: (s, s.max(0)))(jnp.cumsum(jnp.stack(v), 0)), (X, Y, Z), 3),
    "many": (lambda x: jnp.stack([x * i for i in range(100)]).sum(0), (X,), 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_concatenated(name):
    function, arguments, count = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    assert sum(op.name in ("reduce", "reduce_window", "concatenate") for op in ops) == count
