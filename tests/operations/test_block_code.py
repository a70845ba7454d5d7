"""Chains of choices and comparisons over many elements, which the host runs as machine code for a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

SIZE = 200_000
INF, NAN = np.float32(np.inf), np.float32(np.nan)
SPECIAL = np.array([0.0, -0.0, 1, -1, INF, -INF, NAN, 3e38, -3e38, 1e-30, 2.5, -2.5], np.float32)
DENORMALS = np.array([0.0, -0.0, 1e-40, -1e-40, 2e-40, -3e-40, 1, -1, 2e-38, NAN], np.float32)
EDGES = np.array([0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31)], np.int32)


def every_pair(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns two arrays of many elements in which every pair of values meets."""
    index = np.arange(SIZE)
    return values[index % len(values)], values[index // len(values) % len(values)]


def chain(x: Any, y: Any) -> Any:
    return jnp.where(x > 1, x - y, jnp.where(x > 0, y + 1, jnp.where(jnp.isnan(x) | (y < 0), -y, jnp.abs(x))))


def choice(x: Any, y: Any) -> Any:
    return jnp.select([x < -1, x < y, x != x], [x, y, jnp.maximum(x, 0)], 0.0), x.sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], np.ndarray[Any, Any]]] = {
    "hypot": (jnp.hypot, SPECIAL),
    "chain": (chain, SPECIAL),
    "select": (choice, SPECIAL[:4]),
    "order of predicates": (lambda x, y: jnp.stack([(x < p) > (y < p) for p in (0, 1, 2)]).argmax(0), SPECIAL),
    "choices of denormals": (
        lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -y, y), jnp.sign(x - 0 * y)),
        DENORMALS,
    ),
    "floor modulo": (jnp.mod, SPECIAL),
    "floor modulo of integers": (jnp.mod, EDGES),
    "floor division of integers": (jnp.floor_divide, EDGES),
    "bits": (lambda x, y: (x ^ (y << 3)) & ~(x | 5) | (jnp.maximum(x, y) >> 2), EDGES),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_equal_those_of_the_cpu(name: str) -> None:
    function, values = PROGRAMS[name]
    arguments = every_pair(values)
    ours, expected = (jax.jit(function, backend=platform) for platform in ("ipu", "cpu"))
    reference = jax.tree.leaves(expected(*arguments))
    for _ in range(3):  # code is made once there has been enough work
        for a, b in zip(jax.tree.leaves(ours(*arguments)), reference, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=3e-7)
            number = np.asarray(b == b)
            np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number])
