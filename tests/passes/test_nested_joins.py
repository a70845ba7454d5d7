"""What moves together is one copy: nested concatenations, an operand and its padding, the values of a loop."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops


def rotation(t):
    c, s = jnp.cos(t), jnp.sin(t)
    return jnp.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def all_pairs(x):
    return jnp.array(list(itertools.product(list(x), repeat=2)))


def used_twice(a, b):
    row = jnp.stack([a[0], b[0]])
    return jnp.stack([row, b[:2]]), row


def rows_of_rows(a, b):
    return jnp.concatenate([jnp.concatenate([a, b], 1).reshape(1, -1), b.reshape(1, -1)], 1)


def other_lines(a, b):
    return jnp.concatenate([jnp.concatenate([a, b], 1), jnp.concatenate([b, a], 1)], 0)


VECTOR = array(7)
# Each with how many concatenations remain.
PROGRAMS = {
    "scalars": (rotation, (np.float32(0.3),), 1),
    "mapped scalars": (jax.vmap(rotation), (VECTOR,), 1),
    "many scalars": (all_pairs, (VECTOR,), 1),
    "mapped many scalars": (jax.vmap(all_pairs), (array(3, 5),), 1),
    "a row that is used twice": (used_twice, (VECTOR, array(4, seed=1)), 2),
    "one line": (rows_of_rows, (array(1, 3), array(1, 2, seed=1)), 1),
    "lines of parts": (rows_of_rows, (array(3, 2), array(3, 4, seed=1)), 2),
    "other lines": (other_lines, (array(3, 2), array(3, 4, seed=1)), 3),
    "large": (lambda x: jnp.stack([jnp.stack([x, 2 * x]), jnp.stack([x + 1, x])]), (array(256, 256),), 3),
    "empty parts": (lambda x: jnp.concatenate([jnp.concatenate([x, x[:0]])[None], x[:0][None]], 1), (VECTOR,), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode) -> None:
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_concatenation_remains(name) -> None:
    function, arguments, count = PROGRAMS[name]
    assert [op.name for op in optimized_ops(function, *arguments)].count("concatenate") == count


def test_a_list_of_scalars_costs_one_copy() -> None:
    few, many = (jax_ipu.estimate(all_pairs, jax.ShapeDtypeStruct((n,), jnp.float32)).cycles for n in (2, 20))
    assert many <= 2 * few


def test_values_that_a_loop_moves_cost_one_copy() -> None:
    def rotated(state):
        def body(state, _):
            return (*state[1:], state[0] + 1), None

        return jax.lax.scan(body, state, None, length=100)[0]

    two, eight = (jax_ipu.estimate(rotated, (jax.ShapeDtypeStruct((64,), jnp.float32),) * n).cycles for n in (2, 8))
    assert eight <= 2 * two


@pytest.mark.parametrize("padding", [((1, 1), (0, 2)), ((0, 0), (0, 1)), ((3, 0), (-1, 4))], ids=str)
def test_padding_is_one_copy(padding) -> None:
    config = [(low, high, 0) for low, high in padding]
    report = jax_ipu.estimate(lambda x: jax.lax.pad(x, 1.0, config), jax.ShapeDtypeStruct((64, 64), jnp.float32))
    assert len(report.operations) == 1
