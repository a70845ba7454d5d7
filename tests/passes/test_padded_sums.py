"""Sums of values that are padded to different places are concatenations: ops, cycles, values, gradients."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, Y = array(6, 8, seed=0), array(6, 8, seed=1)
CUBE = array(3, 5, 7, seed=2)
WEIGHTS = array(4, 8, 8, seed=3)


def _pad(x, *config):
    return lax.pad(x, x.dtype.type(0), config)


def _halves(x, y):
    return _pad(x, (0, len(y), 0), (0, 0, 0)) + _pad(y, (len(x), 0, 0), (0, 0, 0))


def _layers(w, x):
    for i in range(len(w)):
        x = jnp.tanh(x @ w[i])
    return x.sum()


def _gated(x):
    n = x.shape[-1] // 2
    return (jax.nn.silu(x[..., :n]) * x[..., n:]).sum()


def _gates(c, x):
    i, f, g, o = (x[:, 2 * k : 2 * k + 2] for k in range(4))
    return (jnp.tanh(jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)) * jax.nn.sigmoid(o)).sum()


def _rotated(x):
    a, b = x[..., ::2], x[..., 1::2]
    return (jnp.stack([a * 0.8 - b * 0.6, a * 0.6 + b * 0.8], -1).reshape(x.shape) ** 3).sum()


def _thirds(x):
    return (x[:, ::3] ** 2).sum() + (x[:, 1::3] ** 3).sum() + (x[:, 2::3] ** 4).sum()


def _quarters(x):
    return (x[:3, :4] ** 2).sum() + (x[:3, 4:] ** 3).sum() + (x[3:, :4] ** 4).sum() + jnp.tanh(x[3:, 4:]).sum()


def _boxes(x):
    return sum((x[i::2, j::2] ** (2 + i + 2 * j)).sum() for i in range(2) for j in range(2))


def _in_a_loop(x):
    return lax.fori_loop(0, 3, lambda _, s: s + jax.grad(_gated)(s), x)


def _updates(x, y):
    zeros = jnp.zeros((9, 8), x.dtype)
    return zeros.at[:3].set(x[:3]) + zeros.at[3:9].set(y)


# Each with how many pads and concatenations are left; None: any number.
PROGRAMS = {
    "layers": (jax.grad(_layers), (WEIGHTS, X), 0, 1),
    "halves": (jax.grad(_gated), (X,), 0, 1),
    "gates": (jax.grad(_gates, (0, 1)), (X[:, :2], X), 0, 1),
    "every other": (jax.grad(_rotated), (X,), 0, 2),
    "odd number": (jax.grad(lambda x: (x[:, ::2] ** 2).sum() + (x[:, 1::2] ** 3).sum()), (CUBE[0],), 0, 2),
    "every third": (jax.grad(_thirds), (X,), 0, 2),
    "a third is missing": (jax.grad(lambda x: (x[1::3] ** 2).sum() + (x[::3] ** 3).sum()), (X,), 0, 1),
    "quarters": (jax.grad(_quarters), (X,), 0, 3),
    "both dimensions": (jax.grad(_boxes), (X,), 0, 3),
    "gap": (lambda x, y: _pad(x, (0, 9, 0), (0, 0, 0)) + _pad(y, (9, 0, 0), (0, 0, 0)), (X, Y), 0, 1),
    "border": (lambda x, y: _pad(x, (2, 9, 0), (1, 1, 0)) + _pad(y, (9, 2, 0), (1, 1, 0)), (X, Y), 1, 1),
    "and another": (
        lambda x, y: _pad(x[:3], (0, 3, 0), (0, 0, 0)) + y + _pad(y[3:], (3, 0, 0), (0, 0, 0)),
        (X, Y),
        0,
        1,
    ),
    "of updates": (_updates, (X, Y), 0, 1),
    "integers": (lambda x, y: _halves(x.astype("int8"), y.astype("int8")), (X * 9, Y * 9), 0, 1),
    "turns": (lambda x, y: _pad(x, (0, 1, 1), (0, 0, 0)) + _pad(y, (1, 0, 1), (0, 0, 0)), (X, Y), 0, 1),
    "in f16": (jax.grad(_gated), (X.astype("float16"),), 0, 1),
    "complex": (lambda x, y: _halves(x + 1j * y, y + 1j), (X, Y), 0, 1),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x, axis=1), (CUBE,), 0, None),
    "of truth values": (lambda x: lax.associative_scan(jnp.logical_xor, x > 0, axis=1), (X,), 0, None),
    "in a loop": (_in_a_loop, (X,), 0, 1),
    # What overlaps, is not zero elsewhere or has another use stays.
    "overlap": (lambda x, y: _pad(x, (0, 5, 0), (0, 0, 0)) + _pad(y, (5, 0, 0), (0, 0, 0)), (X, Y), 2, 0),
    "ones": (lambda x, y: lax.pad(x, 1.0, [(0, 6, 0), (0, 0, 0)]) + _pad(y, (6, 0, 0), (0, 0, 0)), (X, Y), 2, 0),
    "one turn": (lambda x, y: _pad(x, (0, 1, 1), (0, 0, 0)) + _pad(y, (0, 1, 1), (0, 0, 0)), (X, Y), 2, 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    fun, args, _, _ = PROGRAMS[name]
    check(fun, *args, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_ops(name):
    fun, args, pads, concatenations = PROGRAMS[name]
    names = [op.name for op in optimized_ops(fun, *args)]
    assert names.count("pad") == pads
    assert concatenations in (None, names.count("concatenate"))


def test_memory_of_stacked_weights():
    """The gradient of stacked weights of which layers are read one by one is as large as the weights."""
    layers, n = 12, 512

    def step(w, x):
        return w - 0.1 * jax.grad(_layers)(w, x).astype(w.dtype)

    w, x = (jax.ShapeDtypeStruct(shape, jnp.float16) for shape in ((layers, n, n), (64, n)))
    estimate = jax_ipu.estimate(jax.jit(step, donate_argnums=0), w, x)
    assert estimate.total_bytes is not None and estimate.total_bytes < 12 * layers * n * n * 2
