"""Programs over the same IPUs that take each other's arrays share an engine on each of them."""

import contextlib
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support import processes
from support.modes import on_cpu

IPUS = jax.devices("ipu")[:4]
MESH = Mesh(np.array(IPUS), ("i",))
WHOLE, SPLIT = NamedSharding(MESH, P()), NamedSharding(MESH, P("i"))
WIDTH, ROWS, LAYERS = 64, 16, 4
BATCH = 2 * ROWS * WIDTH  # floats of x and y
STATE = LAYERS * WIDTH * WIDTH


def loss(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value


def evaluate(weights, x, y):
    return loss(weights, x, y) * 2


def predict(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return x


def data(seed=0):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)]
    return weights, rng.normal(size=(ROWS, WIDTH)).astype(np.float32), rng.normal(size=(ROWS, WIDTH)).astype(np.float32)


@contextlib.contextmanager
def moved(loads, h2d, d2h=None, ipus=IPUS):
    """Checks what the block makes each IPU count: loads, and bytes to and from it."""
    before = [jax_ipu.counters(ipu) for ipu in ipus]
    yield
    for ipu, old in zip(ipus, before, strict=True):
        new = jax_ipu.counters(ipu)
        assert new.engine_loads - old.engine_loads == loads, ipu
        assert new.h2d_bytes - old.h2d_bytes == h2d, ipu
        if d2h is not None:
            assert new.d2h_bytes - old.d2h_bytes == d2h, ipu


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "asked"])
@pytest.mark.parametrize("state", [WHOLE, SPLIT], ids=["replicated", "split"])
def test_training_and_evaluation_in_turns(state, asked):
    train = jax.jit(step, donate_argnums=0, out_shardings=([state] * LAYERS, WHOLE))
    test = jax.jit(evaluate, out_shardings=WHOLE)
    if asked:
        train, test = jax_ipu.link(train, test)
    weights, x, y = data()
    placed, expected = jax.device_put(weights, state), weights
    batch = jax.device_put((x, y), SPLIT)
    placed, _ = train(placed, *batch)
    test(placed, *batch).block_until_ready()
    expected, _ = on_cpu(step, (expected, x, y))
    with moved(loads=0, h2d=3 * BATCH // 4 * 4, d2h=3 * 2 * 4):
        for seed in range(3):
            _, x, y = data(seed)
            batch = jax.device_put((x, y), SPLIT)
            placed, value = train(placed, *batch)
            expected, wanted = on_cpu(step, (expected, x, y))
            tested = test(placed, *batch)
            for shard in [*value.addressable_shards, *tested.addressable_shards]:
                np.asarray(shard.data)
            np.testing.assert_allclose(float(value), wanted, rtol=1e-5)
            np.testing.assert_allclose(float(tested), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)
    for actual, wanted in zip(placed, expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-5, atol=1e-6)


def test_a_program_without_collectives_and_one_with():
    """The replicas of `predict` do not communicate, and change the image of `train` all the same together."""
    train = jax.jit(step, donate_argnums=0, out_shardings=([WHOLE] * LAYERS, WHOLE))
    apply = jax.jit(predict, out_shardings=SPLIT)
    weights, x, y = data()
    placed, expected = jax.device_put(weights, WHOLE), weights
    split = jax.device_put((x, y), SPLIT)
    for turn in range(3):
        loads = 0 if turn > 1 else None
        before = [jax_ipu.counters(ipu).engine_loads for ipu in IPUS]
        placed, _ = train(placed, *split)
        expected, _ = on_cpu(step, (expected, x, y))
        np.testing.assert_allclose(np.asarray(apply(placed, split[0])), on_cpu(predict, (expected, x)), 1e-4, 1e-6)
        if loads is not None:
            assert [jax_ipu.counters(ipu).engine_loads for ipu in IPUS] == before


def test_a_third_program_and_one_on_a_single_ipu_between():
    """What one IPU does alone takes the engine of that IPU only, and the others wait for its replica as before."""
    train = jax.jit(step, donate_argnums=0, out_shardings=([SPLIT] * LAYERS, WHOLE))
    small = jax.jit(lambda w, x: step(w, x[:8], x[8:])[0], donate_argnums=0, out_shardings=[SPLIT] * LAYERS)
    test = jax.jit(evaluate, out_shardings=WHOLE)
    weights, x, y = data()
    placed, expected = jax.device_put(weights, SPLIT), weights
    split = jax.device_put((x, y), SPLIT)
    alone = jax.device_put(x, IPUS[2])
    for turn in range(4):
        before = [jax_ipu.counters(ipu).engine_loads for ipu in IPUS]
        placed, _ = train(placed, *split)
        if turn % 2:
            np.testing.assert_allclose(float(jnp.sum(alone)), x.sum(), rtol=1e-4)
        placed = small(placed, split[0])
        expected, _ = on_cpu(step, (expected, x, y))
        expected, _ = on_cpu(lambda w, x: step(w, x[:8], x[8:]), (expected, x))
        np.testing.assert_allclose(float(test(placed, *split)), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)
        after = [jax_ipu.counters(ipu).engine_loads for ipu in IPUS]
        if turn >= 2:
            assert [a - b for a, b in zip(after, before, strict=True)] == [0, 0, 2 * (turn % 2), 0]


def test_programs_over_other_ipus_are_not_linked():
    """Over two of the four, over the same four in another order: they take turns, with the right values."""
    train = jax.jit(step, donate_argnums=0, out_shardings=([WHOLE] * LAYERS, WHOLE))
    weights, x, y = data()
    expected, placed = weights, jax.device_put(weights, WHOLE)
    split = jax.device_put((x, y), SPLIT)
    for mesh in (Mesh(np.array(IPUS[:2]), ("i",)), Mesh(np.array(IPUS[::-1]), ("i",))):
        test = jax_ipu.link(jax.jit(evaluate, out_shardings=NamedSharding(mesh, P())), jax.jit(predict))[0]
        for _ in range(2):
            placed, _ = train(placed, *split)
            expected, _ = on_cpu(step, (expected, x, y))
            there = jax.device_put(placed, NamedSharding(mesh, P()))
            batch = jax.device_put((x, y), NamedSharding(mesh, P("i")))
            np.testing.assert_allclose(float(test(there, *batch)), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)


def test_replicas_of_pmap():
    train = jax.pmap(lambda w, x: (w - 0.1 * jax.lax.pmean(w * x, "i"), w.sum()), "i", devices=IPUS, donate_argnums=0)
    test = jax.pmap(lambda w, x: jax.lax.psum((w * x).sum(), "i"), "i", devices=IPUS)
    rng = np.random.default_rng(1)
    w, x = (rng.normal(size=(4, 128, 8)).astype(np.float32) for _ in range(2))
    placed = jax.device_put(w, jax.NamedSharding(MESH, P("i")))
    for turn in range(3):
        before = [jax_ipu.counters(ipu).engine_loads for ipu in IPUS]
        placed, _ = train(placed, x)
        w = w - 0.1 * (w * x).mean(0)
        np.testing.assert_allclose(test(placed, x), np.full(4, (w * x).sum()), rtol=1e-4)
        if turn:
            assert [jax_ipu.counters(ipu).engine_loads for ipu in IPUS] == before


def test_launches_of_several_threads():
    """Two threads with a pair of programs each, over sets of IPUs that overlap."""
    failures = []

    def work(ipus, seed):
        try:
            mesh = Mesh(np.array(ipus), ("i",))
            whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("i"))
            train = jax.jit(step, donate_argnums=0, out_shardings=([whole] * LAYERS, whole))
            test = jax.jit(evaluate, out_shardings=whole)
            weights, x, y = data(seed)
            expected, placed = weights, jax.device_put(weights, whole)
            batch = jax.device_put((x, y), split)
            for _ in range(4):
                placed, _ = train(placed, *batch)
                expected, _ = on_cpu(step, (expected, x, y))
                np.testing.assert_allclose(float(test(placed, *batch)), on_cpu(evaluate, (expected, x, y)), rtol=1e-5)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(ipus, n)) for n, ipus in enumerate((IPUS[:2], IPUS[1:3], IPUS[2:]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


IN_TURNS = """
import logging
logging.basicConfig(format="%(levelname)s %(message)s")
import jax, jax.numpy as jnp, numpy as np, jax_ipu
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
ipus = jax.devices("ipu")
whole = NamedSharding(Mesh(np.array(ipus), ("i",)), P())
split = NamedSharding(whole.mesh, P(None, "i"))
one = jax.device_put(np.ones(({rows}, 1024), np.float32), split)
first = jax.jit(lambda w, m: (w + m, m, w.sum()), donate_argnums=(0, 1), out_shardings=(split, split, whole))
second = jax.jit(lambda w, n: (w * n, n + 1, w.max()), donate_argnums=(0, 1), out_shardings=(split, split, whole))
w, m, n = one, one + 0, one + 0
for i in range(3):
    w, m, total = first(w, m)
    w, n, most = second(w, n)
print(*[jax_ipu.counters(ipu).engine_loads for ipu in ipus], float(total), float(most))
assert (np.asarray(w) == ((2 * 1 + 1) * 2 + 1) * 3).all() and (np.asarray(n) == 4).all()
"""


@pytest.mark.parametrize(
    "rows, variables, loads, warnings",
    [
        (16, {}, 2, 0),
        (16, {"JAX_IPU_EXECUTION": "tile"}, 2, 0),
        (16, {"JAX_IPU_LINK": "0"}, 6, 0),
        (1450, {}, 6, 1),
    ],
    ids=["linked", "tile", "forbidden", "too large together"],
)
def test_programs_in_turns(rows, variables, loads, warnings):
    variables = {"JAX_PLATFORMS": "ipu,cpu", "JAX_IPU_MODEL_NUM_TILES": "16", "JAX_IPU_DEVICE_COUNT": "2", **variables}
    result = processes.run(IN_TURNS.format(rows=rows), **variables)
    assert result.returncode == 0, result.stderr
    *counted, total, most = result.stdout.split()
    assert (float(total), float(most)) == (rows * 1024 * 6, 7)
    assert [int(n) - int(counted[0]) for n in counted] == [0, 0]
    assert int(counted[0]) - loads in (0, 1), result.stdout  # `one + 0` is a program, too
    assert result.stderr.count("do not fit into the memory of an IPU together") == warnings, result.stderr
