"""Pipelines over four IPUs: python report/test/stages.py FOLDER.

The stages of a training step as programs of their own, and equal stages in a loop of one program.
"""

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu

STAGES, LAYERS, WIDTH, ROWS, BATCHES = 4, 4, 512, 64, 8
MESH = AbstractMesh((STAGES,), ("stage",), axis_types=(AxisType.Auto,))


def layers(weights, x):
    for k in range(weights.shape[0]):
        x = jnp.tanh(x @ weights[k])
    return x


def last(weights, x, y):
    return jnp.mean((layers(weights, x) - y) ** 2)


@partial(jax.shard_map, mesh=MESH, in_specs=(P("stage"), P()), out_specs=P("stage"))
def equal_stages(weights, batches):
    """Weights [stage, layer, width, width] and micro-batches [batch, rows, width]; the last stage has the outputs."""
    number, count, end = jax.lax.axis_index("stage"), len(batches), STAGES - 1

    def trip(carry, t):
        x, outputs = carry
        x = layers(weights[0], jnp.where(number == 0, batches[jnp.minimum(t, count - 1)], x))
        outputs = jnp.where(t >= end, outputs.at[jnp.maximum(t - end, 0)].set(x), outputs)
        return (jax.lax.ppermute(x, "stage", [(i, (i + 1) % STAGES) for i in range(STAGES)]), outputs), None

    start = jax.lax.pcast((jnp.zeros_like(batches[0]), jnp.zeros_like(batches)), "stage", to="varying")
    return jax.lax.scan(trip, start, jnp.arange(count + end))[0][1][None]


def reports(folder: Path) -> None:
    """Writes pipeline.html and stages.html."""

    def shape(*sizes, sharding=None):
        return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=sharding)

    names = [f"IPU {number}" for number in range(STAGES)]
    pipe = jax_ipu.pipeline([layers] * (STAGES - 1) + [last], devices=names, gradient_accumulation=BATCHES)
    batch = shape(BATCHES * ROWS, WIDTH)
    pipe.report([shape(LAYERS, WIDTH, WIDTH)] * STAGES, batch, batch, path=folder / "pipeline.html")
    weights = shape(STAGES, LAYERS, WIDTH, WIDTH, sharding=NamedSharding(MESH, P("stage")))
    inputs = shape(BATCHES, ROWS, WIDTH, sharding=NamedSharding(MESH, P()))
    jax_ipu.report(equal_stages, weights, inputs, target="ipu2", path=folder / "stages.html")


if __name__ == "__main__":
    reports(Path(sys.argv[1]))
