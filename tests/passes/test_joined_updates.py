"""Constants that are updated at fixed positions are concatenations: which operations remain, and values."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, ROWS = array(12), array(6, 4)


def elements(x):
    y = jnp.zeros(9)
    for i in (4, 0, 7, 1, 5):
        y = y.at[i].set(jnp.sin(x[i]))
    return y


def matrix(x):
    a = jnp.full((3, 3), 2.5)
    return a.at[0, 0].set(x[0]).at[1, 1].set(x[1]).at[2, 0].set(x[2]).at[1].set(x[3:6])


def rows(x):
    return jnp.zeros((5, 4)).at[3].set(x[0] * 2).at[1:3].set(x[2:4])


def columns(x):
    return jnp.ones((6, 5)).at[:, 1].set(x[:, 0]).at[:, 3:].set(x[:, 2:])


def written_twice(x):
    return jnp.zeros(6).at[1:4].set(x[:3]).at[2].set(x[7]).at[1:4].set(x[4:7])


def overlapping(x):
    return jnp.zeros(6).at[1:4].set(x[:3]).at[3:6].set(x[4:7])


def read_between(x):
    y = jnp.zeros(6).at[1].set(x[0])
    return y.at[2].set(y.sum())


def of_an_argument(x):
    return x.at[0].set(x[3]).at[5].set(x[4] * 2)


def strided(x):
    return jnp.zeros(12).at[::2].set(x[:6]).at[1].set(x[7])


def nothing_written(x):
    y = lax.dynamic_update_slice(jnp.zeros(8), x[:4] * 2, (1,))
    return lax.dynamic_update_slice(y, x[:0], (3,))


def in_a_loop(x):
    def body(x, _):
        return jnp.zeros(12).at[:6].set(x[6:] * 0.5).at[6].set(x[0]), x[1]

    return lax.scan(body, x, None, length=4)


def integers(x):
    return jnp.zeros(5, jnp.int32).at[2].set(7).at[0].set(x.astype(jnp.int32)[3])


# Each with how many updates and concatenations remain.
PROGRAMS = {
    "elements": (elements, X, 0, 1),
    "matrix": (matrix, X, 0, 1),
    "rows": (rows, ROWS, 0, 1),
    "columns": (columns, ROWS, 0, 1),
    "written twice": (written_twice, X, 0, 1),
    "overlapping": (overlapping, X, 2, 0),
    "read between": (read_between, X, 1, 1),
    "of an argument": (of_an_argument, X, 2, 0),
    "strided": (strided, X, 2, 0),
    "nothing written": (nothing_written, X, 0, 1),
    "in a loop": (in_a_loop, X, 0, 1),
    "integers": (integers, X, 0, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode) -> None:
    function, x, _, _ = PROGRAMS[name]
    check(function, x, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_remains(name) -> None:
    function, x, updates, joins = PROGRAMS[name]
    names = [op.name for op in optimized_ops(function, x)]
    assert (names.count("ipu.update_slice"), names.count("concatenate")) == (updates, joins), names


def test_updates_cost_the_same_for_more_elements() -> None:
    def cycles(count):
        def updated(x):
            y = jnp.zeros(40)
            for i in range(count):
                y = y.at[i].set(x[i] * x[i + 1])
            return y

        return jax_ipu.estimate(updated, jax.ShapeDtypeStruct((64,), jnp.float32)).cycles

    assert cycles(40) <= 1.5 * cycles(5)


def test_state_is_updated_where_it_is() -> None:
    state = jax.ShapeDtypeStruct((1 << 20,), jnp.float32)
    update = jax.jit(lambda s: s.at[0].set(1.0).at[7].set(2.0), donate_argnums=0)
    assert jax_ipu.estimate(update, state).cycles < 2000
