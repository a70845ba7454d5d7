"""Weights of several layers in one array, of which products read items by their numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.modes import array, close, each_mode, on_cpu, run_ipu
from support.stages import lowered


def layers(x, weights, dim=0):
    for i in range(weights.shape[dim]):
        x = jnp.tanh(x @ jax.lax.index_in_dim(weights, i, dim, False))
    return x


def apart(x, *weights):
    for w in weights:
        x = jnp.tanh(x @ w)
    return x


@pytest.mark.parametrize("dim", [0, 1, 2])
@each_mode
def test_values(mode, dim) -> None:
    args = array(6, 16), np.moveaxis(array(3, 16, 16, seed=1) / 4, 0, dim)

    def function(x, w):
        return layers(x, w, dim)

    close(run_ipu(function, args, mode)[0], np.asarray(on_cpu(function, args)))


def test_items_cost_what_arrays_of_their_own_cost() -> None:
    x, w = jax.ShapeDtypeStruct((64, 256), jnp.float16), jax.ShapeDtypeStruct((256, 256), jnp.float16)
    stack = jax.ShapeDtypeStruct((4, 256, 256), jnp.float16)
    assert jax_ipu.estimate(layers, x, stack).cycles <= 1.02 * jax_ipu.estimate(apart, x, w, w, w, w).cycles


def test_each_item_lies_as_its_product_wants() -> None:
    x, stack = jax.ShapeDtypeStruct((64, 256), jnp.float16), jax.ShapeDtypeStruct((4, 256, 256), jnp.float16)
    program, graph = lowered(str(jax.jit(layers).lower(x, stack).compiler_ir()))
    tensor = graph.tensors[program.signature.arguments[1].value]
    tiles = [graph.graph.get_tile_mapping(tensor.slice([i, 0, 0], [i + 1, 256, 256])) for i in range(4)]
    assert all(tile == tiles[0] for tile in tiles)
    assert sum(map(bool, tiles[0])) > 1472 // 4
