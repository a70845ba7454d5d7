"""Loops over small tensors, whose steps the fast engine binds to memory once: many kinds of bodies, moving buffers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import MODES, array, check


def carry_and_sum(x):
    return lax.scan(lambda c, _: (jnp.tanh(c) + 0.1, c.sum()), x, None, length=20)


def several_carries(x, steps):
    """The carries swap places, one is a row and one a column, and a step's input is a scalar."""

    def body(carry, s):
        a, b, count = carry
        return (b * s, a + b.max(0), count + 1), (a.min(1), count)

    return lax.scan(body, (x, x * 0.5, jnp.int32(3)), steps)


def carry_updated_in_place(x):
    """Writes one row, then one column of a matrix at a computed index, and reads another one."""

    def body(i, c):
        row = lax.dynamic_slice(c, (7 - i, 1), (1, 3))
        c = lax.dynamic_update_slice(c, row * 0.5, (i, i // 2))
        return c.at[:, i % 5].add(c[:, (i + 1) % 5])

    return lax.fori_loop(0, 8, body, x)


def nested(x):
    def outer(c, x):
        inner, total = lax.scan(lambda d, y: (d * y + 0.25, d.sum()), c, jnp.stack([x, x * 2, x * 3]))
        return inner * 0.1, (total, inner.T.reshape(-1))

    return lax.scan(outer, jnp.ones_like(x[0]), x)


def unknown_trips(x):
    return lax.while_loop(lambda c: c[0].sum() < 1000, lambda c: (c[0] * 1.5, c[1] + c[0].max(), c[2] + 1), (x, 0.0, 0))


def strided(x):
    """Transposed and reversed operands, broadcasts, and outputs that are not whole variables."""

    def body(c, _):
        d = c.T[::-1] + c[0][:, None] * c.mean(1)
        return d / jnp.abs(d).max(), jnp.concatenate([d[1:], d[:1] * 2]).ravel()

    return lax.scan(body, x, None, length=5)


def integers(x):
    def body(c, i):
        return (c * 5 + i) ^ (c >> 3), (c.max(), jnp.argmax(c), c[i % 9], (c > 0).any())

    return lax.scan(body, x, jnp.arange(12, dtype=jnp.int32))


def products(x, w):
    """Vectors and a few rows times row-major and column-major matrices, a dot product, products of a batch."""

    def body(h, _):
        a = jnp.tanh(w @ h[0])
        few = jnp.tanh(h @ w.T)
        batch = jnp.einsum("gij,gj->gi", jnp.stack([w, w.T]), h[:2])
        return few.at[1].set(a @ w).at[2].set(batch[1]), (a @ a, (w @ few.T)[:, 1], batch.sum())

    return lax.scan(body, x, None, length=4)


def rank_one_updates(x):
    """Subtracts products of its columns and rows from a matrix in place, one of them under a mask."""
    m, n = x.shape[-2:]
    rows, columns = jnp.arange(m)[:, None], jnp.arange(n)[None, :]

    def body(i, c):
        column, row = lax.dynamic_index_in_dim(c, i, -1), lax.dynamic_index_in_dim(c, i, -2)
        c = c - jnp.where((rows > i) & (columns > i), column * row, 0)
        return c - column * 0.1 - row * 0.1 * column

    return lax.fori_loop(0, 4, body, x)


BODIES = {
    "carry_and_sum": (carry_and_sum, [array(64)]),
    "bfloat16": (carry_and_sum, [array(33, dtype="bfloat16")]),
    "several_carries": (several_carries, [array(6, 6), array(7)]),
    "in_place": (carry_updated_in_place, [array(8, 5)]),
    "products": (products, [array(3, 40), array(40, 40) * 0.2]),
    "products in bfloat16": (products, [array(3, 33, dtype="bfloat16"), array(33, 33, dtype="bfloat16")]),
    "rank_one_updates": (rank_one_updates, [array(9, 70) * 0.3]),
    "rank_one_updates of a batch": (rank_one_updates, [array(3, 9, 40) * 0.3]),
    "nested": (nested, [array(4, 3, 5)]),
    "unknown_trips": (unknown_trips, [np.abs(array(17))]),
    "strided": (strided, [array(6, 6)]),
    "integers": (integers, [np.arange(9, dtype=np.int32) - 4]),
}


@pytest.mark.parametrize("mode", MODES[::3], ids=lambda mode: f"{mode[0]}{mode[1]}")
@pytest.mark.parametrize("name", BODIES)
def test_values(name, mode):
    function, args = BODIES[name]
    check(function, *args, mode=mode)


def test_buffers_that_move_between_calls():
    """Arguments and results have other addresses in every call, while earlier ones are alive."""
    run = jax.jit(lambda x, y: (x * 2 + y.sum(), (x - y)[::-1]), backend="ipu")
    rng = np.random.default_rng(0)
    arguments = [tuple(rng.normal(size=(2, 8)).astype(np.float32)) for _ in range(20)]
    results = [run(*pair) for pair in arguments]
    for (x, y), (first, second) in zip(arguments, results, strict=True):
        np.testing.assert_allclose(first, x * 2 + y.sum(), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(second, (x - y)[::-1])
