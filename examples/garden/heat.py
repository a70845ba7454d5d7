"""The heat equation on a square, in strips on 1 to 16 IPUs: a loop of stencils, and the edges by ppermute.

    python examples/garden/heat.py [--batch ROWS] [--ipus N] [--small] [--estimate]

Each IPU has a strip of rows. Before every moment it gets the last row of the strip above and the first one of the
strip below over the IPU-Links; where there is none, the temperature stays zero. A step is 1,000 moments; "3d" is a
cube with a seven-point stencil.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import PartitionSpec as P

import garden
from garden import AXIS, Job, Options

RATE = 0.1


def moment(strip: Array, ipus: int) -> Array:
    """Returns float32[rows, ...] one moment later; outside of the whole is zero."""
    edge = jnp.zeros_like(strip[:1])
    above = below = edge
    if ipus > 1:
        up = [(i, i + 1) for i in range(ipus - 1)]
        above = jax.lax.ppermute(strip[-1:], AXIS, up)
        below = jax.lax.ppermute(strip[:1], AXIS, [(b, a) for a, b in up])
    padded = jnp.pad(jnp.concatenate([above, strip, below]), [(0, 0), *[(1, 1)] * (strip.ndim - 1)])
    inner = tuple(slice(1, -1) for _ in range(strip.ndim))
    around = jnp.zeros_like(strip)
    for axis in range(strip.ndim):
        for side in (slice(0, -2), slice(2, None)):
            around += padded[(*inner[:axis], side, *inner[axis + 1 :])]
    return strip + RATE * (around - 2 * strip.ndim * strip)


def heat(options: Options, dimensions: int) -> Job:
    """Many moments; the result is the mean temperature."""
    side = 16 if options.small else {2: 8000, 3: 360}[dimensions]
    moments = 3 if options.small else 1000
    shape = (options.batch, *[side] * (dimensions - 1))

    def strips(strip: Array) -> tuple[Array, Array]:
        strip = jax.lax.fori_loop(0, moments, lambda _, x: moment(x, options.ipus), strip)
        return strip, jax.lax.pmean(strip.mean(), AXIS)

    step = jax.shard_map(strips, mesh=options.mesh, in_specs=P(AXIS), out_specs=(P(AXIS), P()))

    def state() -> Array:
        places = [jnp.linspace(-1, 1, n) ** 2 for n in shape]
        return jnp.exp(-8 * sum(jnp.ix_(*places))).astype(jnp.float32)

    return Job(lambda state, _: step(state), state, lambda number: None, options.batch, lambda leaf: P(AXIS))


PROGRAM = garden.Program(
    "heat equation", {"2d": partial(heat, dimensions=2), "3d": partial(heat, dimensions=3)}, "rows", 8000, 16
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
