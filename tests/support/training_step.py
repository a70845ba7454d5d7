"""A training step of some layers, and its arguments as shapes on one IPU or several."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def floats(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def shape(*sizes, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=sharding)


def abstract_mesh(count):
    return AbstractMesh((count,), ("ipus",), axis_types=(AxisType.Auto,))


def mlp_step(parameters, x):
    """The parameters after a step of gradient descent, and the loss."""

    def loss(parameters):
        value = x
        for w in parameters:
            value = jnp.tanh(value @ w)
        return jnp.mean(value**2)

    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def sharded(mesh):
    """Arguments of `mlp_step`: the parameters whole on each IPU, the rows cut over them."""
    weights, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("ipus"))
    return [shape(64, 64, sharding=weights)], shape(32, 64, sharding=rows)
