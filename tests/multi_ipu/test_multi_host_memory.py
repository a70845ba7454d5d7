"""What programs over several IPUs put into host memory ("pinned_host"): values, and that it stays there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.devices import compare
from support.host_memory import in_host, on_device
from support.host_memory_programs import offloaded_layers, offloaded_scan, put_and_taken, state_of_a_loop
from support.modes import array

LAYERS, BATCH, WIDTH = 4, 8, 16
WEIGHTS, X = array(LAYERS, WIDTH, WIDTH) / 6, array(BATCH, WIDTH)


def rows_of_whole_numbers(x):
    numbers = jnp.argsort(x, 1)
    return on_device(in_host(numbers)) + 1, on_device(in_host(x > 0))


def sharded(function, *specs):
    def build(devices):
        mesh = Mesh(np.reshape(devices, (2, 2)), ("a", "b"))
        places = [NamedSharding(mesh, spec) for spec in specs]
        jitted = jax.jit(function)
        return lambda *args: jitted(*[jax.device_put(v, p) for v, p in zip(args, places, strict=True)])

    return build


# Name -> function, arguments, how they are split.
PROGRAMS = {
    "offload in a scan, split batch": (offloaded_scan, (WEIGHTS, X), (P(), P("a"))),
    "offload in a scan, split columns": (offloaded_scan, (WEIGHTS, X), (P(None, None, "b"), P("a"))),
    "offload in layers": (offloaded_layers, (WEIGHTS, X), (P(), P(("a", "b")))),
    "put and taken": (lambda x: put_and_taken(x)[0], (X,), (P("a", "b"),)),
    "state of a loop": (lambda x: on_device(state_of_a_loop(x)[1]), (X,), (P("a"),)),
    "whole numbers and truth values": (rows_of_whole_numbers, (X,), (P("a"),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    function, arguments, specs = PROGRAMS[name]
    compare(sharded(function, *specs), *arguments)


def of_one_shard(function, mesh):
    specs = P(), P("a")
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)


@pytest.mark.parametrize("manual", [False, True], ids=["split by jit", "shard_map"])
@pytest.mark.parametrize("function", [offloaded_scan, offloaded_layers])
def test_what_is_offloaded_is_in_host_memory(function, manual):
    """Each IPU writes its rows of every layer's input and reads them again, as a program for one IPU does."""
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("a",))

    def arguments(batch):
        split = NamedSharding(mesh, P("a")) if batch > 64 else NamedSharding(mesh, P())
        shapes = ((LAYERS, 64, 64), NamedSharding(mesh, P())), ((batch, 64), split)
        return [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=place) for shape, place in shapes]

    program = of_one_shard(function, mesh) if manual else function
    alone = jax_ipu.estimate(function, *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments(64)])
    split = jax_ipu.estimate(program, *arguments(128))
    assert split.num_ipus == 2
    assert split.streaming_bytes_out == alone.streaming_bytes_out >= LAYERS * 64 * 64 * 4
    assert split.streaming_bytes_in == alone.streaming_bytes_in >= LAYERS * 64 * 64 * 4


def test_the_same_value_on_the_device_and_in_host_memory():
    """Two moves of one value are not taken for one: what the second product reads comes from host memory."""

    def program(x):
        y = jnp.sin(x)
        return on_device(y) + 1, on_device(in_host(y)) * 2

    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("a",))
    x = jax.ShapeDtypeStruct((128, 64), jnp.float32, sharding=NamedSharding(mesh, P("a")))
    assert jax_ipu.estimate(program, x).streaming_bytes_out >= 64 * 64 * 4
    compare(sharded(program, P("a")), X)


def test_rows_of_an_argument_in_host_memory_are_read_one_by_one():
    """A loop over layers whose weights are in host memory, for a batch that is split."""
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("a",))
    host = NamedSharding(mesh, P(), memory_kind="pinned_host")
    shapes = ((LAYERS, 64, 64), host), ((128, 64), NamedSharding(mesh, P("a")))
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=place) for shape, place in shapes]

    def layers(weights, x):
        return lax.scan(lambda h, w: (jnp.tanh(h @ on_device(w)), None), x, weights)[0]

    assert jax_ipu.estimate(layers, *arguments).streaming_bytes_in == LAYERS * 64 * 64 * 4
    placed = [jax.device_put(array(*shape) / 8, place) for shape, place in shapes]
    expected = jax.jit(layers, backend="cpu")(*[array(*shape) / 8 for shape, _ in shapes])
    np.testing.assert_allclose(jax.jit(layers)(*placed), expected, rtol=2e-5, atol=1e-6)
