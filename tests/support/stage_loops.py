"""Pipelines of equal stages in one program, as JAX's guides write them."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STAGES, BATCHES, ROWS, WIDTH = 4, 6, 8, 32
WHOLE = P()
MESH = AbstractMesh((STAGES,), ("stage",), axis_types=(AxisType.Auto,))


def on_stage(weights, batches, ring=True, axes=("stage",)):
    """What one IPU runs: weights [1, layer, width, width], micro-batches [batch, rows, width]."""
    number, count, last = jax.lax.axis_index("stage"), len(batches), STAGES - 1
    pairs = [(i, (i + 1) % STAGES) for i in range(STAGES if ring else STAGES - 1)]

    def trip(carry, t):
        x, outputs = carry
        x = jnp.where(number == 0, batches[jnp.minimum(t, count - 1)], x)
        for kernel in weights[0]:
            x = jnp.tanh(x @ kernel)
        outputs = jnp.where(t >= last, outputs.at[jnp.maximum(t - last, 0)].set(x), outputs)
        return (jax.lax.ppermute(x, "stage", pairs), outputs), None

    start = (jnp.zeros(batches.shape[1:]), jnp.zeros(batches.shape))
    start = jax.lax.pcast(start, axes, to="varying")
    return jax.lax.scan(trip, start, jnp.arange(count + last))[0][1][None]


equal_stages = partial(jax.shard_map, mesh=MESH, in_specs=(P("stage"), P()), out_specs=P("stage"))(on_stage)


def shape(mesh, spec, *sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=NamedSharding(mesh, spec))


def stage_arguments(mesh=MESH, spec=WHOLE):
    """Weights and micro-batches, as shapes."""
    return shape(mesh, P("stage"), STAGES, 2, WIDTH, WIDTH), shape(mesh, spec, BATCHES, ROWS, WIDTH)
