"""Copies between IPUs: values, and the bytes that they move over each link."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.modes import array

ipus = jax.devices("ipu")[:4]


class Moved:
    """Returns (bytes over IPU-Links, cycles, bytes in, bytes out) of a device since the last call."""

    def __init__(self, device):
        self.device = device
        self.last = jax_ipu.counters(device)

    def __call__(self):
        now = jax_ipu.counters(self.device)
        last, self.last = self.last, now
        return tuple(getattr(now, f) - getattr(last, f) for f in ("link_bytes", "cycles", "h2d_bytes", "d2h_bytes"))


ARRAYS = {
    "put": lambda: jax.device_put(array(40, 5), ipus[0]),
    "result": lambda: jax.jit(lambda x: x + 0)(jax.device_put(array(40, 5), ipus[0])),
    "state": lambda: jax.jit(lambda x: x + 0, donate_argnums=0)(jax.device_put(array(40, 5), ipus[0])),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_copy_to_another_ipu(name):
    x = jax.block_until_ready(ARRAYS[name]())
    moved = [Moved(d) for d in ipus]
    y = jax.block_until_ready(jax.device_put(x, ipus[1]))
    assert y.devices() == {ipus[1]}
    sent, received, *others = [m() for m in moved]
    assert sent[0] == 0 and received[0] == x.nbytes and sent[1] == received[1] > 0
    assert sent[2:] == received[2:] == (0, 0) and others == [(0, 0, 0, 0)] * 2
    # It is on the other IPU: the first program that reads it there receives nothing from the host.
    use = jax.jit(lambda v: v.sum())
    np.testing.assert_allclose(use(y), array(40, 5).sum(), rtol=1e-4)
    assert moved[1]()[2:] == (0, 4)
    np.testing.assert_array_equal(x, array(40, 5))
    np.testing.assert_array_equal(y, array(40, 5))


def test_the_host_reads_a_copied_state_once():
    x = ARRAYS["state"]()
    y = jax.block_until_ready(jax.device_put(x, ipus[2]))
    moved = Moved(ipus[0]), Moved(ipus[2])
    for once in (x.nbytes, 0):
        np.testing.assert_array_equal(np.array(x), array(40, 5))
        np.testing.assert_array_equal(np.array(y), array(40, 5))
        assert [m()[2:] for m in moved] == [(0, once)] * 2


def test_cycles_follow_the_links():
    """The bytes divided by the rate of the links to a neighbour; twice that rate if both ways are equally short."""

    def cycles(size, to):
        x = jax.block_until_ready(jax.device_put(np.zeros(size, np.float32), jax.devices("ipu")[0]))
        moved = Moved(jax.devices("ipu")[to])
        jax.block_until_ready(jax.device_put(x, jax.devices("ipu")[to]))
        return moved()[1]

    ring = len(jax.devices("ipu"))
    assert cycles(0, 1) == 0
    per_megabyte = cycles(500_000, 1) - cycles(250_000, 1)
    assert per_megabyte == pytest.approx(1e6 / (2 * 16e9 * 0.85) * ipus[0].tile_clock_frequency, rel=1e-3)
    half_way = cycles(500_000, ring // 2) - cycles(250_000, ring // 2)
    assert half_way == pytest.approx(per_megabyte / 2, rel=1e-3)
    assert cycles(1000, ring - 1) == cycles(1000, 1) < cycles(1000, 2)


def test_replicating_and_permuting_shards():
    mesh = Mesh(np.array(ipus), ("i",))
    x = jax.device_put(array(8, 4), ipus[0])
    moved = [Moved(d) for d in ipus]
    replicated = jax.block_until_ready(jax.device_put(x, NamedSharding(mesh, P())))
    assert [m()[0] for m in moved] == [0] + [x.nbytes] * 3
    total = jax.jit(lambda v: v.sum(0))(replicated)
    np.testing.assert_allclose(total, array(8, 4).sum(0), rtol=1e-5)
    assert [m()[2] for m in moved] == [x.nbytes, 0, 0, 0]  # the first one receives its shard from the host

    split = jax.device_put(array(8, 4), NamedSharding(mesh, P("i")))
    gathered = jax.jit(lambda v: v, out_shardings=NamedSharding(mesh, P()))
    jax.block_until_ready(gathered(split))
    [m() for m in moved]
    jax.block_until_ready(gathered(split))
    link_bytes, _, h2d_bytes, _ = zip(*[m() for m in moved], strict=True)
    assert link_bytes == (3 * 32,) * 4 and h2d_bytes == (0,) * 4


def test_collectives_of_programs_are_counted():
    devices = ipus[:2]
    mesh = Mesh(np.array(devices), ("i",))
    step = jax.jit(jax.shard_map(lambda v: jax.lax.ppermute(v, "i", [(0, 1), (1, 0)]), mesh=mesh, in_specs=P("i"),
                                 out_specs=P("i")))  # fmt: skip
    x = jax.device_put(array(6, 4), NamedSharding(mesh, P("i")))
    moved = [Moved(d) for d in devices]
    np.testing.assert_array_equal(step(x), np.roll(array(6, 4), 3, axis=0))
    assert [m()[0] for m in moved] == [48, 48]


def test_copies_to_host_memory_and_from_it_cross_the_host_link():
    x = jax.device_put(jnp.asarray(array(10)), ipus[0])
    in_host = jax.sharding.SingleDeviceSharding(ipus[1], memory_kind="pinned_host")
    moved = [Moved(d) for d in ipus[:2]]
    y = jax.block_until_ready(jax.device_put(x, in_host))
    z = jax.block_until_ready(jax.device_put(y, ipus[0]))
    assert [m()[0] for m in moved] == [0, 0]
    np.testing.assert_array_equal(z, array(10))
