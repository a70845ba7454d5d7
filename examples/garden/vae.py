"""A variational auto-encoder of handwritten digits.

    python examples/garden/vae.py [--batch N] [--steps N] [--ipus N] [--small] [--estimate]

Encoder and decoder have a hidden layer each; the noise comes from JAX's threefry generator, so the losses are those of
the CPU. The images are scikit-learn's 1,797 digits of 8 x 8 pixels, enlarged to 28 x 28.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options


@functools.cache
def digits(side: int) -> np.ndarray:
    """Returns float32[1797, side * side] between 0 and 1."""
    from sklearn.datasets import load_digits

    images = load_digits().images.astype(np.float32) / 16
    places = np.arange(side) * images.shape[1] // side
    return images[:, places[:, None], places].reshape(len(images), -1)


def init(pixels: int, hidden: int, latent: int) -> Any:
    """Returns random weights."""
    sizes = {"in": (pixels, hidden), "code": (hidden, 2 * latent), "up": (latent, hidden), "out": (hidden, pixels)}
    rng = np.random.default_rng(0)
    return {name: layers.dense_init(rng, *size, np.float32) for name, size in sizes.items()}


def loss(params: Any, batch: tuple[Array, Array]) -> Array:
    """Returns the mean bound of the log-likelihood of images [batch, pixels], negated, in nats an image."""
    images, noise = batch
    hidden = jax.nn.relu(layers.dense(params["in"], images))
    mean, log_variance = jnp.split(layers.dense(params["code"], hidden), 2, axis=-1)
    code = mean + jnp.exp(log_variance / 2) * noise
    out = layers.dense(params["out"], jax.nn.relu(layers.dense(params["up"], code)))
    likelihood = -optax.sigmoid_binary_cross_entropy(out, images).sum(-1)
    divergence = 0.5 * (jnp.exp(log_variance) + mean**2 - 1 - log_variance).sum(-1)
    return jnp.mean(divergence - likelihood)


def training(options: Options) -> Job:
    """A training step with Adam."""
    side, hidden, latent = (8, 32, 4) if options.small else (28, 512, 20)
    optimizer = optax.adam(1e-3)
    learn = layers.training_step(loss, optimizer)

    def state() -> Any:
        params = init(side * side, hidden, latent)
        return (params, layers.moments(optimizer, params)), jax.random.key(1)

    def step(state: Any, images: Array) -> tuple[Any, Array]:
        learnt, key = state
        key, own = jax.random.split(key)
        noise = jax.random.normal(own, (images.shape[0], latent))
        learnt, value = learn(learnt, (images, noise))
        return (learnt, key), value

    def batch(number: int) -> np.ndarray:
        images = digits(side)
        return images[np.random.default_rng(number).integers(0, len(images), options.batch)]

    return Job(step, state, batch, options.batch)


PROGRAM = garden.Program("variational auto-encoder", {"training": training}, "images", 128, 8, packages=("sklearn",))

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
