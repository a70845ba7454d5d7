"""A graph neural network on small molecules: messages along bonds, sums over atoms, a number for each molecule.

    python examples/garden/gnn.py [--batch N] [--ipus N] [--small] [--estimate]

Every molecule has room for the same number of atoms and bonds, so that shapes never change, and the rows of a batch are
molecules, so that they can be split over IPUs. The molecules are random trees with a few rings; what is learnt is a
function of their atoms and bonds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options


class Config(NamedTuple):
    """Sizes of the network, and the room for a molecule."""

    width: int = 128
    layers: int = 4
    atoms: int = 24
    bonds: int = 56  # in both directions
    elements: int = 9


SMALL = Config(16, 2, 8, 20)


class Molecules(NamedTuple):
    """A batch; the rows of each array are molecules."""

    elements: Any  # int32[molecules, atoms], -1 where there is none
    senders: Any  # int32[molecules, bonds]: atoms of the molecule
    receivers: Any
    bonds: Any  # float32[molecules, bonds, 4]: the kind of a bond; zeros where there is none
    energies: Any  # float32[molecules]


def init(config: Config) -> Any:
    """Returns random weights."""
    rng, width = np.random.default_rng(0), config.width

    def perceptron(n_in: int) -> Any:
        sizes = ((n_in, width), (width, width))
        return [layers.dense_init(rng, *size, np.float32) for size in sizes]

    return {
        "elements": rng.standard_normal((config.elements, width), np.float32),
        "layers": [
            {
                "message": perceptron(2 * width + 4),
                "update": perceptron(2 * width),
                "norm": layers.norm_init(width, np.float32),
            }
            for _ in range(config.layers)
        ],
        "head": [
            layers.dense_init(rng, width, width, np.float32),
            layers.dense_init(rng, width, 1, np.float32),
        ],
    }


def energies(params: Any, batch: Molecules) -> Array:
    """Returns float32[molecules]."""
    atoms = batch.elements.shape[1]
    real = (batch.elements >= 0)[..., None]
    there = batch.bonds.sum(-1, keepdims=True)
    x = jnp.where(real, params["elements"][jnp.maximum(batch.elements, 0)], 0)
    for layer in params["layers"]:
        ends = [jax.vmap(lambda x, which: x[which])(x, which) for which in (batch.senders, batch.receivers)]
        messages = there * _perceptron(layer["message"], jnp.concatenate([*ends, batch.bonds], axis=-1))
        received = jax.vmap(lambda m, which: jax.ops.segment_sum(m, which, atoms))(messages, batch.receivers)
        change = _perceptron(layer["update"], jnp.concatenate([x, received], axis=-1))
        x = x + real * layers.layer_norm(layer["norm"], change)
    return _perceptron(params["head"], x.sum(1))[:, 0]


def _perceptron(weights: Any, x: Array) -> Array:
    hidden, out = weights
    return layers.dense(out, jax.nn.silu(layers.dense(hidden, x)))


def molecules(seed: int, number: int, config: Config) -> Molecules:
    """Returns random molecules."""
    rng = np.random.default_rng(seed)
    elements = np.full((number, config.atoms), -1, np.int32)
    senders = np.zeros((number, config.bonds), np.int32)
    receivers, bonds = senders.copy(), np.zeros((number, config.bonds, 4), np.float32)
    for molecule in range(number):
        atoms = int(rng.integers(config.atoms // 2, config.atoms + 1))
        elements[molecule, :atoms] = rng.integers(0, config.elements, atoms)
        pairs = [(atom, int(rng.integers(max(0, atom - 3), atom))) for atom in range(1, atoms)]
        pairs += [(atom, atom - 5) for atom in range(5, atoms, 6)]
        for place, (a, b) in enumerate(pairs[: config.bonds // 2]):
            kind = rng.integers(0, 4)
            for at, (sender, receiver) in enumerate(((a, b), (b, a))):
                senders[molecule, 2 * place + at], receivers[molecule, 2 * place + at] = sender, receiver
                bonds[molecule, 2 * place + at, kind] = 1
    wanted = (
        0.1 * np.where(elements >= 0, elements - 4, 0).sum(1)
        + bonds @ np.array([0.1, 0.2, 0.3, -0.4]) @ np.ones(config.bonds) / 10
    )
    return Molecules(elements, senders, receivers, bonds, wanted.astype(np.float32))


def training(options: Options) -> Job:
    """A training step with Adam."""
    config = SMALL if options.small else Config()
    optimizer = optax.adam(1e-3)

    def loss(params: Any, batch: Molecules) -> Array:
        return jnp.mean((energies(params, batch) - batch.energies) ** 2)

    def state() -> Any:
        params = init(config)
        return params, layers.moments(optimizer, params)

    step = layers.training_step(loss, optimizer)
    return Job(step, state, lambda number: molecules(number, options.batch, config), options.batch)


PROGRAM = garden.Program("message passing network", {"training": training}, "molecules", 64, 4)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
