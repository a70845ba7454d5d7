"""Memory kinds: SRAM (device), and the host memory from and to which programs stream (pinned_host)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import compiler
from support.modes import array

ipus = jax.devices("ipu")
SRAM = SingleDeviceSharding(ipus[0])
HOST = SRAM.with_memory_kind("pinned_host")
X = array(3, 5)


def assert_in(actual, sharding, values):
    assert actual.sharding == sharding and actual.sharding.memory_kind == sharding.memory_kind
    np.testing.assert_array_equal(np.asarray(actual), values)


def moved_by(call):
    """Returns the call's result and the bytes moved between host and tiles: to the device, from the device."""
    before = jax_ipu.counters(ipus[0])
    result = jax.block_until_ready(call())
    after = jax_ipu.counters(ipus[0])
    return result, (after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes)


def test_every_device_has_two_memories():
    for ipu in ipus:
        assert [m.kind for m in ipu.addressable_memories()] == ["device", "pinned_host"]
        assert ipu.default_memory().kind == "device"
        assert all(m.addressable_by_devices() == [ipu] for m in ipu.addressable_memories())
    with pytest.raises(ValueError, match=r"can address the following memory kinds.*device.*pinned_host"):
        SingleDeviceSharding(ipus[0], memory_kind="hbm")


@pytest.mark.parametrize(
    "value", [X, np.float32(3), 7, np.zeros((0, 2), np.int8)], ids=["array", "f32", "int", "empty"]
)
def test_copies_between_memories_devices_and_numpy(value):
    other = SingleDeviceSharding(ipus[1])
    x = jax.device_put(value, HOST)
    for sharding in (HOST, SRAM, HOST, other, other.with_memory_kind("pinned_host"), SRAM):
        x = jax.device_put(x, sharding)
        assert_in(x, sharding, value)
    assert_in(jax.device_put(x, jax.memory.Space.Host), HOST, value)
    assert_in(jax.device_put(x, jax.memory.Space.Device), SRAM, value)


def test_from_other_platforms():
    on_cpu = jax.device_put(X, jax.devices("cpu")[0])
    assert_in(jax.device_put(on_cpu, HOST), HOST, X)
    np.testing.assert_array_equal(jax.device_put(jax.device_put(X, HOST), jax.devices("cpu")[0]), X)


def test_sharded_over_several_devices():
    mesh = Mesh(np.array(ipus[:4]).reshape(2, 2), ("a", "b"))
    on_device = NamedSharding(mesh, P("b"))
    in_host = on_device.with_memory_kind("pinned_host")
    values = array(8, 2)
    x = jax.device_put(values, in_host)
    assert {s.data.sharding.memory_kind for s in x.addressable_shards} == {"pinned_host"}
    assert_in(jax.jit(lambda x: x, out_shardings=on_device)(x), on_device, values)

    @jax.jit(out_shardings=(in_host, on_device), donate_argnums=0)
    def step(state, batch):
        total = jax.device_put(state, on_device) + batch
        return jax.device_put(total, in_host), total * 2

    for turn in range(3):
        batch = jax.device_put(values, on_device)
        new, doubled = step(x, batch)
        assert x.is_deleted() and not batch.is_deleted()
        x = new
        assert_in(x, in_host, (turn + 2) * values)
        assert_in(doubled, on_device, 2 * (turn + 2) * values)


PROGRAMS = {
    "out_shardings": (jax.jit(lambda x: x + 1, out_shardings=HOST), SRAM, HOST),
    "unchanged": (jax.jit(lambda x: x, out_shardings=SRAM), HOST, SRAM),
    "in_shardings": (jax.jit(lambda x: x + 1, in_shardings=HOST, out_shardings=SRAM), HOST, SRAM),
    "to host inside": (jax.jit(lambda x: jax.device_put(x + 1, jax.memory.Space.Host)), SRAM, HOST),
    "to device inside": (jax.jit(lambda x: jax.device_put(x, jax.memory.Space.Device) + 1), HOST, SRAM),
    "by sharding inside": (jax.jit(lambda x: jax.device_put(jax.device_put(x, SRAM) + 1, HOST)), HOST, HOST),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    function, start, end = PROGRAMS[name]
    result = function(jax.device_put(X, start))
    assert_in(result, end, X if name == "unchanged" else X + 1)
    compiled = function.lower(jax.device_put(X, start)).compile()
    assert compiled.runtime_executable().get_output_memory_kinds() == [[end.memory_kind]]
    analysis = compiled.memory_analysis()
    on_device = (analysis.argument_size_in_bytes, analysis.output_size_in_bytes)
    in_host = (analysis.host_argument_size_in_bytes, analysis.host_output_size_in_bytes)
    kinds = (start.memory_kind, end.memory_kind)
    assert on_device == tuple(X.nbytes if kind == "device" else 0 for kind in kinds)
    assert in_host == tuple(X.nbytes if kind == "pinned_host" else 0 for kind in kinds)


def test_scan_over_an_array_in_host_memory():
    @jax.jit
    def cumulative(xs):
        def step(carry, x):
            carry = carry + jax.device_put(x, jax.memory.Space.Device)
            return carry, jax.device_put(carry, jax.memory.Space.Host)

        return jax.lax.scan(step, jnp.zeros(X.shape[1:]), xs)

    total, sums = cumulative(jax.device_put(X, HOST))
    np.testing.assert_allclose(sums, np.cumsum(X, 0), rtol=1e-6)
    np.testing.assert_allclose(total, X.sum(0), rtol=1e-6)
    assert (total.sharding.memory_kind, sums.sharding.memory_kind) == ("device", "pinned_host")


def test_a_donated_state_in_host_memory_is_streamed_by_every_call():
    step = jax.jit(lambda x: x + 1, donate_argnums=0, in_shardings=HOST, out_shardings=HOST)
    x = step(jax.device_put(X, HOST))
    new, moved = moved_by(lambda: step(x))
    assert x.is_deleted() and moved == (X.nbytes, X.nbytes)
    assert_in(new, HOST, X + 2)


def test_a_donated_state_on_the_device_is_not():
    step = jax.jit(lambda x: x + 1, donate_argnums=0, in_shardings=SRAM, out_shardings=SRAM)
    x = step(jax.device_put(X, SRAM))
    resident, moved = moved_by(lambda: step(x))
    assert moved == (0, 0)
    # Offloading is one copy, and does not move the state.
    offloaded, moved = moved_by(lambda: jax.device_put(resident, HOST))
    assert moved == (0, X.nbytes)
    assert_in(offloaded, HOST, X + 2)


def test_nothing_is_donated_across_memories():
    with pytest.warns(UserWarning, match="Some donated buffers were not usable"):
        step = jax.jit(lambda x: x + 1, donate_argnums=0, in_shardings=SRAM, out_shardings=HOST)
        x = jax.device_put(X, SRAM)
        assert_in(step(x), HOST, X + 1)
    assert not x.is_deleted()


def test_memory_kinds_survive_serialisation():
    from jax.experimental import serialize_executable

    step = jax.jit(lambda x: x + 1, in_shardings=HOST, out_shardings=HOST)
    x = jax.device_put(X, HOST)
    payload, in_tree, out_tree = serialize_executable.serialize(step.lower(x).compile())
    loaded = serialize_executable.deserialize_and_load(
        payload, in_tree, out_tree, backend="ipu", execution_devices=ipus[:1]
    )
    assert_in(loaded(x), HOST, X + 1)


def test_host_memory_is_not_on_tiles():
    x = jax.device_put(X, SRAM)
    before = ipus[0].memory_stats()["bytes_in_use"]
    kept = jax.device_put(np.zeros(1 << 20, np.float32), HOST)
    assert ipus[0].memory_stats()["bytes_in_use"] == before
    del x, kept


def test_a_program_that_aliases_across_memories_keeps_no_state():
    """Other frontends may emit this: data in host memory is streamed, whatever it aliases."""
    text = """
    func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32, mhlo.memory_kind = "pinned_host"})
        -> (tensor<4xf32> {mhlo.memory_kind = "pinned_host"}) {
      %y = stablehlo.add %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    """
    executable = compiler.compile(text.encode(), "mlir", b"", "ipu2:8")
    results = compiler_run(executable, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(results, [0, 2, 4, 6])


def compiler_run(executable, *arguments):
    from jax_ipu import _ipu

    (result,) = _ipu.run(executable, [a.tobytes() for a in arguments], "fast")
    return np.frombuffer(result, arguments[0].dtype)
