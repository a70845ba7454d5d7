"""jax.distributed over hosts with addresses of their own: they lose each other, die, and start again."""

import re
import subprocess
from contextlib import suppress

import numpy as np
import pytest

from support.hosts import hosts, why_not

pytestmark = pytest.mark.nightly

PORT = 7117
# What takes so many seconds hangs: more than it takes on a machine that has much else to do.
HANGS = 900
TRAIN = """
import os, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize(
    address, num_processes=count, process_id=process, initialization_timeout=hangs, heartbeat_timeout_seconds=heartbeat
)

mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
split, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
rows = 4 * len(jax.devices("ipu"))

def batch(step):
    x = np.random.default_rng(step).normal(size=(rows, 8)).astype(np.float32)
    return jax.make_array_from_callback(x.shape, split, lambda index: x[index])

@jax.jit(donate_argnums=0)
def update(weights, x):
    loss = lambda w: ((jnp.tanh(x @ w) - x) ** 2).mean()
    return weights - 0.1 * jax.grad(loss)(weights)

def train(weights, steps):
    for step in steps:
        weights = jax.block_until_ready(update(weights, batch(step)))
        print("AT", step, flush=True)
        time.sleep(pause)
    return weights

def start():
    w = np.eye(8, dtype=np.float32)
    return jax.make_array_from_callback(w.shape, whole, lambda index: w[index])

def tell(weights):
    print("SUM", repr(float(jnp.abs(weights.addressable_shards[0].data).sum())), flush=True)
"""
# What the process is told when another one is gone.
UNTIL_AN_ERROR = """
try:
    train(start(), range(1000))
except Exception as error:
    print("ERROR", str(error).replace("\\n", " "), flush=True)
"""
# Without the wait of jax.distributed.shutdown for processes that have gone.
LEAVE = "\nsys.stdout.flush()\nos._exit(0)\n"
END = "\njax.distributed.shutdown()\n"


@pytest.fixture(autouse=True)
def namespaces():
    if reason := why_not():
        pytest.skip(reason)


def begin(all_hosts, folder, code, ipus=1, heartbeat=HANGS, pause=0.0, timeout=HANGS, end=END):
    for process, host in enumerate(all_hosts):
        known = (
            f"address, count, process = '{all_hosts[0].address}:{PORT}', {len(all_hosts)}, {process}\n"
            f"hangs, heartbeat, pause = {HANGS}, {heartbeat}, {pause}\n"
        )
        environment = {
            "JAX_PLATFORMS": "ipu,cpu",
            "JAX_IPU_DEVICE_COUNT": str(ipus),
            "JAX_IPU_MODEL_NUM_TILES": "16",
            "JAX_IPU_PROCESS_TIMEOUT": str(timeout),
            "JAX_IPU_HOST_THREADS": "1",
        }
        host.start(known + TRAIN + code + end, folder / f"{host.name}.txt", **environment)


def sums(all_hosts):
    for host in all_hosts:
        assert host.end(HANGS) == 0, host.said()
    return [float(re.search(r"SUM (\S+)", host.path.read_text())[1]) for host in all_hosts]


def expected(steps, rows):
    """The same in NumPy, in float64."""
    weights = np.eye(8)
    for step in range(steps):
        x = np.random.default_rng(step).normal(size=(rows, 8)).astype(np.float32).astype(np.float64)
        y = np.tanh(x @ weights)
        weights -= 0.1 * x.T @ (2 * (y - x) * (1 - y * y) / x.size)
    return np.abs(weights).sum()


def test_hosts_train_together(tmp_path):
    with hosts(3) as three:
        begin(three, tmp_path, "tell(train(start(), range(8)))", ipus=2)
        np.testing.assert_allclose(sums(three), expected(8, 24), rtol=1e-4)


def test_sixteen_processes(tmp_path):
    with hosts(16) as sixteen:
        begin(sixteen, tmp_path, "tell(train(start(), range(3)))")
        np.testing.assert_allclose(sums(sixteen), expected(3, 64), rtol=1e-4)


def test_hosts_far_apart(tmp_path):
    """A message takes 60 ms, and one frame in a hundred is lost on each of its two wires."""
    with hosts(3, delay=0.03, loss=0.01) as three:
        begin(three, tmp_path, "tell(train(start(), range(8)))")
        np.testing.assert_allclose(sums(three), expected(8, 12), rtol=1e-4)
        assert all(host.wire.carried > 100 for host in three)
        assert sum(host.wire.lost for host in three) > 0


def test_a_host_that_is_away_for_seconds(tmp_path):
    """Its packets are lost, and sent again when it is back."""
    with hosts(3) as three:
        begin(three, tmp_path, "tell(train(start(), range(10)))", pause=0.2)
        three[0].wait_for("AT 2", HANGS)
        three[1].unplug()
        with suppress(subprocess.TimeoutExpired):
            three[2].process.wait(3)
        three[1].plug()
        np.testing.assert_allclose(sums(three), expected(10, 12), rtol=1e-4)


def test_a_host_that_vanishes(tmp_path):
    """No connection is closed. The others are told within the bound, and by name."""
    with hosts(3) as three:
        begin(three, tmp_path, UNTIL_AN_ERROR, pause=0.2, timeout=60, end=LEAVE)
        three[0].wait_for("AT 2", HANGS)
        three[2].unplug()
        for host in three[:2]:
            host.wait_for("ERROR", HANGS)
            assert host.end(HANGS) == 0
        errors = [re.search("ERROR (.*)", host.path.read_text())[1] for host in three[:2]]
        assert any("process 2 did not take part in a collective within 60 s" in error for error in errors), errors
        assert all("process 2" in error for error in errors), errors


def test_a_host_that_dies(tmp_path):
    with hosts(2) as two:
        begin(two, tmp_path, UNTIL_AN_ERROR, pause=0.2, end=LEAVE)
        two[0].wait_for("AT 2", HANGS)
        two[1].process.kill()
        two[0].wait_for("ERROR", HANGS)
        assert "process 1 has closed the connection: it has ended or crashed" in two[0].said()


CHECKPOINTS = """
import orbax.checkpoint as ocp
manager = ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2))
first, weights = 0, start()
if manager.latest_step() is not None:
    first = manager.latest_step() + 1
    weights = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore({"w": weights}))["w"]
    print("FROM", first, flush=True)
for step in range(first, 12):
    weights = train(weights, [step])
    manager.save(step, args=ocp.args.StandardSave({"w": weights}))
    manager.wait_until_finished()
    print("SAVED", step, flush=True)
tell(weights)
"""


def test_training_goes_on_from_a_checkpoint(tmp_path):
    """A host dies, all processes end, and all start again from the last checkpoint."""
    folder = f"folder = {str(tmp_path / 'checkpoints')!r}\n"
    with hosts(2) as two:
        begin(two, tmp_path, folder + CHECKPOINTS, pause=0.2, heartbeat=30)
        two[0].wait_for("SAVED 3", HANGS)
        two[1].process.kill()
        assert two[0].end(HANGS) != 0
    with hosts(2) as two:
        begin(two, tmp_path, folder + CHECKPOINTS)
        np.testing.assert_allclose(sums(two), expected(12, 8), rtol=1e-4)
        assert int(re.search(r"FROM (\d+)", two[0].path.read_text())[1]) >= 4
