"""Long short-term memory: layers over whole sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Layer(NamedTuple):
    """Weights of the inputs [features, 4 hidden] and of the hidden state [hidden, 4 hidden], and the bias."""

    weights: Any
    recurrent: Any
    bias: Any


def init_layer(seed: int, features: int, hidden: int) -> Layer:
    """Returns random weights as NumPy arrays."""
    rng = np.random.default_rng(seed)
    return Layer(
        rng.standard_normal((features, 4 * hidden), np.float32) / np.float32(features**0.5),
        rng.standard_normal((hidden, 4 * hidden), np.float32) / np.float32(hidden**0.5),
        np.zeros(4 * hidden, np.float32),
    )


def layer(params: Layer, inputs: Any) -> Any:
    """Returns hidden states [time, batch, hidden] of inputs [time, batch, features]; a step's gates are one product."""

    def step(carry: Any, x: Any) -> Any:
        hidden, cell = carry
        i, f, g, o = jnp.split(x @ params.weights + hidden @ params.recurrent + params.bias, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros((inputs.shape[1], params.recurrent.shape[0]))
    return lax.scan(step, (zeros, zeros), inputs)[1]
