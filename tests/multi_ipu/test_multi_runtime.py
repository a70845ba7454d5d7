"""Several IPUs: the tile engine, threads over overlapping devices, serialised executables, rejected programs."""

import re
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import serialize_executable
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.modes import array
from support.processes import run

ROOT = Path(__file__).parents[2]


TILE = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices("ipu")
assert len(devices) == 4 and devices[0].num_tiles == 16
x = np.random.default_rng(0).normal(size=(4, 8, 300)).astype(np.float32)
pmap = lambda f: jax.pmap(f, axis_name="i", devices=devices)(x)
close = lambda a, b: np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-5)
close(pmap(lambda v: lax.psum(v, "i")), np.broadcast_to(x.sum(0), x.shape))
close(pmap(lambda v: lax.all_gather(v, "i")), np.broadcast_to(x, (4, *x.shape)))
close(pmap(lambda v: lax.psum_scatter(v, "i", tiled=True)), x.sum(0).reshape(4, 2, 300))
close(pmap(lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True)), x.reshape(4, 4, 2, 300).swapaxes(0, 1).reshape(x.shape))
close(pmap(lambda v: lax.ppermute(v, "i", [(0, 1), (1, 2)])), np.stack([0 * x[0], x[0], x[1], 0 * x[0]]))
close(pmap(lambda v: v + lax.axis_index("i")), x + np.arange(4)[:, None, None])
mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
place = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
a, w = x[0, :, :12], x[1].reshape(-1)[:72].reshape(12, 6)
close(jax.jit(lambda a, w: jnp.tanh(a @ w))(place(a, "a", "b"), place(w, "b")), np.tanh(a @ w))
print("same")
"""


def test_tile_engine():
    result = run(TILE, JAX_IPU_DEVICE_COUNT="4", JAX_IPU_MODEL_NUM_TILES="16", JAX_IPU_MODEL_EXECUTION="tile")
    assert result.stdout.strip() == "same", result.stderr[-3000:]


def test_threads_over_overlapping_devices():
    devices = jax.devices("ipu")
    total = jax.jit(lambda x: (x - x.mean()).sum() + x)
    sets = [[0, 1], [1, 0], [1, 2], [2, 0, 1, 3], [3, 2]]
    errors = []

    def work(chosen):
        try:
            mesh = Mesh(np.array([devices[i] for i in chosen]), ("d",))
            for step in range(20):
                x = jax.device_put(np.arange(24, dtype=np.float32) + step, NamedSharding(mesh, P("d")))
                np.testing.assert_allclose(total(x), np.arange(24) + step, atol=1e-3)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(chosen,)) for chosen in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert errors == []


def test_every_device_has_its_own_counters():
    devices = jax.devices("ipu")[:3]
    mesh = Mesh(np.array(devices), ("d",))
    x = jax.device_put(array(6, 4), NamedSharding(mesh, P("d")))
    double = jax.jit(lambda v: v * 2)
    double(x).block_until_ready()
    for again, h2d_bytes in ((x, 0), (jax.device_put(array(6, 4), x.sharding), 32)):
        before = [jax_ipu.counters(d) for d in devices]
        double(again).block_until_ready()
        after = [jax_ipu.counters(d) for d in devices]
        moved = [(a.runs - b.runs, a.h2d_bytes - b.h2d_bytes) for a, b in zip(after, before, strict=True)]
        assert moved == [(1, h2d_bytes)] * 3


@pytest.mark.parametrize("ids", [[0, 1], [2, 3], [3, 0], [2]])
def test_serialised_executable_of_several_devices(ids):
    """It is loaded where it was compiled for, and so is what was loaded and serialised again."""
    devices = [jax.devices("ipu")[i] for i in ids]
    x = jax.device_put(array(8, 4), NamedSharding(Mesh(np.array(devices), ("d",)), P("d")))
    loaded = jax.jit(lambda v: v - v.sum(0)).lower(x).compile()
    for _ in range(2):
        loaded = serialize_executable.deserialize_and_load(
            *serialize_executable.serialize(loaded), backend="ipu", execution_devices=devices
        )
    np.testing.assert_allclose(loaded(x), array(8, 4) - array(8, 4).sum(0), rtol=1e-5, atol=1e-5)


def test_export_with_shardings():
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("d",))
    place = NamedSharding(mesh, P("d"))
    function = jax.jit(lambda v: v @ v.T, in_shardings=place, out_shardings=place)
    exported = jax.export.export(function, platforms=["ipu"])(jax.ShapeDtypeStruct((8, 4), jnp.float32))
    assert exported.nr_devices == 2
    x = jax.device_put(array(8, 4), place)
    np.testing.assert_allclose(jax.jit(exported.call)(x), array(8, 4) @ array(8, 4).T, rtol=1e-5, atol=1e-5)


def test_random_with_sharded_keys():
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("d",))
    keys = jax.random.split(jax.random.key(3), 8)
    sharded = jax.device_put(keys, NamedSharding(mesh, P("d")))
    draw = jax.jit(jax.vmap(lambda k: jax.random.normal(k, (5,))))
    np.testing.assert_allclose(draw(sharded), draw(keys), rtol=1e-5, atol=1e-6)


def test_blocks_of_the_documentation():
    """Runs every Python block of docs/multi_ipu.md, in order, with four IPUs."""
    text = (ROOT / "docs" / "multi_ipu.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 5
    result = run("\n".join(blocks), JAX_IPU_DEVICE_COUNT="4", JAX_IPU_MODEL_NUM_TILES="64")
    assert result.returncode == 0, result.stderr[-3000:]


def test_collective_in_a_loop_with_a_trip_count_known_at_run_time():
    def function(x):
        return lax.while_loop(lambda v: lax.psum(v.sum(), "i") < 50, lambda v: v + 1, x)

    result = jax.pmap(function, axis_name="i", devices=jax.devices("ipu")[:2])(np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(result, np.full((2, 3), 9))
