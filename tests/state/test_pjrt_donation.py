"""Donation in every order: results, deletion, and the exact number of bytes transferred."""

import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu

ipu = jax.devices("ipu")[0]
N = 16  # elements of each argument; all have the same shape, so that JAX may alias any to any
BYTES = 4 * N


def array(value):
    return np.full(N, value, np.float32)


def jit(function, donate):
    return jax.jit(function, donate_argnums=donate, backend="ipu")


class Moved:
    """Returns bytes and loads since the last call."""

    def __init__(self):
        self.last = jax_ipu.counters(ipu)

    def __call__(self):
        now = jax_ipu.counters(ipu)
        last, self.last = self.last, now
        return now.h2d_bytes - last.h2d_bytes, now.d2h_bytes - last.d2h_bytes, now.engine_loads - last.engine_loads


# name: (order of the results, donated arguments). Arguments have different sizes, so that JAX pairs each donated one
# with its own new value.
ORDERS = {
    "first": ((0, 1, 2, 3), (0,)),
    "last": ((0, 1, 2, 3), (3,)),
    "several": ((0, 1, 2, 3), (0, 1)),
    "interleaved": ((0, 1, 2, 3), (0, 2)),
    "all": ((0, 1, 2, 3), (0, 1, 2, 3)),
    "first to last": ((1, 2, 3, 0), (0,)),
    "reversed": ((3, 2, 1, 0), (0, 1, 2, 3)),
    "interleaved reversed": ((3, 2, 1, 0), (1, 3)),
    "only the donated": ((2, 0), (0, 2)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_order(name):
    order, donated = ORDERS[name]
    values = [np.full(N + i, 10 * i, np.float32) for i in range(4)]
    step = jit(lambda *arguments: [arguments[i] + i + 1 for i in order], donated)
    arguments = [jax.device_put(value, ipu) for value in values]
    streamed_in = sum(values[i].nbytes for i in order if i not in donated)
    streamed_out = streamed_in
    state = sum(values[i].nbytes for i in donated)
    moved = Moved()
    for call in range(4):
        given = list(arguments)
        results = step(*given)
        # Arguments that are not donated are sent again, and are resident as well.
        assert moved() == ((streamed_in + state, streamed_out, 1) if call == 0 else (0, streamed_out, 0))
        for i, argument in enumerate(given):
            assert argument.is_deleted() == (i in donated)
        for result, i in zip(results, order, strict=True):
            if i in donated:
                arguments[i] = result
    for i in donated:
        np.testing.assert_array_equal(arguments[i], values[i] + 4 * (i + 1))


@pytest.mark.parametrize("size", [N, 5000])
def test_states_of_one_type_stay_on_the_device_in_any_place(size):
    """JAX pairs arguments and results of one type in order; callers may pass the results back in any order."""
    arguments = [jax.device_put(np.full(size, 100 * i, np.float32), ipu) for i in range(4)]
    expected = [100.0 * i for i in range(4)]
    step = jit(lambda a, b, c, d: (d + 4, c + 3, b + 2, a + 1), (0, 1, 2, 3))
    moved = Moved()
    for call, places in enumerate(itertools.permutations(range(4))):
        results = step(*arguments)
        assert moved() == ((4 * 4 * size, 0, 1) if call == 0 else (0, 0, 0))
        new = [expected[3] + 4, expected[2] + 3, expected[1] + 2, expected[0] + 1]
        arguments, expected = [results[i] for i in places], [new[i] for i in places]
    for argument, value in zip(arguments, expected, strict=True):
        np.testing.assert_array_equal(argument, np.full(size, value, np.float32))


def rotate(i, n):
    return (i + 1) % n


# The position of state i of n of one type in the next call.
PERMUTATIONS = {
    "cycle": rotate,
    "reversal": lambda i, n: n - 1 - i,
    "cycles of three": lambda i, n: i // 3 * 3 + (i + 1) % 3 if i // 3 * 3 + 3 <= n else i,
    "all but the first": lambda i, n: 1 + i % (n - 1) if i else 0,
    "random": lambda i, n: int(np.random.default_rng(n).permutation(n)[i]),
}


@pytest.mark.parametrize("count", [3, 9, 40])
@pytest.mark.parametrize("name", PERMUTATIONS)
def test_any_number_of_states_change_places(name, count):
    """The states have two types, mixed; the results are in another order than the arguments."""
    types = [np.zeros(N, np.float32), np.zeros((3, 5), np.int32)]
    place, n = PERMUTATIONS[name], count * len(types)
    start = [types[i % 2] + 10 * i for i in range(n)]
    start = [value.astype(types[i % 2].dtype) for i, value in enumerate(start)]
    step = jit(lambda *states: [states[i] + 1 for i in reversed(range(n))], range(n))
    other = jax.jit(lambda x: x * 2, backend="ipu")
    states, expected = [jax.device_put(value, ipu) for value in start], start
    size, moved = sum(value.nbytes for value in start), Moved()
    for call in range(5):
        results = step(*states)[::-1]
        loaded = call in (0, 3)
        assert moved() == ((size, 0, 1) if loaded else (0, 0, 0))
        for i in range(n):
            to = 2 * place(i // 2, count) + i % 2
            states[to] = results[i]
        expected = [value + 1 for value in expected]
        expected = [e for _, e in sorted((2 * place(i // 2, count) + i % 2, e) for i, e in enumerate(expected))]
        if call == 2:  # the other program takes the device: the states are read back, wherever they are
            other(array(0)).block_until_ready()
            assert moved() == (BYTES, size + BYTES, 1)
    for state, value in zip(states, expected, strict=True):
        np.testing.assert_array_equal(state, value)


@pytest.mark.parametrize("count", [3, 40])
def test_states_that_the_program_itself_permutes(count):
    """JAX pairs each argument with a result that is another argument."""
    values = [array(10 * i) for i in range(count)]
    order = [(i + 1) % count for i in range(count)]
    step = jit(lambda *states: [states[i] for i in order], range(count))
    states, moved = [jax.device_put(value, ipu) for value in values], Moved()
    for call in range(3):
        states = step(*states)
        assert moved() == ((count * BYTES, 0, 1) if call == 0 else (0, 0, 0))
    for i, state in enumerate(states):
        np.testing.assert_array_equal(state, values[(i + 3) % count])


def test_states_that_lie_differently_change_places():
    """Each state has another use and therefore its own mapping; one is returned unchanged."""

    def step(a, b, c, kept, x):
        y = jnp.tanh(x @ a) @ b.T / 48 + jnp.tanh(x @ kept).mean(0)
        return a + y[:48] * 0.1, b.T + 0.5, jnp.roll(c, 1, axis=0), kept, y.sum()

    rng = np.random.default_rng(0)
    values = [rng.normal(size=(48, 48)).astype(np.float32) / 7 for _ in range(4)]
    x = rng.normal(size=(64, 48)).astype(np.float32)
    run, reference = jit(step, range(4)), jax.jit(step, backend="cpu")
    states, moved = [jax.device_put(value, ipu) for value in values], Moved()
    for call in range(8):
        *states, y = run(*states, x)
        *values, expected = reference(*values, x)
        assert moved() == (x.nbytes + (4 * values[0].nbytes if call == 0 else 0), 4, 1 if call == 0 else 0)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-3)
        if call == 4:  # a state that the host has read is swapped as well
            np.testing.assert_allclose(states[3], values[3], rtol=1e-4, atol=1e-5)
            moved()
        order = np.random.default_rng(call).permutation(4)
        states, values = [states[i] for i in order], [values[i] for i in order]
    for state, value in zip(states, values, strict=True):
        np.testing.assert_allclose(state, value, rtol=1e-4, atol=1e-5)


def test_states_change_places_in_the_tile_engine():
    """The tests above, on the tile engine."""
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k"]
    chosen = "change_places and (cycle or random or differently) or permutes or in_any_place"
    environment = {**os.environ, "JAX_IPU_MODEL_EXECUTION": "tile", "JAX_IPU_MODEL_NUM_TILES": "16"}
    result = subprocess.run(
        [*command, f"({chosen}) and not tile_engine"], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0 and " passed" in result.stdout, result.stdout[-3000:] + result.stderr[-3000:]


FULL = """
import jax, numpy as np, jax_ipu
ipu = jax.devices("ipu")[0]
step = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1), backend="ipu")
a, b = (jax.device_put(np.full(500_000, v, np.float32), ipu) for v in (0, 10))
for _ in range(3):
    a, b = step(a, b)
print(float(a.min()), float(a.max()), float(b.min()), float(b.max()))
before = jax_ipu.counters(ipu)
a, b = step(b, a)
after = jax_ipu.counters(ipu)
print(after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes)
print(float(a.min()), float(a.max()), float(b.min()), float(b.max()))
"""


def test_states_that_fill_the_memory_change_places_over_the_host():
    """Two states of 40 % of the SRAM each, so there is no room for a third one during a swap."""
    environment = {**os.environ, "JAX_IPU_MODEL_NUM_TILES": "8"}
    result = subprocess.run([sys.executable, "-P", "-c", FULL], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split("\n")[:3] == ["3.0 3.0 13.0 13.0", "4000000 0", "14.0 14.0 4.0 4.0"]


def test_leapfrog():
    step = jit(lambda before, now, x: (now, 2 * now - before + x), (0, 1))
    before, now, moved = jax.device_put(array(0), ipu), jax.device_put(array(1), ipu), Moved()
    expected = [0, 1]
    for call in range(4):
        before, now = step(before, now, array(1))
        assert moved() == ((3 if call == 0 else 1) * BYTES, 0, 1 if call == 0 else 0)
        expected = [expected[1], 2 * expected[1] - expected[0] + 1]
    np.testing.assert_array_equal(before, array(expected[0]))
    np.testing.assert_array_equal(now, array(expected[1]))


def test_a_state_that_is_kept_while_another_takes_its_place():
    step = jit(lambda a, b: (a + 1, b + 10), (0, 1))
    a, b = step(jax.device_put(array(0), ipu), jax.device_put(array(100), ipu))
    moved = Moved()
    c, d = step(b, jax.device_put(array(7), ipu))
    assert moved() == (BYTES, BYTES, 0)  # the caller keeps `a`, which leaves its variable
    for value, expected in ((a, 1), (c, 111), (d, 17)):
        np.testing.assert_array_equal(value, array(expected))


def test_steady_step_moves_exactly_its_inputs_and_outputs():
    step = jit(lambda s, x: (s + x, x[:1] * 2), 0)
    state, moved = jax.device_put(array(0), ipu), Moved()
    for call in range(5):
        state, _ = step(state, array(1))
        assert moved() == ((2 if call == 0 else 1) * BYTES, 4, 1 if call == 0 else 0)
    np.testing.assert_array_equal(state, array(5))
    assert moved() == (0, BYTES, 0)
    np.asarray(state)
    assert moved() == (0, 0, 0)


def test_pass_through_costs_nothing():
    infer = jit(lambda w, x: (w, (w * x)[:1]), 0)
    w, moved = jax.device_put(array(3), ipu), Moved()
    for call in range(4):
        w, y = infer(w, array(2))
        assert moved() == ((2 if call == 0 else 1) * BYTES, 4, 1 if call == 0 else 0)
        assert np.asarray(y)[0] == 6
    np.testing.assert_array_equal(w, array(3))


# What a step writes in another way and is yet the state itself.
SAME = {
    "itself": lambda b: b,
    "transposed column": lambda b: b.T.reshape(b.shape),
    "raveled": lambda b: b.ravel().reshape(b.shape),
    "plus nothing": lambda b: b * 1,
    "turned twice": lambda b: jnp.flip(jnp.flip(b)),
    "behind a barrier": lambda b: jax.lax.optimization_barrier((b, b + 1))[0],
    "chosen": lambda b: jnp.where(jnp.isnan(b), b, b),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("read", ["no state", "one", "both"])
def test_state_that_a_step_returns_as_it_is_stays_what_it_is(name, read):
    """The step's other results get host memory that the state was sent from or read into."""

    def step(a, b):
        return a + 1, SAME[name](b), b.sum()

    step = jit(step, (0, 1))
    a, b = jax.device_put(np.zeros(N, np.float32), ipu), jax.device_put(np.arange(8.0, dtype=np.float32)[:, None], ipu)
    for count in range(1, 5):
        a, b, total = step(a, b)
        assert float(total) == 28
        if read == "both":
            assert np.asarray(a).tolist() == [count] * N
        if read != "no state":
            assert np.asarray(b).ravel().tolist() == list(range(8))
    assert np.asarray(b).ravel().tolist() == list(range(8))


def test_another_executable_spills_the_state_and_it_comes_back():
    step = jit(lambda s, x: s + x, 0)
    other = jax.jit(lambda x: x * 2, backend="ipu")
    state = step(jax.device_put(array(0), ipu), array(1))
    moved = Moved()
    np.testing.assert_array_equal(other(array(4)), array(8))
    assert moved() == (BYTES, 2 * BYTES, 1)
    state = step(state, array(1))
    assert moved() == (2 * BYTES, 0, 1)
    np.testing.assert_array_equal(state, array(2))


def test_state_moves_between_two_programs():
    double, increment = jit(lambda s: s * 2, 0), jit(lambda s: s + 1, 0)
    state = jax.device_put(array(1), ipu)
    for _ in range(5):
        state = increment(double(state))
    np.testing.assert_array_equal(state, array(63))


def test_resident_state_as_an_ordinary_argument():
    step = jit(lambda s, x: s + x, 0)
    state = step(jax.device_put(array(0), ipu), array(1))
    other = step(jax.device_put(array(10), ipu), state)
    np.testing.assert_array_equal(other, array(11))
    np.testing.assert_array_equal(state, array(1))
    np.testing.assert_array_equal(state + state, array(2))


def test_two_states_of_one_program():
    step = jit(lambda s, x: s + x, 0)
    a, b = jax.device_put(array(0), ipu), jax.device_put(array(100), ipu)
    for _ in range(3):
        a, b = step(a, array(1)), step(b, array(2))
    np.testing.assert_array_equal(a, array(3))
    np.testing.assert_array_equal(b, array(106))


def test_deleted_state_is_not_copied_back():
    step = jit(lambda s, x: s + x, 0)
    state = step(jax.device_put(array(0), ipu), array(1))
    state.delete()
    moved = Moved()
    jax.jit(lambda x: x - 1, backend="ipu")(array(4)).block_until_ready()
    assert moved() == (BYTES, BYTES, 1)


def test_numpy_view_of_a_donated_array_keeps_its_values():
    step = jit(lambda s, x: s + x, 0)
    state = jax.jit(lambda x: x + 1, backend="ipu")(array(0))
    view = np.asarray(state)
    jax.block_until_ready(step(state, array(1)))
    np.testing.assert_array_equal(view, array(1))


def test_pytree_of_odd_shapes():
    shapes = [(), (0,), (1,), (3, 5), (7, 1, 2)]
    step = jit(lambda tree, x: ([leaf + x for leaf in tree], x), 0)
    tree = [np.zeros(shape, np.float32) for shape in shapes]
    for i in range(1, 4):
        tree, _ = step(tree, np.float32(1))
        for leaf, shape in zip(tree, shapes, strict=True):
            np.testing.assert_array_equal(leaf, np.full(shape, i, np.float32))


def test_use_after_donation():
    step = jit(lambda s, x: s + x, 0)
    state = jax.device_put(array(0), ipu)
    step(state, array(1))
    assert state.is_deleted()
    with pytest.raises((ValueError, RuntimeError), match="deleted"):
        step(state, array(1))
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32"):
        np.asarray(state)


@pytest.mark.parametrize(
    ("donate", "message"),
    [
        ((0,), r"previously donated in the same call to Execute\(\) .*Toy example for this bug: `f\(donate\(a\), a\)`"),
        ((1,), r"donate a buffer which is also used by the same call to Execute\(\) .*`f\(a, donate\(a\)\)`"),
        ((0, 1), r"donate the same buffer twice in Execute\(\) .*`f\(donate\(a\), donate\(a\)\)`"),
    ],
)
def test_donated_and_kept_in_one_call(donate, message):
    f = jit(lambda a, b: (a + 1, b * 2), donate)
    a = jax.device_put(array(1), ipu)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        f(a, a)
    np.testing.assert_array_equal(a, array(1))


def test_the_message_names_the_partition():
    """Two arrays over two IPUs that share their second shard only: the first partition has no fault."""
    devices = jax.devices("ipu")[:2]
    sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, "x"), jax.sharding.PartitionSpec("x"))
    first, second, other = (jax.device_put(array(i), devices[i % 2]) for i in range(3))

    def both(*shards):
        return jax.make_array_from_single_device_arrays((2 * N,), sharding, list(shards))

    f = jax.jit(lambda a, b: (a + 1, b * 2), donate_argnums=(0, 1))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"donate the same buffer twice .* replica 0, partition 1, "):
        f(both(first, second), both(other, second))
