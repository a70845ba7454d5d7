"""Balancing before the QR algorithm, as LAPACK's gebal: a permutation that isolates eigenvalues, then scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

# As LAPACK: repeat sweeps until one changes nothing. A change must reduce the sum of two norms by at least 5 %.
_MAX_SWEEPS, _WORTH = 50, 0.95


def permuted(a: Any, order: Any) -> Any:
    """P^T A P: rows and columns of a (..., n, n) in `order` (..., n)."""
    import jax.numpy as jnp

    rows = jnp.take_along_axis(a, order[..., :, None], -2)
    return jnp.take_along_axis(rows, order[..., None, :], -1)


def permuting_order(a: Any) -> tuple[Any, Any]:
    """The order (..., n) that makes A triangular except for a middle block, and a mask (..., n) of the places in it.

    Repeatedly, a row without entries beside its diagonal goes last; then columns without such entries go first.
    """
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[-1]
    places = jnp.arange(n, dtype=np.int32)
    entries = (a != 0) & ~jnp.eye(n, dtype=bool)

    def search(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        order, first, last, _ = loop
        middle = (places >= first[..., None]) & (places <= last[..., None])
        active = jnp.take_along_axis(middle, jnp.argsort(order, -1), -1)
        empty_row = ~jnp.any(entries & active[..., None, :], -1)
        empty_column = ~jnp.any(entries & active[..., :, None], -2)
        row = jnp.max(jnp.where(middle & jnp.take_along_axis(empty_row, order, -1), places, -1), -1)
        column = jnp.min(jnp.where(middle & jnp.take_along_axis(empty_column, order, -1), places, n), -1)
        by_row = row >= 0
        found = (by_row | (column < n)) & (first < last)
        place = jnp.where(found, jnp.where(by_row, row, column), 0)[..., None]
        other = jnp.where(found, jnp.where(by_row, last, first), 0)[..., None]
        swap = jnp.where(places == place, other, jnp.where(places == other, place, places))
        order = jnp.take_along_axis(order, swap, -1)
        first = jnp.where(found & ~by_row, first + 1, first)
        return order, first, jnp.where(found & by_row, last - 1, last), found

    batch = a.shape[:-2]
    start = (
        jnp.broadcast_to(places, (*batch, n)),
        jnp.zeros(batch, np.int32),
        jnp.full(batch, n - 1, np.int32),
        jnp.ones(batch, bool),
    )
    order, first, last, _ = lax.while_loop(lambda loop: jnp.any(loop[-1]), search, start)
    return order, (places >= first[..., None]) & (places <= last[..., None])


def scaling(a: Any, middle: Any) -> tuple[Any, Any]:
    """D^-1 A D and D (..., n) of powers of two, for rows and columns in `middle` (..., n) of a (..., n, n).

    The norms of row and column i within the middle become nearly equal, one i after the other (Osborne, On
    pre-conditioning of matrices, 1960; James, Langou and Lowery, On matrix balancing and eigenvector computation,
    2014, for the norm).
    """
    import jax.numpy as jnp
    from jax import lax

    n, real = a.shape[-1], a.real.dtype
    largest = np.finfo(real).maxexp // 4

    def norm(x: Any) -> Any:
        return jnp.sqrt(jnp.sum(jnp.where(middle, x.real * x.real + x.imag * x.imag, 0), -1))

    def visit(i: Any, loop: tuple[Any, ...]) -> tuple[Any, ...]:
        a, exponents, changed = loop
        row = lax.dynamic_index_in_dim(a, i, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(a, i, -1, keepdims=False)
        r, c = norm(row), norm(column)
        usable = (r > 0) & (c > 0) & lax.dynamic_index_in_dim(middle, i, -1, keepdims=False)
        r, c = jnp.where(usable, r, 1), jnp.where(usable, c, 1)
        before = lax.dynamic_index_in_dim(exponents, i, -1, keepdims=False)
        power = jnp.round((jnp.log2(r) - jnp.log2(c)) / 2).astype(np.int32)
        power = jnp.clip(before + power, -largest, largest) - before
        factor, inverse = _power_of_two(power, real), _power_of_two(-power, real)
        worth = usable & (power != 0) & (c * factor + r * inverse < _WORTH * (c + r))
        factor, inverse = jnp.where(worth, factor, 1), jnp.where(worth, inverse, 1)
        a = lax.dynamic_update_index_in_dim(a, column * factor[..., None], i, -1)
        row = lax.dynamic_index_in_dim(a, i, -2, keepdims=False)
        a = lax.dynamic_update_index_in_dim(a, row * inverse[..., None], i, -2)
        exponents = lax.dynamic_update_index_in_dim(exponents, before + jnp.where(worth, power, 0), i, -1)
        return a, exponents, changed | worth

    def sweep(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        count, a, exponents, _ = loop
        return count + 1, *lax.fori_loop(0, n, visit, (a, exponents, jnp.zeros(a.shape[:-2], bool)))

    start = (0, a, jnp.zeros(a.shape[:-1], np.int32), jnp.ones(a.shape[:-2], bool))
    _, a, exponents, _ = lax.while_loop(lambda loop: (loop[0] < _MAX_SWEEPS) & jnp.any(loop[-1]), sweep, start)
    return a, _power_of_two(exponents, real)


def _power_of_two(exponent: Any, dtype: Any) -> Any:
    import jax.numpy as jnp

    return jnp.ldexp(jnp.ones((), dtype), exponent)
