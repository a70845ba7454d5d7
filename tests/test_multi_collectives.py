"""Collectives between IPUs: values as on CPU devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from support.devices import compare
from support.modes import array


def pmap(function):
    return lambda devices: jax.pmap(function, axis_name="i", devices=devices)


COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "psum in groups": lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [3, 1]]),
    "axis_index": lambda x: x + lax.axis_index("i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather tiled": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    "all_gather in groups": lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 3], [1, 2]]),
    "all_to_all": lambda x: lax.all_to_all(x[:, :4], "i", 1, 0),
    "all_to_all tiled": lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "psum_scatter columns": lambda x: lax.psum_scatter(x[:, :4], "i", scatter_dimension=1),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 3), (3, 0)]),
    "shift": lambda x: lax.pshuffle(x, "i", [3, 0, 1, 2]),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, v: lax.psum(v, "i") * 0.1, x),
    "gradient": jax.grad(lambda x: jnp.sum(lax.psum(jnp.sin(x), "i") ** 2)),
    "several": lambda x: [lax.psum(x * k, "i") for k in range(3)],
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collective(name):
    compare(pmap(COLLECTIVES[name]), array(4, 8, 5))


# Small tensors are gathered and reduced by everybody, large ones in parts; 3737 elements make uneven parts.
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2047,), (37, 101)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "bfloat16", "complex64"])
def test_reduction_of_every_size_and_type(shape, dtype):
    reduce = lax.pmax if dtype == "bool" else lax.psum
    rtol = 2e-2 if dtype == "bfloat16" else 1e-5
    compare(pmap(lambda x: reduce(x, "i")), array(4, *shape, dtype=dtype), rtol=rtol)


def test_sums_of_narrow_floats_do_not_round_on_the_way():
    x = np.array([256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], jnp.bfloat16)
    devices = jax.devices("ipu")[:8]
    total = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(x)
    assert float(total[0]) == 264  # each step alone would stay at 256


def test_any_body_of_a_reduction():
    """Products, and logical operations, through the public API."""

    def product(x):
        return lax.pmin(jnp.exp(lax.psum(jnp.log(x), "i")), "i")

    compare(pmap(product), array(4, 9, low=0.5, high=1.5))


@pytest.mark.parametrize("axes", ["a", "b", ("a", "b"), ("b", "a")], ids=str)
def test_axes_of_a_mesh(axes):
    def build(devices):
        mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))

        def local(x):
            index = lax.axis_index(axes)
            return lax.psum(x * (1 + index), axes), lax.all_gather(x, axes, tiled=True)

        spec = P("a", "b")
        return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=(spec, spec), check_vma=False))

    compare(build, array(8, 6))


def test_reversed_devices_keep_their_positions():
    def build(devices):
        return jax.pmap(lambda x: x + lax.axis_index("i"), axis_name="i", devices=devices[::-1])

    compare(build, array(4, 3))
