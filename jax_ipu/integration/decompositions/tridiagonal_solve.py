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

    def eliminate(row: Any, following: Any) -> tuple[Any, Any]:
        """Eliminates the first entry of `following` with `row`, which is reduced.

        A row has three numbers from the diagonal on, and the right side; `following` begins before its diagonal.
        """
        swap = jnp.abs(following[0]) > jnp.abs(row[0])
        upper, other = jnp.where(swap, following, row), jnp.where(swap, row, following)
        factor = jnp.where(upper[0] == 0, 0, other[0] / jnp.where(upper[0] == 0, 1, upper[0]))
        reduced = other - factor * upper
        return jnp.concatenate([reduced[1:3], jnp.zeros(1, b.dtype), reduced[3:]]), upper

    # Whole rows: a step takes as long for one number as for a row.
    du = du.at[-1].set(0)
    rows = jnp.concatenate([jnp.stack([dl, d, du], 1), b], 1)
    first = jnp.concatenate([rows[0, 1:3], jnp.zeros(1, b.dtype), b[0]])
    last, rows = lax.scan(eliminate, first, rows[1:])
    rows = jnp.concatenate([rows, last[None]])
    pivots = rows[:, 0]
    if perturb_singular:
        size = jnp.max(jnp.abs(rows[:, :3]))
        least = float(np.finfo(b.real.dtype).eps) * jnp.where(size == 0, 1, size)
        pivots = jnp.where(jnp.abs(pivots) < least, jnp.where(pivots.real < 0, -least, least), pivots)
        rows = rows.at[:, 0].set(pivots)

    def substitute(known: Any, row: Any) -> tuple[Any, Any]:
        after, beyond = known
        x = (row[3:] - row[1] * after - row[2] * beyond) / row[0]
        return (x, after), x

    start = (jnp.zeros_like(b[0]), jnp.zeros_like(b[0]))
    _, x = lax.scan(substitute, start, rows, reverse=True)
    return jnp.where(jnp.any(pivots == 0), jnp.nan, x)
