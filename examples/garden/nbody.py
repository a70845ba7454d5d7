"""Bodies that attract each other, on 1 to 16 IPUs: every IPU has a part of them, and the parts go around the ring.

    python examples/garden/nbody.py [--batch BODIES] [--steps N] [--ipus N] [--small] [--estimate]

For a moment, each IPU adds the forces between its own bodies and those that are with it, then gives the latter to its
neighbour (ppermute), until it has seen all. A step is 10 moments of the leapfrog method; the result is the energy,
which stays about the same.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

import garden
from garden import AXIS, Job, Options

SOFTENING, TIME = 0.05, 0.01


def pull(own: Array, others: Array, masses: Array) -> tuple[Array, Array]:
    """Returns the accelerations [bodies, 3] of bodies at `own` by `others`, and their potentials [bodies]."""
    between = others[None] - own[:, None]
    inverse = jax.lax.rsqrt(jnp.sum(between**2, -1) + SOFTENING**2)
    return jnp.einsum("ij,ijk->ik", masses * inverse**3, between), -inverse @ masses


def pulls(places: Array, masses: Array, ipus: int) -> tuple[Array, Array]:
    """The same by all bodies of all IPUs."""
    ring = [(i, (i + 1) % ipus) for i in range(ipus)]
    found = pull(places, places, masses)
    with_us = places, masses
    for _ in range(ipus - 1):
        with_us = jax.tree.map(lambda a: jax.lax.ppermute(a, AXIS, ring), with_us)
        found = jax.tree.map(jnp.add, found, pull(places, *with_us))
    return found


def bodies(options: Options) -> Job:
    """Some moments; the result is the energy of all bodies."""
    moments = 2 if options.small else 10

    def part(state: tuple[Array, Array, Array]) -> tuple[Any, Array]:
        places, speeds, masses = state

        def one(_: Any, moving: Any) -> Any:
            places, speeds, (forces, _) = moving
            speeds = speeds + TIME / 2 * forces
            places = places + TIME * speeds
            found = pulls(places, masses, options.ipus)
            return places, speeds + TIME / 2 * found[0], found

        start = places, speeds, pulls(places, masses, options.ipus)
        places, speeds, (_, potentials) = jax.lax.fori_loop(0, moments, one, start)
        energy = jnp.sum(masses * (0.5 * jnp.sum(speeds**2, -1) + 0.5 * potentials))
        return (places, speeds, masses), jax.lax.psum(energy, AXIS)

    step = jax.shard_map(part, mesh=options.mesh, in_specs=(P(AXIS),), out_specs=(P(AXIS), P()))

    def state() -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(0)
        places = rng.standard_normal((options.batch, 3)).astype(np.float32)
        speeds = 0.3 * np.cross(places, [0, 0, 1]).astype(np.float32)
        masses = np.full(options.batch, 1 / options.batch, np.float32)
        return jnp.asarray(places), jnp.asarray(speeds), jnp.asarray(masses)

    return Job(lambda state, _: step(state), state, lambda number: None, options.batch, lambda leaf: P(AXIS))


PROGRAM = garden.Program("N-body", {"leapfrog": bodies}, "bodies", 4096, 16)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
