"""Trains a small convolutional network with dropout on handwritten digits on the IPU.

    python examples/mnist/mnist_cnn.py [--data-dir DIR] [--download] [--epochs N]

The network is the Keras CNN of Graphcore's workshop: conv 32 (same), conv 32 (valid), max-pool, dropout 0.25,
conv 64 (same), conv 32 (valid), max-pool, dropout 0.25, dense 512, dropout 0.5, dense 10; SGD at 0.016.
The dropout masks come from JAX's threefry generator and are the same as on the CPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import datasets
import training

LEARNING_RATE = 0.016
CONVOLUTIONS = ((32, "SAME"), (32, "VALID"), (64, "SAME"), (32, "VALID"))

Params = list[tuple[jax.Array, jax.Array]]


def init(key: jax.Array, image_shape: tuple[int, int, int]) -> Params:
    """Returns Glorot-uniform kernels [3, 3, in, out] and matrices, and zero biases."""
    height, width, channels = image_shape
    shapes: list[tuple[int, ...]] = []
    for index, (features, padding) in enumerate(CONVOLUTIONS):
        shapes.append((3, 3, channels, features))
        channels = features
        if padding == "VALID":
            height, width = height - 2, width - 2
        if index % 2 == 1:
            height, width = height // 2, width // 2
    shapes += [(height * width * channels, 512), (512, 10)]
    params = []
    for shape, k in zip(shapes, jax.random.split(key, len(shapes)), strict=True):
        params.append((jax.nn.initializers.glorot_uniform()(k, shape), jnp.zeros(shape[-1])))
    return params


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Zeroes a share of the elements and scales the rest; the identity without a key."""
    if key is None:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


def max_pool(x: jax.Array) -> jax.Array:
    """2x2 max pooling of [batch, height, width, channels]."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def log_probabilities(params: Params, images: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """Returns the log-softmax [batch, 10]; with a key, dropout is active."""
    keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
    x = images
    for index, ((_, padding), (w, b)) in enumerate(zip(CONVOLUTIONS, params, strict=False)):
        x = lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + b)
        if index % 2 == 1:
            x = dropout(max_pool(x), 0.25, keys[index // 2])
    x = x.reshape(x.shape[0], -1)
    (w1, b1), (w2, b2) = params[-2:]
    x = dropout(jax.nn.relu(x @ w1 + b1), 0.5, keys[2])
    return jax.nn.log_softmax(x @ w2 + b2)


def loss(params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy against one-hot labels, with dropout."""
    images, labels = batch
    return -jnp.mean(jnp.sum(log_probabilities(params, images, key) * labels, axis=1))


def update_step(seed: int, step: Any, params: Params, batch: tuple[jax.Array, jax.Array]) -> tuple[Params, jax.Array]:
    """Applies one step of SGD; the dropout key follows from the seed and the step number."""
    key = jax.random.fold_in(jax.random.PRNGKey(seed), step)
    value, gradient = jax.value_and_grad(loss)(params, batch, key)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradient), value


def main() -> float:
    """Trains with the options of the command line; returns the test accuracy."""
    arguments = training.parse_arguments("Train a CNN on handwritten digits", epochs=20, batch_size=32)
    data = datasets.load(arguments.data_dir, arguments.download)
    image_shape = data.train_images.shape[1:]
    params = jax.jit(partial(init, image_shape=image_shape), backend="cpu")(jax.random.PRNGKey(arguments.seed))
    update = partial(jax.jit, backend=arguments.backend, donate_argnums=1)(partial(update_step, arguments.seed))
    predict = jax.jit(
        lambda params, images: log_probabilities(params, images).argmax(axis=1), backend=arguments.backend
    )
    return training.train(arguments, data, params, update, predict, params_of=lambda params: params)


if __name__ == "__main__":
    main()
