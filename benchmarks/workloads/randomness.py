"""Random numbers of JAX's threefry generator, and what is made of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .program import MakeProgram, array, key, program


def _dropout(key: Any, x: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.75, x.shape), x / 0.75, 0)


def monte_carlo(key: Any, paths: int, steps: int) -> Any:
    """Price of an Asian option from paths of geometric Brownian motion."""
    volatility, rate, dt = 0.2, 0.05, 1 / steps

    def step(carry: Any, key: Any) -> Any:
        price, total = carry
        noise = jax.random.normal(key, (paths,))
        price = price * jnp.exp((rate - volatility**2 / 2) * dt + volatility * dt**0.5 * noise)
        return (price, total + price), None

    start = (jnp.full(paths, 100.0), jnp.zeros(paths))
    (_, total), _ = jax.lax.scan(step, start, jax.random.split(key, steps))
    return jnp.mean(jnp.maximum(total / steps - 100, 0)) * jnp.exp(-rate)


PROGRAMS: dict[str, MakeProgram] = {
    "threefry normal 1024x1024": program(lambda k: jax.random.normal(k, (1024, 1024)), key()),
    "threefry normal 1048576": program(lambda k: jax.random.normal(k, (1_048_576,)), key()),
    "threefry uniform 1M": program(lambda k: jax.random.uniform(k, (1024, 1024)), key()),
    "bernoulli 1M": program(lambda k: jax.random.bernoulli(k, 0.3, (1_048_576,)), key()),
    "dropout 1024x1024": program(_dropout, key(), array(1024, 1024)),
    "Monte Carlo 262144 x 4": program(lambda k: monte_carlo(k, 1 << 18, 4), key()),
    "categorical 256x1000": program(jax.random.categorical, key(), array(256, 1000)),
}
