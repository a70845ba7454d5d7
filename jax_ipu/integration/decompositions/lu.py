"""LU factorisation with partial pivots, as LAPACK's getrf."""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.decompositions.householder import dot
from jax_ipu.integration.decompositions.native import lu_panel

# Panel width: columns that are eliminated one at a time.
_PANEL = 32


def lu(a: Any) -> tuple[Any, Any, Any]:
    """(m, n) -> U above L without its diagonal of ones (m, n), pivots (min(m, n),), permutation (m,).

    Row k was swapped with row pivots[k], in order of k; row i of L U is row permutation[i] of `a`. float16 and bfloat16
    are factorised in float32 and rounded once.
    """
    import jax.numpy as jnp

    if a.dtype in (jnp.float16, jnp.bfloat16):
        factors, pivots, order = lu(a.astype(jnp.float32))
        return factors.astype(a.dtype), pivots, order
    m, n = a.shape
    count = min(m, n)
    if not count:
        return a, jnp.zeros((0,), jnp.int32), jnp.arange(m, dtype=jnp.int32)
    factors, pivots, order = _factored(a[:, :count])
    if n > count:
        factors = jnp.concatenate([factors, _solved(factors, _rows(a[:, count:], order))], 1)
    return factors, pivots, order


def _factored(a: Any) -> tuple[Any, Any, Any]:
    """L and U (m, n), pivots (n,), permutation (m,) of `a` (m, n), n <= m.

    Factorises the left half, updates the right half, then factorises that (Toledo, Locality of reference in LU
    decomposition with partial pivoting, 1997).
    """
    import jax.numpy as jnp

    n = a.shape[1]
    if n <= _PANEL:
        return lu_panel(a)
    half = (-(-n // _PANEL) + 1) // 2 * _PANEL
    left, pivots, order = _factored(a[:, :half])
    right = _rows(a[:, half:], order)
    above = _solved(left[:half], right[:half])
    below, more_pivots, moved = _factored(right[half:] - dot(left[half:], above))
    upper = jnp.concatenate([left[:half], above], 1)
    lower = jnp.concatenate([_rows(left[half:], moved), below], 1)
    order = jnp.concatenate([order[:half], _rows(order[half:], moved)])
    return jnp.concatenate([upper, lower]), jnp.concatenate([pivots, more_pivots + half]), order


def _rows(x: Any, order: Any) -> Any:
    return x.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _solved(lower: Any, b: Any) -> Any:
    from jax import lax

    return lax.linalg.triangular_solve(lower, b, left_side=True, lower=True, unit_diagonal=True)
