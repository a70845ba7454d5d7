"""Tridiagonal systems by Gaussian elimination with partial pivots, as LAPACK's gtsv."""

from __future__ import annotations

from typing import Any

import numpy as np


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    """x (..., n, k) with A x = b; the diagonals are (..., n), and dl[0] and du[n - 1] are not read.

    NaN where A is singular, unless `perturb_singular`: pivots below eps * max |U| are then replaced by this bound, as
    JAX's documentation of the function says.
    """
    import jax

    solve = _solve
    for _ in range(d.ndim - 1):
        solve = jax.vmap(solve, in_axes=(0, 0, 0, 0, None))
    return solve(dl, d, du, b, perturb_singular)


def _solve(dl: Any, d: Any, du: Any, b: Any, perturb_singular: bool) -> Any:
    import jax.numpy as jnp
    from jax import lax

    zero = jnp.zeros((), b.dtype)
    du = du.at[-1].set(0)

    def eliminate(row: Any, following: Any) -> tuple[Any, Any]:
        """Eliminates the first entry of `following` with `row` (diagonal, next, right side), which is reduced."""
        diagonal, right, value = row
        low, next_diagonal, next_right, next_value = following
        swap = jnp.abs(low) > jnp.abs(diagonal)
        pivot, other = jnp.where(swap, low, diagonal), jnp.where(swap, diagonal, low)
        factor = jnp.where(pivot == 0, 0, other / jnp.where(pivot == 0, 1, pivot))
        upper = (pivot, jnp.where(swap, next_diagonal, right), jnp.where(swap, next_right, zero))
        mine, its = jnp.where(swap, next_value, value), jnp.where(swap, value, next_value)
        kept_diagonal, kept_right = jnp.where(swap, right, next_diagonal), jnp.where(swap, zero, next_right)
        reduced = (kept_diagonal - factor * upper[1], kept_right - factor * upper[2], its - factor * mine)
        return reduced, (*upper, mine)

    last, rows = lax.scan(eliminate, (d[0], du[0], b[0]), (dl[1:], d[1:], du[1:], b[1:]))
    pivots, first, second, values = (
        jnp.concatenate([part, end[None]]) for part, end in zip(rows, (last[0], last[1], zero, last[2]), strict=True)
    )
    if perturb_singular:
        size = jnp.max(jnp.abs(jnp.stack([pivots, first, second])))
        least = float(np.finfo(b.real.dtype).eps) * jnp.where(size == 0, 1, size)
        pivots = jnp.where(jnp.abs(pivots) < least, jnp.where(pivots.real < 0, -least, least), pivots)

    def substitute(known: Any, row: Any) -> tuple[Any, Any]:
        after, beyond = known
        pivot, first, second, value = row
        x = (value - first * after - second * beyond) / pivot
        return (x, after), x

    start = (jnp.zeros_like(b[0]), jnp.zeros_like(b[0]))
    _, x = lax.scan(substitute, start, (pivots, first, second, values), reverse=True)
    return jnp.where(jnp.any(pivots == 0), jnp.nan, x)
