"""``jax.experimental.sparse.linalg.spsolve``: solved as dense systems, which must fit in the IPU's memory."""

from __future__ import annotations

from typing import Any

MODULE = "jax.experimental.sparse.linalg"
PRIMITIVE = "spsolve"


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, *, tol: float, reorder: int) -> Any:
    """x (n,) with A x = b (n,), where A (n, n) is in compressed sparse rows; NaN where A is singular.

    Entries of the same place are added; entries past indptr[n] do not belong to A. As on the CPU, where SciPy solves
    the system, `tol` and `reorder` (how to keep the factors sparse) have no effect.
    """
    import jax.numpy as jnp
    from jax import lax

    del tol, reorder
    n = b.size
    if n == 0:
        return b
    # Number of rows that begin at or before each entry; several rows begin at one entry where rows are empty.
    starts = jnp.zeros(data.size + 1, jnp.int32).at[indptr].add(1, mode="drop")
    rows = jnp.cumsum(starts[:-1]) - 1
    dense = jnp.zeros((n, n), data.dtype).at[rows, indices].add(data, mode="drop")
    factors, _, order = lax.linalg.lu(dense)
    x = lax.linalg.triangular_solve(factors, b[order][:, None], left_side=True, lower=True, unit_diagonal=True)
    x = lax.linalg.triangular_solve(factors, x, left_side=True, lower=False)[:, 0]
    return jnp.where((jnp.diagonal(factors) == 0).any(), jnp.nan, x)
