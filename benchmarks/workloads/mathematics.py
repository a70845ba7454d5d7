"""Linear algebra, statistics and loops of numerical programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import MakeProgram, array, indices, program


def _positive_definite(size: int) -> Any:
    x = array(size, size)
    return x @ x.T / size + np.eye(size, dtype=np.float32)


def _conjugate_gradient(a: Any, b: Any) -> Any:
    """50 iterations for a x = b."""

    def step(_: Any, state: Any) -> Any:
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap + 1e-20)
        r = r - alpha * ap
        new = r @ r
        return x + alpha * p, r, r + new / (rr + 1e-20) * p, new

    return lax.fori_loop(0, 50, step, (jnp.zeros_like(b), b, b, b @ b))[0]


def _kalman(measured: Any) -> Any:
    """A Kalman filter of position and velocity: a scan of products of 2x2."""
    move = jnp.array([[1.0, 0.1], [0.0, 1.0]])

    def step(state: Any, z: Any) -> Any:
        x, p = state
        x, p = move @ x, move @ p @ move.T + 0.01 * jnp.eye(2)
        gain = p[:, 0] / (p[0, 0] + 0.1)
        x = x + gain * (z - x[0])
        return (x, p - jnp.outer(gain, p[0])), x

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measured)[1]


def _k_means(points: Any, centres: Any) -> Any:
    """One iteration: the nearest centre of each point, and the means."""
    distance = jnp.sum(points**2, 1)[:, None] - 2 * points @ centres.T + jnp.sum(centres**2, 1)
    nearest = jnp.argmin(distance, 1)
    sums = jax.ops.segment_sum(points, nearest, len(centres))
    counts = jax.ops.segment_sum(jnp.ones(len(points)), nearest, len(centres))
    return sums / jnp.maximum(counts, 1)[:, None]


def _mandelbrot(real: Any, imaginary: Any) -> Any:
    """How many of 30 iterations stay within the radius."""

    def step(_: Any, state: Any) -> Any:
        x, y, count = state
        inside = x * x + y * y < 4
        x, y = jnp.where(inside, x * x - y * y + real, x), jnp.where(inside, 2 * x * y + imaginary, y)
        return x, y, count + inside

    zeros = jnp.zeros_like(real)
    return lax.fori_loop(0, 30, step, (zeros, zeros, zeros.astype(jnp.int32)))[2]


def _logistic_gradient(w: Any, x: Any, y: Any) -> Any:
    return jax.grad(lambda w: jnp.mean(jax.nn.softplus(x @ w) - y * (x @ w)))(w)


def _spectrum(x: Any) -> Any:
    """The magnitudes of the eigenvalues in order, which no algorithm decides."""
    return jnp.sort(jnp.abs(jnp.linalg.eigvals(x)), -1)


def _schur(x: Any) -> Any:
    """What Schur forms have in common: the size of T, and Q T Q^T."""
    t, q = jax.vmap(jax.scipy.linalg.schur)(x)
    return jnp.linalg.norm(t, axis=(1, 2)), q @ t @ jnp.swapaxes(q, 1, 2)


_REAL, _IMAGINARY = np.meshgrid(np.linspace(-2, 1, 512, dtype=np.float32), np.linspace(-1, 1, 512, dtype=np.float32))

PROGRAMS: dict[str, MakeProgram] = {
    "conjugate gradient 512": program(_conjugate_gradient, _positive_definite(512), array(512), tolerance=1e-2),
    "cholesky 256": program(jnp.linalg.cholesky, _positive_definite(256)),
    "Kalman filter 1000 steps": program(_kalman, array(1000)),
    "k-means 50000x16": program(_k_means, array(50_000, 16), array(32, 16, seed=1)),
    "Mandelbrot 512x512": program(_mandelbrot, _REAL, _IMAGINARY),
    "logistic regression gradient": program(
        _logistic_gradient, array(256), array(20_000, 256), indices(20_000, 2).astype(np.float32)
    ),
    **{
        f"eigvals of {count} matrices {size}x{size}": program(_spectrum, array(count, size, size), tolerance=1e-2)
        for count, size in ((1000, 3), (1000, 8), (1, 8))
    },
    "Schur form of 1000 matrices 4x4": program(_schur, array(1000, 4, 4), tolerance=1e-2),
    "histogram 1M": program(lambda x: jnp.bincount(x, length=256), indices(1 << 20, 256)),
}
