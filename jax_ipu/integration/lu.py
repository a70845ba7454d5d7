"""LU factorisation with partial pivots, as LAPACK's getrf."""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.householder import dot

# Columns that are eliminated one by one, and those of a block, whose panels are in a loop.
_PANEL, _BLOCK = 32, 128


def lu(a: Any) -> tuple[Any, Any, Any]:
    """(m, n) -> U above L without its diagonal of ones (m, n), pivots (min(m, n),), permutation (m,).

    Row k changed places with row pivots[k], in turn; row i of L U is row permutation[i] of `a`.
    """
    import jax.numpy as jnp

    m, n = a.shape
    count = min(m, n)
    order = jnp.arange(m, dtype=jnp.int32)
    if not count:
        return a, jnp.zeros((0,), jnp.int32), order
    pivots = []
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        columns, block_pivots, moved = _factored(a[begin:, begin:end])
        pivots.append(block_pivots + begin)
        if begin:
            order = jnp.concatenate([order[:begin], _rows(order[begin:], moved)])
        else:
            order = moved
        if end - begin == n:
            a = columns
            break
        rest = _rows(a[begin:], moved)
        if end < n:
            right = _solved(columns[: end - begin], rest[: end - begin, end:])
            below = rest[end - begin :, end:] - dot(columns[end - begin :], right)
            rest = jnp.concatenate([rest[:, :begin], columns, jnp.concatenate([right, below])], 1)
        else:
            rest = jnp.concatenate([rest[:, :begin], columns], 1)
        a = jnp.concatenate([a[:begin], rest]) if begin else rest
    return a, jnp.concatenate(pivots), order


def _rows(x: Any, order: Any) -> Any:
    return x.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _solved(lower: Any, b: Any) -> Any:
    from jax import lax

    return lax.linalg.triangular_solve(lower, b, left_side=True, lower=True, unit_diagonal=True)


def _factored(a: Any) -> tuple[Any, Any, Any]:
    """Of a (m, n), n <= m: L and U (m, n), pivots (n,), permutation (m,); panel after panel.

    The matrix is transposed: a step changes whole columns, which are contiguous then.
    """
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    if n <= _PANEL:
        t, pivots, order = _eliminated(a.T, 0)
        return t.T, pivots, order
    rows, columns = jnp.arange(m), jnp.arange(n)

    def panel(begin: Any, width: int, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        t, pivots, order = state
        done, new, moved = _eliminated(lax.dynamic_slice_in_dim(t, begin, width, 0), begin)
        t = _rows(t.T, moved).T
        t = lax.dynamic_update_slice_in_dim(t, done, begin, 0)
        # L_11 U_12 = A_12 and A_22 - L_21 U_12, transposed.
        after = (columns >= begin + width)[:, None]
        lower = lax.dynamic_slice_in_dim(done, begin, width, 1)
        across = lax.dynamic_slice_in_dim(t, begin, width, 1)
        upper = lax.linalg.triangular_solve(lower, across, left_side=False, lower=False, unit_diagonal=True)
        t = lax.dynamic_update_slice_in_dim(t, jnp.where(after, upper, across), begin, 1)
        t = t - dot(jnp.where(after, upper, 0), jnp.where(rows >= begin + width, done, 0))
        return t, lax.dynamic_update_slice_in_dim(pivots, new, begin, 0), _rows(order, moved)

    whole, rest = divmod(n, _PANEL)
    state = a.T, jnp.zeros((n,), jnp.int32), jnp.arange(m, dtype=jnp.int32)
    state = lax.fori_loop(0, whole, lambda i, state: panel(i * _PANEL, _PANEL, state), state)
    t, pivots, order = panel(whole * _PANEL, rest, state) if rest else state
    return t.T, pivots, order


def _eliminated(t: Any, begin: Any) -> tuple[Any, Any, Any]:
    """Of the columns t (n, m) from row `begin` on: L and U (n, m), pivots (n,), permutation (m,)."""
    import jax.numpy as jnp
    from jax import lax

    n, m = t.shape
    rows, columns = jnp.arange(m), jnp.arange(n + 1)
    # The numbers of the rows change places with them.
    t = jnp.concatenate([t, rows.astype(t.dtype)[None]])

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        t, pivots = state
        k = begin + j
        column = lax.dynamic_index_in_dim(t, j, 0, keepdims=False)
        pivot = lax.argmax(jnp.where(rows >= k, _size(column), -1), 0, jnp.int32)
        first, second = lax.dynamic_slice_in_dim(t, k, 1, 1), lax.dynamic_slice_in_dim(t, pivot, 1, 1)
        t = lax.dynamic_update_slice_in_dim(t, first, pivot, 1)
        t = lax.dynamic_update_slice_in_dim(t, second, k, 1)
        column = lax.dynamic_index_in_dim(t, j, 0, keepdims=False)
        divisor = lax.dynamic_index_in_dim(column, k, keepdims=False)
        factors = jnp.where(rows > k, column / jnp.where(divisor == 0, 1, divisor), 0)
        takes_part = ((columns > j) & (columns < n))[:, None]
        t = jnp.where(takes_part, t - second * factors[None, :], t)
        t = lax.dynamic_update_slice_in_dim(t, jnp.where(rows > k, factors, column)[None], j, 0)
        return t, lax.dynamic_update_slice_in_dim(pivots, pivot[None], j, 0)

    t, pivots = lax.fori_loop(0, n, step, (t, jnp.zeros((n,), jnp.int32)))
    return t[:n], pivots, t[n].real.astype(jnp.int32)


def _size(x: Any) -> Any:
    """Of each entry, the sum of the sizes of its parts, as LAPACK compares them."""
    import jax.numpy as jnp

    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)
