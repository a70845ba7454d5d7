"""The optimiser Adam (Kingma and Ba 2015, algorithm 1) over a pytree of parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    """Parameters, the moving averages of the gradient and of its square, and the number of steps so far."""

    params: Any
    first: Any
    second: Any
    count: Any


def init(params: Any) -> State:
    """Returns the state before the first step, as NumPy arrays."""
    return State(params, jax.tree.map(np.zeros_like, params), jax.tree.map(np.zeros_like, params), np.int32(0))


def update(state: State, gradient: Any, rate: float = 1e-3, b1: float = 0.9, b2: float = 0.999) -> State:
    """Returns the state after one step."""
    count = state.count + 1
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, gradient)
    second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.second, gradient)
    bias1, bias2 = 1 - b1**count, 1 - b2**count
    params = jax.tree.map(
        lambda p, m, v: p - rate * (m / bias1) / (jnp.sqrt(v / bias2) + 1e-8), state.params, first, second
    )
    return State(params, first, second, count)
