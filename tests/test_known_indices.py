"""Gathers and scatters whose indices are known at compile time: slices, updates of blocks, sums without zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu.compiler import pipeline
from support.modes import array, check, each_mode
from support.stages import imported

X, U, N = array(40, 6), array(10, 6, seed=1), array(40, 6, seed=2)
AT = np.array([3, 3, 39, -1, 0, 17, 17, 5, 40, 9], np.int32)
BLOCK = np.arange(10) + 5

# Function of x and u, and whether a gather or scatter remains.
CASES = {
    "iota": (lambda x, u: x[jnp.arange(10)], False),
    "iota_of_all": (lambda x, u: x[jnp.arange(40)], False),
    "a_view_of_all": (lambda x, u: x[jnp.arange(40)].reshape(-1), False),
    "shifted": (lambda x, u: x[jnp.arange(10) + 7], False),
    "every_third": (lambda x, u: x[3 * jnp.arange(10) + 2], False),
    "negative": (lambda x, u: x[jnp.arange(10) - 12], False),
    "constant": (lambda x, u: x[BLOCK], False),
    "columns": (lambda x, u: x[:, np.arange(2, 5)], False),
    "one_row": (lambda x, u: x[jnp.array(4)], False),
    "of_a_grid": (lambda x, u: x[jnp.arange(8)[:, None], jnp.arange(3)[None, :]], False),
    "taken": (lambda x, u: jnp.take(x, jnp.arange(3, 9), axis=0), False),
    "repeated": (lambda x, u: x[jnp.broadcast_to(jnp.arange(8), (3, 8))], False),
    "small_type": (lambda x, u: x[jnp.arange(10, dtype=jnp.int8)], False),
    "diagonal": (lambda x, u: x[jnp.arange(6), jnp.arange(6)], True),
    "backwards": (lambda x, u: x[jnp.arange(10)[::-1]], True),
    "across_zero": (lambda x, u: x[jnp.arange(10) - 3], True),
    "beyond_the_end": (lambda x, u: x.at[jnp.arange(10) + 35].get(mode="clip"), True),
    "irregular": (lambda x, u: x[np.array([1, 2, 4])], True),
    "set": (lambda x, u: x.at[jnp.arange(10) + 3].set(u), False),
    "add": (lambda x, u: x.at[BLOCK].add(u), False),
    "maximum": (lambda x, u: x.at[jnp.arange(10)].max(u), False),
    "set_all": (lambda x, u: x.at[jnp.arange(40)].multiply(2.0), False),
    "set_one": (lambda x, u: x.at[7].set(u[0]), False),
    "set_a_column": (lambda x, u: x.at[:10, 2].add(u[:, 0]), False),
    "set_every_other": (lambda x, u: x.at[2 * jnp.arange(10)].set(u), True),
    "same_place_twice": (lambda x, u: x.at[jnp.zeros(10, jnp.int32)].add(u), True),
    "set_beyond_the_end": (lambda x, u: x.at[jnp.arange(10) + 35].set(u, mode="drop"), True),
    "apply": (lambda x, u: x.at[jnp.arange(10)].apply(jnp.sin), True),
}


def names(function, *args):
    text = jax.jit(function).lower(*args).as_text()
    module = imported(text)
    pipeline.rewrite(module)
    return [op.name for op in module.main.block.walk()]


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("case", CASES)
def test_values(case, mode):
    check(CASES[case][0], X, U, mode=mode)


@pytest.mark.parametrize("case", CASES)
def test_what_is_left(case):
    function, left = CASES[case]
    ops = names(function, X, U)
    assert any(name in ("gather", "scatter") for name in ops) == left


def test_the_gradient_of_a_known_lookup_is_an_update_of_a_block():
    ops = names(jax.grad(lambda x, u: (x[jnp.arange(10)] * u).sum()), X, U)
    assert "scatter" not in ops and "gather" not in ops


@each_mode
@pytest.mark.parametrize("i", [0, 1, -1, -2])
def test_an_update_outside_of_one_row_is_left_out(i, mode):
    x, u, at = X[:1], U[:1], np.array([i], np.int32)
    check(lambda x, u, i: (x.at[i].add(u, mode="drop"), x.at[i].get(mode="clip")), x, u, at, mode=mode)
    check(lambda x, u: x.at[jnp.array([i])].set(u, mode="drop"), x, u, mode=mode)


@each_mode
def test_a_sum_is_scattered_into(mode):
    def f(x, n, u, i):
        return n * 2 + jnp.zeros_like(x).at[i].add(u)

    check(f, X, N, U, AT, mode=mode)
    check(lambda x, n, u, i: jnp.zeros_like(x).at[i].add(u) + x, X, N, U, AT, mode=mode)

    # The zeros, or the scattered values, have another use.
    def twice(x, n, u, i):
        scattered = jnp.zeros_like(x).at[i].add(u)
        return scattered + x, scattered * n

    check(twice, X, N, U, AT, mode=mode)
    check(lambda x, n, u, i: x + jnp.zeros_like(x).at[i].set(u[0]), X, N, U, AT, mode=mode)
    check(lambda x, n, u, i: x + jnp.ones_like(x).at[i].add(u), X, N, U, AT, mode=mode)
    check(
        lambda x, n, u, i: jnp.zeros_like(x).at[i].add(u) + jnp.zeros_like(x).at[2 * i].add(u), X, N, U, AT, mode=mode
    )


def test_the_zeros_need_no_memory():
    ops = names(lambda x, u, i: jnp.sin(x) + jnp.zeros_like(x).at[i].add(u), X, U, AT)
    assert ops.count("scatter") == 1 and ops.index("ipu.map") < ops.index("scatter")
    assert "ipu.map" not in ops[ops.index("scatter") :]
