"""Calls that compute next to nothing, so that their time is that of the dispatch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .program import MakeProgram, Program, array, program, weights


def _scale_tree(tree: Any) -> Any:
    return jax.tree.map(lambda x: x * 2, tree)


def _small_network(params: list[Any], x: Any) -> Any:
    for matrix in params:
        x = jnp.tanh(x @ matrix)
    return x


def _count(state: Any, x: Any) -> tuple[Any, Any]:
    return state + 1, x * 2


def _sgd(params: list[Any], x: Any) -> tuple[list[Any], Any]:
    value, gradient = jax.value_and_grad(lambda p: jnp.mean(_small_network(p, x) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value


PROGRAMS: dict[str, MakeProgram] = {
    "tiny dispatch": program(lambda x: x * 2 + 1, array(4)),
    "dispatch, from the host": lambda: Program(lambda x: x * 2 + 1, (array(4),), from_host=True),
    "dispatch, 20 arrays": program(_scale_tree, {f"array {i}": array(4) for i in range(20)}),
    "dispatch, donated state": lambda: Program(_count, (np.float32(0), array(4)), state=True),
    "dispatch, 1024 elements": program(lambda x: jnp.tanh(x) * 0.5, array(1024)),
    "dispatch, sum of 1024": program(lambda x: x.sum(), array(1024)),
    "dispatch, MLP 3x32, batch 1": program(_small_network, [weights(32, 32)] * 3, array(1, 32)),
    "dispatch, training MLP 3x16": lambda: Program(_sgd, ([weights(16, 16)] * 3, array(4, 16)), state=True),
}
