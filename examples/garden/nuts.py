"""Markov chains: the posterior of a logistic regression, sampled by NUTS (blackjax) with several chains at once.

    python examples/garden/nuts.py [--batch CHAINS] [--steps N] [--ipus N] [--small] [--estimate]

A step is one sample of every chain. How far a chain goes is decided on the IPU, in a loop whose trip count depends on
the values: an estimate counts such a loop as one trip, a run counts what it did. The data are made, with known
coefficients.
Needs blackjax: pip install 'jax_ipu[garden]'.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

import garden
from garden import Job, Options

STEP_SIZE, DOUBLINGS = 0.1, 6


def data(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32[rows, features] and labels of 0 or 1."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    chance = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, features)))
    return x, (rng.random(rows) < chance).astype(np.float32)


def sampling(options: Options) -> Job:
    """A sample of each chain: the result is the mean log-density and the coefficients of all chains."""
    import blackjax

    rows, features = (32, 3) if options.small else (1024, 16)
    doublings = 3 if options.small else DOUBLINGS
    x, y = data(rows, features)

    def log_density(coefficients: Array) -> Array:
        scores = jnp.asarray(x) @ coefficients
        likelihood = jnp.sum(jnp.asarray(y) * scores - jax.nn.softplus(scores))
        return likelihood - 0.5 * jnp.sum(coefficients**2)

    kernel = blackjax.nuts(log_density, STEP_SIZE, jnp.ones(features), max_num_doublings=doublings)

    def state() -> Any:
        places = 0.1 * jax.random.normal(jax.random.key(1), (options.batch, features))
        return jax.vmap(kernel.init)(places), jax.random.split(jax.random.key(2), options.batch)

    def step(state: Any, _: None) -> tuple[Any, Any]:
        chains, keys = state
        keys, own = jax.vmap(jax.random.split, out_axes=1)(keys)
        chains, _ = jax.vmap(kernel.step)(own, chains)
        return (chains, keys), (chains.logdensity.mean(), chains.position)

    return Job(step, state, lambda number: None, options.batch, lambda leaf: P(garden.AXIS))


PROGRAM = garden.Program("NUTS", {"sampling": sampling}, "samples", 16, 2, packages=("blackjax",))

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
