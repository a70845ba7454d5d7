"""Programs that keep values in host memory: by name, with arguments, and which of them and of the results are there."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from support.host_memory import in_host, layers, on_device
from support.modes import array

LAYERS, BATCH, WIDTH = 5, 4, 16
WEIGHTS, X = array(LAYERS, WIDTH, WIDTH) / 6, array(BATCH, WIDTH)


def unknown_trips(weights, x, count):
    """As many layers as an argument says."""

    def layer(i, h):
        return jnp.tanh(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))

    return jax.lax.fori_loop(0, count, layer, x)


def until_large(weights, x):
    """How many trips there are follows from what they compute."""

    def layer(state):
        i, h = state
        return i + 1, h + abs(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))

    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < LAYERS), layer, (0, x))


def written_until_large(x):
    """The rows that a loop makes until what it computes is large; the others stay as they are."""

    def trip(state):
        i, h, rows = state
        h = h * 1.5
        return i + 1, h, jax.lax.dynamic_update_index_in_dim(rows, in_host(h), i, 0)

    rows = in_host(jnp.full((2 * LAYERS, *x.shape), 7, x.dtype))
    return jax.lax.while_loop(lambda state: abs(state[1]).sum() < 200, trip, (0, x, rows))[1:]


def written_beyond_the_end(x, count):
    """The last row is written again by each trip beyond it."""

    def trip(i, rows):
        return jax.lax.dynamic_update_index_in_dim(rows, in_host(x * i), i, 0)

    return jax.lax.fori_loop(0, count, trip, in_host(jnp.zeros((3, *x.shape), x.dtype)))


def read_and_written_until_large(weights, x):
    def trip(state):
        i, h, rows = state
        h = h + abs(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))
        return i + 1, h, jax.lax.dynamic_update_index_in_dim(rows, in_host(h), i, 0)

    rows = in_host(jnp.zeros((LAYERS, *x.shape), x.dtype))
    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < LAYERS), trip, (0, x, rows))


def replaced_until_large(weights, x, rows=LAYERS):
    """Each trip reads a row, and makes one of the same shape for another array; `rows`: at which the loop ends."""

    def trip(state):
        i, h, made = state
        w = on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False))
        return i + 1, h + abs(h @ w), jax.lax.dynamic_update_index_in_dim(made, in_host(w * 0.9 + h[0]), i, 0)

    start = 0, x, in_host(jnp.zeros_like(weights))
    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < rows), trip, start)


def rounds(weights, x):
    """A loop around the loop over layers."""
    return jax.lax.fori_loop(0, 3, lambda i, h: layers(weights, h) + i, x)


def rounds_until_large(weights, x):
    return jax.lax.while_loop(lambda h: h.sum() < 100, lambda h: abs(layers(weights, h)) + h, x)


def offload_in_a_trip(x):
    """What one trip puts into host memory and takes back."""

    def trip(total, row):
        kept = in_host(jnp.sin(row))
        wide = jnp.cos(jnp.outer(row, row + total))
        return jnp.tanh(wide @ on_device(kept)), None

    return jax.lax.scan(trip, x[0], x)[0]


def train(weights, momentum, x):
    """One layer at a time: forward, backward, update."""

    def loss(weights):
        layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ on_device(w)), None))
        return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()

    def update(_, layer):
        w, m, g = map(on_device, layer)
        m = 0.9 * m + g
        return None, (in_host(w - 0.1 * m), in_host(m))

    value, gradients = jax.value_and_grad(loss)(weights)
    _, (weights, momentum) = jax.lax.scan(update, None, (weights, momentum, gradients))
    return value, weights, momentum


def adam(parameters, first, second, x):
    """The state of the optimiser comes in and leaves leaf by leaf."""

    def loss(parameters):
        h = x
        for w in parameters:
            h = jnp.tanh(h @ w)
        return (h**2).mean()

    results = []
    for w, m, v, g in zip(parameters, first, second, jax.grad(loss)(parameters), strict=True):
        m, v = 0.9 * on_device(m) + 0.1 * g, 0.99 * on_device(v) + 0.01 * g * g
        results.append((w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), in_host(m), in_host(v)))
    return tuple(zip(*results, strict=True))


OFFLOAD = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["h"],
    offload_src="device",
    offload_dst="pinned_host",
)


def two_products(h, w):
    return jnp.sin(jnp.tanh(checkpoint_name(h, "h") @ w) @ w)


def offloaded_scan(weights, x):
    layer = jax.checkpoint(lambda h, w: (two_products(h, w), None), policy=OFFLOAD)
    return jax.grad(lambda weights: (jax.lax.scan(layer, x, weights)[0] ** 2).mean())(weights)


def offloaded_layers(weights, x):
    def model(weights):
        h = x
        for w in weights:
            h = two_products(h, w)
        return (h**2).mean()

    return jax.grad(jax.checkpoint(model, policy=OFFLOAD))(weights)


def rows_by_index(table, i):
    return on_device(jax.lax.dynamic_slice_in_dim(table, i, 2)), on_device(table[-1]) * 2, on_device(table[1:4:2]) + 1


def rows_and_whole(table, x):
    total = jax.lax.fori_loop(0, LAYERS, lambda i, s: s + on_device(table[i]) * x, jnp.zeros((WIDTH, WIDTH)))
    return total, on_device(table).sum(1)


def half_of_the_rows(x):
    return jax.lax.fori_loop(0, 3, lambda i, s: s.at[i].set(x * i), jnp.ones((6, *x.shape)))


def read_again(x):
    """A stacked result that the program reads again, row by row."""
    rows = jax.lax.scan(lambda h, _: (h * 0.5, in_host(h)), x, length=LAYERS)[1]
    return rows, jax.lax.scan(lambda s, row: (s + on_device(row), None), jnp.zeros_like(x), rows, reverse=True)[0]


def stacked(h, _):
    """One trip of a loop that stacks its values in host memory."""
    h = jnp.sin(h + 1)
    return h, in_host(h)


def loops_in_loops(x):
    """What the inner loop stacks in host memory is a row of what the outer loop stacks there."""

    return jax.lax.scan(lambda h, _: jax.lax.scan(stacked, h, length=4), x, length=3)


def offloaded_loops_in_loops(weights, x):
    layer = jax.checkpoint(lambda h, w: (two_products(h, w), None), policy=OFFLOAD)
    groups = jnp.stack([weights, weights / 2])
    return jax.grad(lambda w: (jax.lax.scan(lambda h, w: jax.lax.scan(layer, h, w), x, w)[0] ** 2).mean())(groups)


def put_and_taken(x):
    away = in_host(jnp.sin(x))
    return jnp.cos(x).sum() * on_device(away), away


def branches(x):
    """Each branch returns what it puts into host memory, and reads it itself."""

    def first(h):
        away = in_host(h * 3)
        return h + on_device(away), away

    return jax.lax.cond(x.sum() > 0, first, lambda h: (h * 2, in_host(jnp.cos(h))), x)


def branches_of_trips(x):
    """Loops write rows in some of the trips, others put the whole there."""

    def trip(h, i):
        def whole(h):
            return h * 2, in_host(jnp.ones((4, *h.shape)) * h)

        return jax.lax.cond(i % 2 == 0, lambda h: jax.lax.scan(stacked, h, length=4), whole, h)

    return jax.lax.scan(trip, x, jnp.arange(3))


def state_of_a_loop(x):
    """The state of a loop that ends on a value is in host memory between the trips."""

    def trip(state):
        i, away = state
        return i + 1, in_host(on_device(away) * 1.5)

    return jax.lax.while_loop(lambda state: abs(on_device(state[1])).sum() < 200, trip, (0, in_host(x)))


FLOATS, WORDS = array(6, 3, 5), np.arange(24, dtype=np.int32).reshape(6, 4)
# Name -> function, arguments, which of them are in host memory, which results are (by position, flat).
PROGRAMS = {
    "layers": (layers, (WEIGHTS, X), {0}, set()),
    "training": (train, (WEIGHTS, array(*WEIGHTS.shape), X), {0, 1}, {1, 2}),
    "optimiser": (
        adam,
        (list(WEIGHTS), list(0 * WEIGHTS), list(abs(WEIGHTS)), X),
        set(range(5, 15)),
        set(range(5, 15)),
    ),
    "offload in a scan": (offloaded_scan, (WEIGHTS, X), set(), set()),
    "offload in layers": (offloaded_layers, (WEIGHTS, X), set(), set()),
    "loops in loops": (loops_in_loops, (X,), set(), {1}),
    "offload in loops in loops": (offloaded_loops_in_loops, (WEIGHTS, X), set(), set()),
    "rows by index": (rows_by_index, (FLOATS, np.int32(3)), {0}, set()),
    "rows by an index beyond the end": (rows_by_index, (FLOATS, np.int32(7)), {0}, set()),
    "rows by a negative index": (rows_by_index, (FLOATS, np.int32(-9)), {0}, set()),
    "rows and the whole": (rows_and_whole, (WEIGHTS, X[0]), {0}, set()),
    "half of the rows": (half_of_the_rows, (X,), set(), {0}),
    "reverse": (
        lambda xs: jax.lax.scan(lambda c, x: (c + on_device(x), in_host(c)), jnp.zeros(4), xs, reverse=True),
        (array(6, 4),),
        {0},
        {1},
    ),
    "read again": (read_again, (X,), set(), {0}),
    "put and taken": (put_and_taken, (X,), set(), {1}),
    "integers": (
        lambda xs: jax.lax.scan(lambda c, x: (c + on_device(x), c > 7), jnp.zeros(4, jnp.int32), xs),
        (WORDS,),
        {0},
        {1},
    ),
    "half precision": (
        lambda xs: jax.lax.scan(lambda c, x: (c * on_device(x), c), jnp.ones(5, jnp.float16), xs),
        (array(6, 5).astype(np.float16),),
        {0},
        {1},
    ),
    "an argument twice": (lambda x: (on_device(x) @ on_device(x).T, on_device(x)), (X,), {0}, set()),
    "scalars and vectors": (
        lambda a, b: (on_device(a) * on_device(b), in_host(on_device(b) + 1)),
        (X[0], X[0, 0]),
        {0, 1},
        {1},
    ),
    "unknown trips": (unknown_trips, (WEIGHTS, X, np.int32(3)), {0}, set()),
    "no trips": (unknown_trips, (WEIGHTS, X, np.int32(0)), {0}, set()),
    "until it is large": (until_large, (WEIGHTS, X), {0}, set()),
    "offload in a trip": (offload_in_a_trip, (X,), set(), set()),
    "written until it is large": (written_until_large, (X,), set(), {1}),
    "written in no trip": (written_until_large, (100 * X,), set(), {1}),
    "written beyond the end": (written_beyond_the_end, (X, np.int32(5)), set(), {0}),
    "read and written until it is large": (read_and_written_until_large, (WEIGHTS, X), {0}, {2}),
    "replaced until it is large": (replaced_until_large, (WEIGHTS, X), {0}, {2}),
    "replaced beyond the end": (partial(replaced_until_large, rows=LAYERS + 2), (WEIGHTS, X / 1e3), {0}, {2}),
    "rounds": (rounds, (WEIGHTS, X), {0}, set()),
    "rounds until it is large": (rounds_until_large, (WEIGHTS, X), {0}, set()),
    "branches": (branches, (X,), set(), {1}),
    "the other branch": (branches, (-abs(X),), set(), {1}),
    "branches of trips": (branches_of_trips, (X,), set(), {1}),
    "state of a loop": (state_of_a_loop, (X,), set(), {1}),
    "nothing": (lambda x: on_device(x) + 1, (np.zeros((0, 4), np.float32),), {0}, {0}),
}
