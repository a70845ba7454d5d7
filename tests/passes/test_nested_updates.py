"""Rows of a stacked state, such as the layers of a cache, that are changed in part: in place, however long they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from support.modes import MODES, array, check

LAYERS, COLUMNS = 4, 8


def slice_of_a_scanned_cache(k, q):
    return lax.scan(lambda q, k: (q * 0.9 + k[1], lax.dynamic_update_slice(k, q[None], (3, 0))), q, k)


def rows_of_two_scanned_caches(k, q):
    def layer(q, caches):
        k, v = caches
        return q * 0.9, (k.at[3].set(q), v.at[jnp.array([1, 4])].add(q).at[2].mul(q))

    return lax.scan(layer, q, (k, -k))


def scanned_in_reverse(k, q):
    return lax.scan(lambda q, k: (q + k[2], k.at[1].set(q)), q, k, reverse=True)


def position_known_at_run_time(k, q):
    place = jnp.argmax(q)
    return lax.scan(lambda q, k: (q * 0.9, k.at[place].set(q)), q, k)


def layers_of_carried_state(k, q):
    return lax.fori_loop(0, LAYERS, lambda i, k: k.at[i].set(k[i].at[3].set(q * i)), k)


def slices_of_carried_state(k, q):
    def trip(i, k):
        layer = lax.dynamic_update_slice(k[i], q[None] * i, (i, 0))
        return lax.dynamic_update_index_in_dim(k, layer, i, 0)

    return lax.fori_loop(0, LAYERS, trip, k)


def scatters_of_carried_state(k, q):
    def trip(i, k):
        layer = lax.dynamic_index_in_dim(k, i - 1, 0, keepdims=False)
        layer = layer.at[jnp.array([5, 1, 90]) - i].add(q, mode="drop")
        return lax.dynamic_update_index_in_dim(k, layer, i - 1, 0)

    return lax.fori_loop(0, LAYERS + 3, trip, k)


def new_row_read(k, q):
    def layer(q, k):
        k = k.at[3].set(q)
        return q * 0.5 + k[2] + k[3], k

    return lax.scan(layer, q, k)


def layers_in_turn(k, q):
    """As a model without a loop over its layers: each reads what it has written."""
    place = jnp.argmax(q) % 6
    for i in range(LAYERS):
        layer = lax.dynamic_update_slice_in_dim(k[i], q[None], place, 0)
        q = q * 0.9 + layer[2]
        k = k.at[i].set(layer)
    return k, q


def layers_taken_apart(k, q):
    """All layers are read before the first is written back."""
    place, layers = jnp.argmax(q) % 6, list(k)
    for i, layer in enumerate(layers):
        layers[i] = lax.dynamic_update_slice(layer, q[None] * i, (place, 0))
        q = q + layers[i][2]
    for i, layer in enumerate(layers):
        k = k.at[i].set(layer)
    return k, q


def layers_stacked(k, q):
    return jnp.stack([layer.at[3].set(q * i).at[jnp.array([5, 1])].add(q) for i, layer in enumerate(k)])


def one_layer(k, q):
    return k.at[2].set(k[2].at[1].set(q))


# Programs in which another row is written than is read, or the old array is needed: they stay as they are.


def another_row_written(k, q):
    def trip(i, k):
        return lax.dynamic_update_index_in_dim(k, k[i].at[3].set(q), i + 1, 0)

    return lax.fori_loop(0, LAYERS - 1, trip, k)


def next_row_read(k, q):
    def trip(c, i):
        q, out = c
        out = lax.dynamic_update_index_in_dim(out, k[i].at[0].set(k[(i + 1) % LAYERS, 2]), i, 0)
        return (q, out), None

    return lax.scan(trip, (q, jnp.zeros_like(k)), jnp.arange(LAYERS))[0]


def not_all_rows(k, q):
    def trip(i, out):
        return lax.dynamic_update_index_in_dim(out, k[i].at[0].set(q), i, 0)

    return lax.fori_loop(0, LAYERS - 1, trip, jnp.ones_like(k))


def outside_of_the_state(k, q):
    def trip(i, k):
        return k.at[i].set(k[i].at[1].set(q * i))

    return lax.fori_loop(0, LAYERS + 2, trip, k)


def another_fixed_row_written(k, q):
    return k.at[1].set(k[2].at[3].set(q)), k[1]


def stacked_in_another_order(k, q):
    return jnp.stack([layer.at[3].set(q) for layer in k[::-1]]), jnp.stack([layer.at[3].set(q) for layer in k][::-1])


def rows_and_their_stack(k, q):
    layers = [layer.at[3].set(q) for layer in k]
    return jnp.stack(layers), layers[1], k[1]


def row_of_a_changed_row(k, q):
    old = k[1]
    k = k.at[1].set(k[1].at[0].set(q))
    return k.at[1].set(old.at[2].set(-q))


def old_row_needed(k, q):
    k = k.at[1].set(k[1].at[0].set(q) + 0)
    new = k.at[2].set(k[2].at[0].set(q))
    return new, new.sum(0) + k[2]


def old_state_used_later(k, q):
    _, new = lax.scan(lambda q, k: (q, k.at[3].set(q)), q, k)
    return new, k[1]


def positions_of_narrow_types(k, q):
    """The number of the row does not fit the type of the position in it."""
    k = jnp.concatenate([k[:, :2]] * 75)
    byte, bytes_ = jnp.argmax(q).astype(jnp.int8), jnp.array([[5], [1]], jnp.uint8)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def trip(i, k):
        row = lax.dynamic_update_slice(k[i, 0], q[:2] * i, (byte,))
        k = k.at[i].set(k[i].at[0].set(row))
        first = lax.scatter_add(k[i].reshape(-1), bytes_, q[:2], numbers)
        return k.at[i].set(first.reshape(2, -1))

    k = lax.fori_loop(0, 300, trip, k)
    k, wide = k.reshape(300, -1), k.reshape(2, -1)
    k = lax.fori_loop(0, 300, lambda i, k: k.at[i].set(lax.dynamic_update_slice(k[i], q[:2] * i, (byte,))), k)
    k = lax.fori_loop(0, 300, lambda i, k: k.at[i].set(lax.scatter_add(k[i], bytes_, q[:2], numbers)), k)
    row = lax.dynamic_slice(wide, (byte // 8, byte * 0), (1, wide.shape[1])).at[0, 200].set(q[0])
    return k, lax.dynamic_update_slice(wide, row, (byte // 8, byte * 0))


IN_PLACE = (
    *(slice_of_a_scanned_cache, rows_of_two_scanned_caches, scanned_in_reverse, position_known_at_run_time),
    *(layers_of_carried_state, slices_of_carried_state, scatters_of_carried_state, new_row_read),
    *(layers_in_turn, layers_taken_apart, layers_stacked, one_layer, positions_of_narrow_types),
)
OTHERS = (
    *(another_row_written, next_row_read, not_all_rows, outside_of_the_state, old_state_used_later),
    *(another_fixed_row_written, stacked_in_another_order, rows_and_their_stack, row_of_a_changed_row, old_row_needed),
)


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=lambda mode: mode[0])
@pytest.mark.parametrize("program", (*IN_PLACE, *OTHERS), ids=lambda program: program.__name__)
def test_values(program, mode):
    check(program, array(LAYERS, 6, COLUMNS), array(COLUMNS, seed=1), mode=mode)


# Of these, the second writes both caches from one argument, and the others read no more than rows.
CONSTANT = (
    *(position_known_at_run_time, layers_of_carried_state, slices_of_carried_state, scatters_of_carried_state),
    *(layers_in_turn, layers_taken_apart, layers_stacked, one_layer),
)


@pytest.mark.parametrize("program", CONSTANT, ids=lambda program: program.__name__)
def test_cost_does_not_grow_with_the_length_of_rows(program):
    small, large = (
        jax_ipu.estimate(
            program,
            jax.ShapeDtypeStruct((LAYERS, rows, 64), np.float32),
            jax.ShapeDtypeStruct((64,), np.float32),
            donate_argnums=(0,),
        ).cycles
        for rows in (512, 4096)
    )
    assert large < 1.1 * small
