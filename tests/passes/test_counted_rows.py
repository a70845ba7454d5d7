"""Gathers and scatters of which an index counts the rows are those of each row: batching dimensions, cycles, values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, U = array(13, 7, seed=0), array(13, 5, seed=1)
CUBE = array(4, 6, 5, seed=2)
PLACES = np.random.default_rng(0).integers(-7, 7, (13, 5)).astype(np.int32)
LABELS = np.abs(PLACES[:, 0])
IDS = np.random.default_rng(1).integers(0, 5, (4, 6)).astype(np.int32)


def _rows(x):
    return jnp.arange(x.shape[0])[:, None]


def _loss(x, labels):
    return -jax.nn.log_softmax(x)[jnp.arange(len(labels)), labels].mean()


def _cross_entropy(x, labels):
    return (jax.nn.logsumexp(x, 1) - x[jnp.arange(len(labels)), labels]).mean()


def _in_a_loop(x, i, u):
    return jax.lax.fori_loop(0, 3, lambda k, s: s.at[_rows(s), i + k].add(u), x)


# Each with the dimensions that are batched in the gathers and scatters that remain.
PROGRAMS = {
    "lookups": (lambda x, i: x[_rows(x), i], (X, PLACES), [1]),
    "one of each row": (lambda x, i: x[jnp.arange(13), i], (X, LABELS), [1]),
    "of integers": (lambda x, i: x.astype(jnp.int8)[_rows(x), i], (X * 9, PLACES), [1]),
    "of complex numbers": (lambda x, i: (x + 1j * x)[_rows(x), i], (X, PLACES), [1]),
    "of truth values": (lambda x, i: (x > 0)[_rows(x), i], (X, PLACES), [1]),
    "by bytes": (lambda x, i: x[jnp.arange(13, dtype=jnp.uint8)[:, None], i.astype(jnp.uint8)], (X, abs(PLACES)), [1]),
    "of columns": (lambda x, i: x[i, jnp.arange(7)], (X, PLACES.T[0, :7] % 13), [1]),
    "turned": (lambda x, i: x[jnp.arange(13), i.T], (X, PLACES), [1]),
    "windows": (lambda x, i: x[jnp.arange(4), i], (CUBE, IDS[:, 0]), [1]),
    "two dimensions": (lambda x, i: x[jnp.arange(4)[:, None], jnp.arange(6), i], (CUBE, IDS), [2]),
    "inner dimension": (lambda x, i: x[i, jnp.arange(6), i], (CUBE, IDS[0] % 4), [1]),
    "filled": (lambda x, i: x.at[_rows(x), i * 2].get(mode="fill", fill_value=3), (X, PLACES), [1]),
    "clipped": (lambda x, i: x.at[_rows(x), i * 2].get(mode="clip"), (X, PLACES), [1]),
    "set": (lambda x, i, u: x.at[_rows(x), i].set(u[:, :1]), (X, PLACES, U), [1]),
    "added": (lambda x, i, u: x.at[_rows(x), i].add(u), (X, PLACES, U), [1]),
    "added in f16": (lambda x, i: x.astype("float16").at[_rows(x), i].add(1), (X, PLACES), [1]),
    "least": (lambda x, i, u: x.at[_rows(x), i].min(u), (X, PLACES, U), [1]),
    "dropped": (lambda x, i, u: x.at[_rows(x), i * 2].add(u, mode="drop"), (X, PLACES, U), [1]),
    "windows set": (lambda x, i: x.at[jnp.arange(4), i].set(1), (CUBE, IDS[:, 0]), [1]),
    "gradient": (jax.grad(_loss), (X, LABELS), [1]),
    "summed with another gradient": (jax.grad(_cross_entropy), (X, LABELS), [1]),
    "added to another": (lambda x, i: x + jnp.zeros_like(x).at[_rows(x), i].add(x[:, :5]), (X, PLACES), [1]),
    "gradient of a median": (jax.grad(lambda x: (jnp.nanmedian(x, 1) ** 2).sum()), (X,), [1] * 6),
    "in a loop": (_in_a_loop, (X, PLACES, U), [1]),
    "none": (lambda x, i: x[_rows(x), i], (X, PLACES[:, :0]), []),
    "of fewer rows": (lambda x, i: x[jnp.arange(5)[:, None], i[:5]], (X, PLACES), [0]),
    "backwards": (lambda x, i: x[_rows(x)[::-1], i], (X, PLACES), [0]),
    "diagonal of another": (lambda x, i: x[jnp.arange(4), jnp.arange(4), i], (CUBE[:, :4], IDS[:, 0]), [1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


def _batched(op):
    if op.name == "gather":
        return len(op.attrs["dimension_numbers"]["operand_batching_dims"])
    return len(op.attrs["scatter_dimension_numbers"]["input_batching_dims"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_batching_dimensions(name):
    function, arguments, dims = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    assert [_batched(op) for op in ops if op.name in ("gather", "scatter")] == dims


@pytest.mark.parametrize("shape", [(8, 5000, 1), (300, 100, 50), (1472, 70, 70)], ids=str)
def test_cycles_are_those_of_vmap(shape):
    rows, length, each = shape
    x, i, u = (jax.ShapeDtypeStruct((rows, n), t) for n, t in ((length, "f4"), (each, "i4"), (each, "f4")))
    for counted, mapped in (
        (lambda x, i, u: x[_rows(x), i], lambda x, i, u: x[i]),
        (lambda x, i, u: x.at[_rows(x), i].set(u), lambda x, i, u: x.at[i].set(u)),
        (lambda x, i, u: x.at[_rows(x), i].add(u), lambda x, i, u: x.at[i].add(u)),
    ):
        cycles = [jax_ipu.estimate(f, x, i, u).cycles for f in (counted, jax.vmap(mapped))]
        assert cycles[0] <= 1.1 * cycles[1]
