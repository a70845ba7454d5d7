"""LSTM and GRU as plain loops, jax.lax.scan over the steps of a sequence: they learn to continue sums of waves.

    python examples/garden/recurrent.py [--task LSTM|GRU|...] [--batch N] [--ipus N] [--estimate]

A cell is a function, and `scan` makes a loop on the IPU of it, forward and backward; nothing else is needed. The
product of the inputs with their weights does not depend on the state, so it is made of all steps at once, before the
loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options

# (weights, state, what the inputs contribute [batch, gates x width]) -> state
Cell = Callable[[Any, Any, Array], Any]
WAVES = 16


def lstm(weights: Any, state: tuple[Array, Array], x: Array) -> tuple[Array, Array]:
    """Returns the new output and the new memory, each [batch, width]."""
    out, memory = state
    keep, write, read, value = jnp.split(x + out @ weights["hidden"], 4, axis=-1)
    memory = jax.nn.sigmoid(keep + 1) * memory + jax.nn.sigmoid(write) * jnp.tanh(value)
    return jax.nn.sigmoid(read) * jnp.tanh(memory), memory


def gru(weights: Any, state: tuple[Array], x: Array) -> tuple[Array]:
    """Returns the new output [batch, width]."""
    (out,) = state
    from_input, from_state = jnp.split(x, 3, axis=-1), jnp.split(out @ weights["hidden"], 3, axis=-1)
    reset, update = (jax.nn.sigmoid(a + b) for a, b in zip(from_input[:2], from_state[:2], strict=True))
    value = jnp.tanh(from_input[2] + reset * from_state[2])
    return (update * out + (1 - update) * value,)


def outputs(params: Any, cell: Cell, memories: int, x: Array) -> Array:
    """Returns what follows each of [batch, length, WAVES], by one layer of cells."""
    width = params["hidden"].shape[0]
    state = (jnp.zeros((x.shape[0], width), x.dtype),) * memories

    def one(state: Any, contribution: Array) -> tuple[Any, Array]:
        state = cell(params, state, contribution)
        return state, state[0]

    _, found = jax.lax.scan(one, state, layers.dense(params["input"], x).swapaxes(0, 1))
    return layers.dense(params["head"], found).swapaxes(0, 1)


def init(gates: int, width: int, dtype: Any) -> Any:
    """Returns random weights."""
    rng = np.random.default_rng(0)
    hidden = np.linalg.qr(rng.standard_normal((gates * width, width), np.float32))[0].T
    return {
        "input": layers.dense_init(rng, WAVES, gates * width, dtype),
        "hidden": hidden.astype(dtype),
        "head": layers.dense_init(rng, width, WAVES, dtype),
    }


def waves(seed: int, batch: int, length: int) -> np.ndarray:
    """Returns random sums of sines, float32[batch, length, WAVES]."""
    rng = np.random.default_rng(seed)
    speed, phase = rng.uniform(0.05, 0.5, (batch, 1, WAVES, 3)), rng.uniform(0, 6, (batch, 1, WAVES, 3))
    return np.sin(np.arange(length)[:, None, None] * speed + phase).mean(-1).astype(np.float32)


def training(options: Options, cell: Cell, gates: int, memories: int) -> Job:
    """A training step with Adam."""
    width, length = (16, 6) if options.small else (256, 64)
    optimizer = optax.adam(1e-3)

    def loss(params: Any, x: Array) -> Array:
        return jnp.mean((outputs(params, cell, memories, x[:, :-1]) - x[:, 1:]) ** 2)

    def state() -> Any:
        params = init(gates, width, np.float32)
        return params, layers.moments(optimizer, params)

    step = layers.training_step(loss, optimizer)
    return Job(step, state, lambda number: waves(number, options.batch, length + 1), options.batch)


def inference(options: Options, cell: Cell, gates: int, memories: int) -> Job:
    """What follows each step of a batch of sequences."""
    width, length = (16, 6) if options.small else (256, 64)

    def step(params: Any, x: Array) -> tuple[Any, Array]:
        return params, outputs(params, cell, memories, x)

    state = partial(init, gates, width, np.float32)
    return Job(step, state, lambda number: waves(number, options.batch, length), options.batch)


_LSTM, _GRU = {"cell": lstm, "gates": 4, "memories": 2}, {"cell": gru, "gates": 3, "memories": 1}
PROGRAM = garden.Program(
    "LSTM and GRU",
    {
        "LSTM": partial(training, **_LSTM),
        "GRU": partial(training, **_GRU),
        "LSTM-inference": partial(inference, **_LSTM),
        "GRU-inference": partial(inference, **_GRU),
    },
    "sequences",
    64,
    4,
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
