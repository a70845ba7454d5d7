"""Trains a 784-1024-1024-10 network on handwritten digits, with weights and momentum kept in the IPU's SRAM.

    python examples/mnist/mnist_classifier.py [--data-dir DIR] [--download] [--epochs N]

Initialisation runs on the CPU, the update on the IPU. ``donate_argnums`` keeps the optimiser state on the device: per
step only the batch crosses the host link.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import datasets
import training

SIZES = (784, 1024, 1024, 10)
STEP_SIZE = 0.01
MOMENTUM = 0.9

Params = list[tuple[jax.Array, jax.Array]]
State = tuple[Params, Params]


def init(key: jax.Array) -> State:
    """Returns parameters (He initialisation) and zero momentum."""
    params = []
    for n_in, n_out, k in zip(SIZES[:-1], SIZES[1:], jax.random.split(key, len(SIZES) - 1), strict=True):
        params.append((jax.random.normal(k, (n_in, n_out)) * (2 / n_in) ** 0.5, jnp.zeros(n_out)))
    return params, jax.tree.map(jnp.zeros_like, params)


def log_probabilities(params: Params, images: jax.Array) -> jax.Array:
    """Returns the log-softmax [batch, 10] of images [batch, 28, 28, 1]."""
    x = images.reshape(images.shape[0], -1)
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return jax.nn.log_softmax(x @ w + b)


def loss(params: Params, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Returns the mean cross-entropy against one-hot labels."""
    images, labels = batch
    return -jnp.mean(jnp.sum(log_probabilities(params, images) * labels, axis=1))


def update_step(step: Any, state: State, batch: tuple[jax.Array, jax.Array]) -> tuple[State, jax.Array]:
    """Applies one step of SGD with momentum."""
    del step
    params, momentum = state
    value, gradient = jax.value_and_grad(loss)(params, batch)
    momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g, momentum, gradient)
    params = jax.tree.map(lambda p, m: p - STEP_SIZE * m, params, momentum)
    return (params, momentum), value


def main() -> float:
    """Trains with the options of the command line; returns the test accuracy."""
    arguments = training.parse_arguments("Train an MLP on handwritten digits", epochs=12, batch_size=128)
    data = datasets.load(arguments.data_dir, arguments.download)
    state = jax.jit(init, backend="cpu")(jax.random.PRNGKey(arguments.seed))
    update = partial(jax.jit, backend=arguments.backend, donate_argnums=1)(update_step)
    predict = jax.jit(
        lambda params, images: log_probabilities(params, images).argmax(axis=1), backend=arguments.backend
    )
    return training.train(arguments, data, state, update, predict, params_of=lambda state: state[0])


if __name__ == "__main__":
    main()
