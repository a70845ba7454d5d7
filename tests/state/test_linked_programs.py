"""Programs that take each other's arrays share an engine: no loads, no state over the host link."""

import contextlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import linking
from jax_ipu.compiler.errors import CompileError
from support import processes
from support.modes import on_cpu

IPU = jax.devices("ipu")[0]
WIDTH, ROWS = 64, 16


def loss(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value


def evaluate(weights, x, y):
    return loss(weights, x, y) * 2


def data(seed=0, layers=4):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(layers)]
    return weights, rng.normal(size=(ROWS, WIDTH)).astype(np.float32), rng.normal(size=(ROWS, WIDTH)).astype(np.float32)


@contextlib.contextmanager
def moved(loads, h2d, d2h=None):
    """Checks what the block makes the device count: loads, and bytes to and from it."""
    before = jax_ipu.counters(IPU)
    yield
    after = jax_ipu.counters(IPU)
    assert after.engine_loads - before.engine_loads == loads
    assert after.h2d_bytes - before.h2d_bytes == h2d
    if d2h is not None:
        assert after.d2h_bytes - before.d2h_bytes == d2h


@pytest.fixture
def on_ipu():
    with jax.default_device(IPU):
        yield


def test_training_and_evaluation_in_turns(on_ipu):
    weights, x, y = data()
    train, test = jax.jit(step, donate_argnums=0), jax.jit(evaluate)
    expected = weights
    state = jax.device_put(weights, IPU)
    state, _ = train(state, x, y)
    test(state, x, y).block_until_ready()
    expected, _ = on_cpu(step, (expected, x, y))
    with moved(loads=0, h2d=5 * 4 * ROWS * WIDTH * 4, d2h=5 * 2 * 4):
        for seed in range(5):
            _, x, y = data(seed)
            state, value = train(state, x, y)
            expected, wanted = on_cpu(step, (expected, x, y))
            np.testing.assert_allclose(float(value), wanted, rtol=1e-5)
            np.testing.assert_allclose(float(test(state, x, y)), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)
    for actual, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-5, atol=1e-6)


def test_two_training_steps_and_a_third_program(on_ipu):
    weights, x, y = data()
    train, small, test = (
        jax.jit(step, donate_argnums=0),
        jax.jit(lambda w, x, y: step(w, x[:4], y[:4]), donate_argnums=0),
        jax.jit(evaluate),
    )
    programs = ((train, step), (small, lambda w, x, y: step(w, x[:4], y[:4])))
    state, expected = jax.device_put(weights, IPU), weights
    loads = []
    for _ in range(3):
        before = jax_ipu.counters(IPU).engine_loads
        for program, function in programs:
            state, value = program(state, x, y)
            expected, wanted = on_cpu(function, (expected, x, y))
            np.testing.assert_allclose(float(value), wanted, rtol=1e-5)
        np.testing.assert_allclose(float(test(state, x, y)), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)
        loads.append(jax_ipu.counters(IPU).engine_loads - before)
    assert loads[1:] == [0, 0]


def test_other_arrays_take_the_place_of_the_state(on_ipu):
    """A linked program may be called with arrays that are not in its variables, in another order, or twice."""
    weights, x, y = data()
    train, test = jax.jit(step, donate_argnums=0), jax.jit(evaluate)
    state, _ = train(jax.device_put(weights, IPU), x, y)
    expected, _ = on_cpu(step, (weights, x, y))
    test(state, x, y).block_until_ready()
    others, _, _ = data(7)
    for given in (others, expected[::-1], [expected[0]] * 4):
        np.testing.assert_allclose(float(test(given, x, y)), on_cpu(evaluate, (given, x, y)), rtol=1e-5)
    for arrays, numbers in ((state[::-1], expected[::-1]), ([state[1]] * 4, [expected[1]] * 4), (state, expected)):
        np.testing.assert_allclose(float(test(arrays, x, y)), on_cpu(evaluate, (numbers, x, y)), rtol=1e-5)
    state, value = train(state[::-1], x, y)
    expected, wanted = on_cpu(step, (expected[::-1], x, y))
    np.testing.assert_allclose(float(value), wanted, rtol=1e-5)
    for actual, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-5, atol=1e-6)


def test_a_program_that_overwrites_its_argument_leaves_the_state(on_ipu):
    weights, x, y = data(layers=1)

    def scaled(weights):
        return jax.lax.fori_loop(0, 3, lambda i, w: w.at[i].set(w[i] * 2), weights[0])

    train, other = jax.jit(step, donate_argnums=0), jax.jit(scaled)
    state, _ = train(jax.device_put(weights, IPU), x, y)
    expected, _ = on_cpu(step, (weights, x, y))
    with moved(loads=1, h2d=WIDTH * WIDTH * 4):
        once = np.asarray(other(state))
    np.testing.assert_allclose(once, on_cpu(scaled, (expected,)), rtol=1e-5, atol=1e-6)
    with moved(loads=0, h2d=0):
        np.testing.assert_array_equal(np.asarray(other(state)), once)


def test_cycles_are_those_of_the_program_that_runs(on_ipu):
    weights, x, y = data()
    train, test = jax.jit(step, donate_argnums=0), jax.jit(evaluate)

    def cycles(run):
        before = jax_ipu.counters(IPU).cycles
        result = jax.block_until_ready(run())
        return result, jax_ipu.counters(IPU).cycles - before

    (state, _), alone = cycles(lambda: train(jax.device_put(weights, IPU), x, y))
    cycles(lambda: test(state, x, y))
    _, of_test = cycles(lambda: test(state, x, y))
    (state, _), of_step = cycles(lambda: train(state, x, y))
    assert of_step == alone  # it decides the tile mapping
    assert 0 < of_test < of_step
    estimated = jax_ipu.estimate(evaluate, weights, x, y).cycles
    assert estimated / 2 < of_test < 2 * estimated


def test_traces_name_the_streams_of_linked_programs(on_ipu, tmp_path):
    weights, x, y = data()
    train, test = jax.jit(step, donate_argnums=0), jax.jit(evaluate)
    state, _ = train(jax.device_put(weights, IPU), x, y)
    test(state, x, y).block_until_ready()
    with jax_ipu.trace(tmp_path / "trace.json"):
        state, value = train(state, x, y)
        jax.block_until_ready((value, test(state, *data(3)[1:])))
    events = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert {event for event in events if event.startswith("from host")} >= {"from host: x", "from host: y"}
    moved = [event for event in events if event.startswith(("from host", "to host"))]
    assert not [event for event in moved if "." in event.split(": ")[1]], moved


def test_operations_outside_of_jit_are_not_linked(on_ipu):
    weights, x, y = data()
    train = jax.jit(step, donate_argnums=0)
    state, _ = train(jax.device_put(weights, IPU), x, y)
    jnp.abs(state[0]).block_until_ready()
    with moved(loads=1, h2d=(4 * WIDTH * WIDTH + 2 * ROWS * WIDTH) * 4):
        train(state, x, y)[1].block_until_ready()


def test_few_of_many_arrays_are_shared_when_asked(on_ipu):
    weights, x, y = data(layers=12)
    train, of_one = jax_ipu.link(jax.jit(step, donate_argnums=0), lambda w: jnp.sum(w**2))
    state, _ = train(jax.device_put(weights, IPU), x, y)
    of_one(state[3]).block_until_ready()
    state, _ = train(state, x, y)  # brings the state back, into the variables that both use
    with moved(loads=0, h2d=2 * ROWS * WIDTH * 4):
        state, _ = train(state, x, y)
        np.testing.assert_allclose(float(of_one(state[3])), np.sum(np.asarray(state[3]) ** 2), rtol=1e-5)
    with pytest.raises(TypeError, match="two functions or more"):
        jax_ipu.link(train)


def printed(weights, stack):
    jax.debug.callback(lambda w: None, weights[0][0, 0])
    return jnp.sum(weights[0] @ stack[0])


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "by itself"])
def test_programs_that_are_not_linked_take_turns(on_ipu, caplog, asked):
    weights, x, y = data(layers=2)
    train, other = jax.jit(step, donate_argnums=0), jax.jit(printed)
    if asked:
        train, other = jax_ipu.link(train, other)
    stack = np.stack(data(5)[0]) / 4
    state, expected = jax.device_put(weights, IPU), weights
    for _ in range(3):
        state, _ = train(state, x, y)
        expected, _ = on_cpu(step, (expected, x, y))
        wanted = on_cpu(printed, (expected, stack))
        np.testing.assert_allclose(float(other(state, stack)), wanted, rtol=1e-4)
    assert caplog.text.count("it calls functions of the host") == asked, caplog.text


def part(function, *args, numbers, donate=()):
    lowered = jax.jit(function, donate_argnums=donate).trace(*args).lower(lowering_platforms=("ipu",))
    return linking.Part(str(lowered.compiler_ir("stablehlo")).encode(), "mlir", b"", numbers)


def test_link_refuses():
    x = np.zeros((8, 8), np.float32)
    same = part(lambda a: a + 1, x, numbers=(0,))
    with pytest.raises(CompileError, match="another type or layout"):
        linking.link([same, part(lambda a: a + 1, x[:4], numbers=(0,))], "ipu2:8")
    large = np.zeros((900, 1024), np.float32)
    both = [part(lambda a, b: (a + b, b * 2), large, large, numbers=(0, n), donate=(0, 1)) for n in (1, 2)]
    with pytest.raises(CompileError, match="do not fit into the memory of an IPU together"):
        linking.link(both, "ipu2:16")
    linking.link([same, same], "ipu2:8")


IN_TURNS = """
import logging
logging.basicConfig(format="%(levelname)s %(message)s")
import jax, numpy as np, jax_ipu
one = np.ones(({rows}, 1024), np.float32)
first = jax.jit(lambda w, m: (w + m, m), donate_argnums=(0, 1))
second = jax.jit(lambda w, n: (w * n, n + 1), donate_argnums=(0, 1))
w, m, n = one, one, one
for i in range(3):
    w, m = first(w, m)
    w, n = second(w, n)
print(jax_ipu.counters().engine_loads)
assert (np.asarray(w) == ((2 * 1 + 1) * 2 + 1) * 3).all() and (np.asarray(n) == 4).all()
"""


@pytest.mark.parametrize(
    "rows, variables, loads, warnings",
    [(16, {}, 2, 0), (16, {"JAX_IPU_LINK": "0"}, 6, 0), (900, {}, 6, 1)],
    ids=["linked", "forbidden", "too large together"],
)
def test_programs_in_turns(rows, variables, loads, warnings):
    code = IN_TURNS.format(rows=rows)
    result = processes.run(code, JAX_PLATFORMS="ipu,cpu", JAX_IPU_MODEL_NUM_TILES="16", **variables)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(loads)]
    assert result.stderr.count("do not fit into the memory of an IPU together") == warnings, result.stderr


def test_linked_programs_beside_the_persistent_cache(tmp_path):
    asked = IN_TURNS.format(rows=16).replace(
        "w, m, n = one", "first, second = jax_ipu.link(first, second)\nw, m, n = one"
    )
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for _ in range(2):
        assert processes.output(asked, JAX_PLATFORMS="ipu,cpu", JAX_IPU_MODEL_NUM_TILES="16", **cache).split() == ["2"]
