"""Large values that are sliced, and over which other ops go as a whole: whichever costs more decides the mapping."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu.compiler import mapping
from support.modes import MODES, array, check

TRIPS = 3


def loop(trip):
    """Runs trip(i, x) -> x over state x."""

    def program(x):
        return lax.fori_loop(0, TRIPS, trip, x)

    return program


def descent(loss):
    return loop(lambda i, x: x - 0.1 * jax.grad(loss)(x, i))


def adam(loss):
    def program(x):
        def trip(i, state):
            x, m, v = state
            g = jax.grad(loss)(x, i)
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            return x - 0.01 * m / (jnp.sqrt(v) + 1e-3), m, v

        return lax.fori_loop(0, TRIPS, trip, (x, jnp.zeros_like(x), jnp.zeros_like(x)))

    return program


def jacobi(u):
    def trip(u, i):
        return (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0)) * 0.5, u[i, 1]

    return lax.scan(trip, u, jnp.arange(TRIPS))


PROGRAMS = {
    "gradient of a row": descent(lambda x, i: jnp.sum(x[i] ** 3)),
    "gradient of a slice": descent(lambda x, i: jnp.sum(lax.dynamic_slice_in_dim(x, i, 3) ** 3)),
    "gradient of fixed rows": descent(lambda x, i: jnp.sum(x[2:5] ** 3) + jnp.sum(x[0])),
    "gradient of a few rows": descent(lambda x, i: jnp.sum(x[jnp.array([1, 5, 7]) + i] ** 3)),
    "gradient of two slices": descent(lambda x, i: jnp.sum(x[i] ** 3) + jnp.sum(lax.dynamic_slice_in_dim(x, i, 4))),
    "adam of a row": adam(lambda x, i: jnp.sum(x[i] ** 3)),
    "a row is added": loop(lambda i, x: x * 0.9 + x[i]),
    "a column is added": loop(lambda i, x: x * 0.9 + lax.dynamic_slice_in_dim(x, i, 1, 1)),
    "a row is written": loop(lambda i, x: (x * 0.9).at[i].set(1.0)),
    "a row of differences": loop(lambda i, x: x * 0.9 + jnp.sum(jnp.abs(x - x[i]))),
    "sorted": loop(lambda i, x: jnp.sort(x, 1) + x[i]),
    "summed up": loop(lambda i, x: jnp.cumsum(x, 1) * 0.1 + x[i]),
    "rolled": loop(lambda i, x: jnp.roll(x, 1, 0) * 0.1 + x[i]),
    "padded": loop(lambda i, x: jnp.pad(x, ((1, 1), (0, 0)))[2:] * 0.1 + x[i]),
    "a probe of neighbours": jacobi,
    "outside of loops": lambda x: (x * 0.9 + x[jnp.argmax(x[:, 0])], jnp.sum(x)),
}


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=lambda mode: mode[0])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode, monkeypatch):
    monkeypatch.setattr(mapping, "_LARGE_STATE", 1)
    check(PROGRAMS[name], array(24, 5), mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_do_not_decide_where_other_ops_cost_more(name):
    shape = jax.ShapeDtypeStruct((16384, 256), np.float32)

    def cycles(**options):
        return jax_ipu.estimate(PROGRAMS[name], shape, donate_argnums=(0,), compiler_options=options).cycles

    assert cycles() <= 1.05 * cycles(ipu_mapping="products")


@pytest.mark.parametrize("size", [4_000, 60_000])
def test_vectors_are_spread_where_other_ops_go_over_them(size):
    """On the one tile where slices would want them, functions of all elements take far longer."""

    def program(x):
        x = jnp.exp(x)
        return lax.fori_loop(0, 10, lambda i, total: total + x[i], 0.0), jnp.tanh(x)

    def cycles(**options):
        return jax_ipu.estimate(program, jax.ShapeDtypeStruct((size,), np.float32), compiler_options=options).cycles

    assert cycles() <= 1.05 * cycles(ipu_mapping="products")
