"""Gathers and scatters whose indices are known at compile time: slices, updates of blocks, sums without zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu.debug
from jax_ipu.compiler import pipeline
from support.modes import array, check, each_mode
from support.stages import imported, mapped

X, U, N = array(40, 6), array(10, 6, seed=1), array(40, 6, seed=2)
AT = np.array([3, 3, 39, -1, 0, 17, 17, 5, 40, 9], np.int32)
BLOCK = np.arange(10) + 5


def scatter_add(x, at, u):
    """Rows of u are added at positions that do not wrap; those outside are left out."""
    numbers = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return jax.lax.scatter_add(x, at, u, numbers, mode=jax.lax.GatherScatterMode.FILL_OR_DROP)


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
    "set_every_other": (lambda x, u: x.at[2 * jnp.arange(10)].set(u), False),
    "add_strided": (lambda x, u: x.at[1:40:4, ::3].multiply(u[:, :2]), False),
    "inner_part": (lambda x, u: x.at[1:-1, 1:-1].set(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]), False),
    "add_to_inner_part": (lambda x, u: x.at[1:-1, 1:-1].add(x[:-2, 1:-1] * x[1:-1, 2:]), False),
    "divide_inner_part": (lambda x, u: x.at[1:-1, 1:-1].divide(x[:-2, 1:-1]), False),
    "clamped": (lambda x, u: x.at[jnp.array(77)].add(u[0], mode="clip"), False),
    "clamped_lookup": (lambda x, u: x.at[jnp.array(77)].get(mode="clip"), False),
    "all_outside": (lambda x, u: x.at[jnp.arange(10) + 40].set(u, mode="drop"), False),
    "same_place_twice": (lambda x, u: x.at[jnp.zeros(10, jnp.int32)].add(u), True),
    "set_beyond_the_end": (lambda x, u: x.at[jnp.arange(10) + 35].set(u, mode="drop"), False),
    "every_third_beyond_the_end": (lambda x, u: x.at[3 * jnp.arange(10) + 20].max(u, mode="drop"), False),
    "before_the_start": (lambda x, u: scatter_add(x, jnp.arange(10)[:, None] - 3, u), False),
    "every_other_before_the_start": (lambda x, u: scatter_add(x, 2 * jnp.arange(10)[:, None] - 7, u), False),
    "windows_beyond_the_end": (lambda x, u: scatter_add(x, jnp.arange(10)[:, None] + 35, u), False),
    "far_outside": (lambda x, u: scatter_add(x, jnp.arange(10)[:, None] - 50, u), False),
    "apply": (lambda x, u: x.at[jnp.arange(10)].apply(jnp.sin), False),
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


def laplacian(x):
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


def spread_heat(x):
    return x.at[1:-1, 1:-1].add(0.1 * laplacian(x))


def spread_heat_by_update(x):
    return jax.lax.dynamic_update_slice(x, x[1:-1, 1:-1] + 0.1 * laplacian(x), (1, 1))


def spread_heat_in_padding(x):
    return x + 0.1 * laplacian(jnp.pad(x, 1, constant_values=2.0))


def loop(step, x):
    return jax.lax.fori_loop(0, 5, lambda i, s: step(s), x)


STENCILS = {
    "set": lambda x: loop(spread_heat, x),
    "update": lambda x: loop(spread_heat_by_update, x),
    "padding": lambda x: loop(spread_heat_in_padding, x),
    "padding_and_other_readers": lambda x: jax.lax.scan(
        lambda s, i: (spread_heat_in_padding(s) * jnp.sum(s), s[3]), x, jnp.arange(3.0)
    ),
    "unknown_trips": lambda x: jax.lax.while_loop(
        lambda s: jnp.max(s) > 1.5, lambda s: jnp.sin(spread_heat_in_padding(s) * 0.5), x
    ),
    # The wave equation: the old state becomes the one before it.
    "two_states": lambda x: loop(
        lambda s: (2 * s[0] - s[1] + 0.1 * laplacian(jnp.pad(s[0], 1)), s[0]), (x, jnp.sin(x))
    ),
    "two_paddings": lambda x: loop(
        lambda s: laplacian(jnp.pad(s, 1)) - laplacian(jnp.pad(s, 1, constant_values=1.0)) * 0.2, x
    ),
    "one_sided": lambda x: loop(lambda s: s - 0.5 * jnp.pad(s, ((2, 0), (0, 3)))[:-2, 3:], x),
    "shifted_state": lambda x: loop(lambda s: jnp.pad(s, 1)[2:, 1:-1], x),
    "product": lambda x: loop(lambda s: jnp.tanh(s @ s.T @ spread_heat_in_padding(s)), x),
    "nested": lambda x: loop(lambda s: loop(spread_heat_in_padding, s) + jnp.pad(s, 1)[:-2, :-2], x),
}


@each_mode
@pytest.mark.parametrize("case", STENCILS)
def test_stencils(case, mode):
    check(STENCILS[case], X, mode=mode, rtol=1e-4)


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("case", ["set", "update", "padding"])
def test_gradients_of_stencils(case, mode):
    check(STENCILS[case], X, mode=mode, grad=True, rtol=1e-4)


@pytest.mark.parametrize("case", ["set", "update", "padding", "padding_and_other_readers", "unknown_trips"])
def test_the_state_of_a_stencil_is_updated_in_place(case):
    """Each trip computes the new inner part, and copies it over the old one: no border, no copy of the whole state."""
    text = jax.jit(STENCILS[case]).lower(X).as_text()
    (trip,) = [op.regions[-1] for op in mapped(text).module.main.block.ops if op.name in ("while", "ipu.repeat")]
    assert not any(op.name == "pad" for op in trip.ops)
    (update,) = [op for op in trip.ops if op.name == "ipu.update_slice" and op.operands[1].shape[0] > 30]
    assert update.attrs["in_place"] and "through_copy" not in trip.terminator.attrs


def test_a_state_that_is_updated_at_a_known_place_lies_on_all_tiles():
    """An update at a position known at run time only is cheapest where each tile has whole columns; this one is not."""
    placements = jax_ipu.debug.tile_map(spread_heat, np.ones((512, 512), np.float32))
    assert placements[0].tiles > 1000


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


_ALONG = jax.lax.GatherDimensionNumbers((), (0,), (0,))


def _looked_up(places, mode):
    indices = np.asarray(places)[:, None]
    return lambda x: jax.lax.gather(x, indices, _ALONG, (1,), mode=mode, fill_value=7)


LARGE = {
    "clipped": _looked_up(np.array([2**64 - 1, 1], np.uint64), "clip"),
    "beyond the end": _looked_up(np.array([2**62, 3], np.uint64), "fill"),
    "of both signs": _looked_up([-(2**63), 2**63 - 1, 2], "fill"),
    "of both signs, clipped": _looked_up([-(2**63), 2**63 - 1], "clip"),
    "added": lambda x: x.at[np.array([2**62, 1, -(2**63)])].add(10, mode="drop"),
}


@pytest.mark.parametrize("name", LARGE)
@each_mode
def test_constants_of_64_bits(name, mode):
    with jax.enable_x64(True):
        check(LARGE[name], np.arange(5.0), mode=mode)
