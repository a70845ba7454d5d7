"""Decompositions by Householder reflections, with LAPACK's results: packed reflectors, taus, real diagonals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax_ipu.integration.decompositions import native


def over_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Maps a function of a matrix (and a vector, as second argument) over any leading dimensions."""

    @functools.wraps(function)
    def batched(a: Any, *rest: Any, **params: Any) -> Any:
        import jax

        apply: Callable[..., Any] = functools.partial(function, **params)
        for _ in range(a.ndim - 2):
            apply = jax.vmap(apply)
        return apply(a, *rest)

    return batched


def dot(a: Any, b: Any) -> Any:
    """Matrix product in full precision, whatever jax_default_matmul_precision says."""
    import jax.numpy as jnp
    from jax import lax

    return jnp.dot(a, b, precision=lax.Precision.HIGHEST)


def batched_dot(a: Any, b: Any) -> Any:
    """Batched matrix product over leading dimensions, in full precision."""
    import jax.numpy as jnp
    from jax import lax

    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def diagonal(a: Any, offset: int = 0) -> Any:
    """The entries (..., n - |offset|) of a (..., n, m) on the diagonal, `offset` above it or below; all in its columns.

    A strided slice: the gather of jnp.diagonal would move the matrix onto few tiles to index it there.
    """
    from jax import lax

    n, m = a.shape[-2:]
    count = n - abs(offset)
    begin = offset if offset >= 0 else -offset * m
    flat = a.reshape(*a.shape[:-2], n * m)
    end = begin + (count - 1) * (m + 1) + 1
    return lax.slice_in_dim(flat, begin, end, m + 1, axis=-1) if count else flat[..., :0]


def _reflector(column: Any, pivot: Any) -> tuple[Any, Any, Any]:
    """Returns v (1 at `pivot`, 0 above), tau, beta: H = 1 - tau v v^H, and H^H column is beta at the pivot, 0 below.

    The formulas of LAPACK's larfg; beta is real. The column is scaled, so that squares do not overflow.
    """
    import jax.numpy as jnp

    rows = jnp.arange(column.shape[0])
    alpha = column[pivot]
    below = jnp.where(rows > pivot, column, 0)
    largest = jnp.max(jnp.abs(below))
    scale = jnp.maximum(largest, jnp.abs(alpha))
    scale = jnp.where(scale == 0, jnp.ones_like(scale), scale)
    norm = scale * jnp.sqrt(jnp.sum(jnp.abs(below / scale) ** 2) + jnp.abs(alpha / scale) ** 2)
    beta = -jnp.copysign(norm, alpha.real)
    nothing = (largest == 0) & (alpha.imag == 0)
    beta = jnp.where(nothing, alpha.real, beta).astype(column.dtype)
    one = jnp.ones((), column.dtype)
    tau = jnp.where(nothing, 0 * one, (beta - alpha) / jnp.where(beta == 0, one, beta))
    v = jnp.where(rows == pivot, one, below / jnp.where(nothing, one, alpha - beta))
    return v, tau, beta


def _reduce_columns(a: Any, count: int, below: Any, update: Callable[..., Any]) -> tuple[Any, Any]:
    """Reflects column after column onto its entry `below` places under the diagonal: packed (m, n), taus (count,).

    `update(a, v, tau, j)` applies the reflector of column j to the columns after it.
    """
    import jax.numpy as jnp
    from jax import lax

    rows = jnp.arange(a.shape[0])

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        pivot = j + below
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, pivot)
        packed = jnp.where(rows < pivot, column, jnp.where(rows == pivot, beta, v))
        a = lax.dynamic_update_index_in_dim(update(a, v, tau, j), packed, j, 1)
        return a, taus.at[j].set(tau)

    taus = jnp.zeros((count,), a.dtype)
    return lax.fori_loop(0, count, step, (a, taus)) if count else (a, taus)


# Number of stages of a reduction from both sides, and the fewest columns of a stage: the finished rows and columns are
# left out after each stage.
_STAGES, _STAGE_COLUMNS = 4, 32


def _stage_widths(count: int) -> list[int]:
    """The columns of each stage, `count` in all."""
    width = max(-(-count // _STAGES), _STAGE_COLUMNS)
    return [min(width, count - begin) for begin in range(0, count, width)]


def _below(a: Any, n: int) -> Any:
    """`a` (m, k) under n - m rows of zeros."""
    import jax.numpy as jnp

    return jnp.pad(a, ((n - a.shape[0], 0), (0, 0)))


def _reflect_from_left(a: Any, v: Any, tau: Any, j: Any) -> Any:
    """H^H a in the columns after j."""
    import jax.numpy as jnp

    row = jnp.where(jnp.arange(a.shape[1]) > j, tau.conj() * dot(v.conj(), a), 0)
    return a - v[:, None] * row[None, :]


# Number of reflectors that are applied as one block.
_BLOCK = 32
# The most reflectors, and elements of a column, of a matrix that is reduced by one operation, column by column.
_FEW, _SHORT = 2 * _BLOCK, 512
# The most elements of a column of a panel that is one operation.
_SHORT_PANEL = 2048


def geqrf(a: Any) -> tuple[Any, Any]:
    """(m, n) -> R above reflectors (m, n), taus (min(m, n),).

    Large matrices in panels of columns, whose reflectors are applied to the columns after the panel at once.
    """
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    count = min(m, n)
    if 0 < count <= _FEW and m <= _SHORT:
        return native.qr_panel(a)
    if count <= _FEW:
        return _reduce_columns(a, count, 0, _reflect_from_left)
    # The columns of a panel are in few tiles, so long ones are reduced by operations on the whole matrix.
    reduce = _reduce_panel if m <= _SHORT_PANEL else _reduce_long_panel

    def reduce_panel(begin: Any, width: int, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        panel = lax.dynamic_slice_in_dim(a, begin, width, 1)
        packed, tau = reduce(panel, width, begin)
        y, t = _compact(packed, tau, begin)
        rows = jnp.where(jnp.arange(n) >= begin + width, dot(t.conj().T, dot(y.conj().T, a)), 0)
        a = lax.dynamic_update_slice_in_dim(a - dot(y, rows), packed, begin, 1)
        return a, lax.dynamic_update_slice_in_dim(taus, tau, begin, 0)

    whole, rest = divmod(count, _BLOCK)
    state = a, jnp.zeros((count,), a.dtype)
    state = lax.fori_loop(0, whole, lambda i, state: reduce_panel(i * _BLOCK, _BLOCK, state), state)
    return reduce_panel(whole * _BLOCK, rest, state) if rest else state


def _reduce_panel(panel: Any, width: int, begin: Any) -> tuple[Any, Any]:
    """QR of the rows of `panel` (m, width) from `begin` on, m - begin >= width: packed (m, width), taus (width,)."""
    import jax.numpy as jnp
    from jax import lax

    m = panel.shape[0]
    # The rows move up to the first, over as many zeros as rows leave; zeros stay zeros.
    packed, taus = native.qr_panel(lax.dynamic_slice_in_dim(jnp.pad(panel, ((0, m), (0, 0))), begin, m, 0))
    back = lax.dynamic_slice_in_dim(jnp.pad(packed, ((m, 0), (0, 0))), m - begin, m, 0)
    return jnp.where((jnp.arange(m) < begin)[:, None], panel, back), taus


def _reduce_long_panel(panel: Any, width: int, begin: Any) -> tuple[Any, Any]:
    return _reduce_columns(panel, width, begin, _reflect_from_left)


def geqp3(a: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """QR with column pivots: R above reflectors (m, n), the columns' numbers from 1 (n,), taus (min(m, n),).

    Columns with a number other than 0 in `pivots` come first, in their order; each next one has the largest remaining
    norm (Golub and Businger, 1965). The norms are recomputed in every step, which avoids cancellation.
    """
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    count = min(m, n)
    rows, columns = jnp.arange(m), jnp.arange(n)
    order = jnp.argsort(pivots == 0, stable=True)
    num_first = jnp.sum(pivots != 0)

    def step(j: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        a, taus, order = state
        left = jnp.where((rows[:, None] >= j) & (columns[None, :] >= j), jnp.abs(a), 0)
        size = jnp.max(left)
        norms = jnp.sum((left / jnp.where(size == 0, 1, size)) ** 2, 0)
        pivot = jnp.where(j < num_first, j, jnp.argmax(jnp.where(columns >= j, norms, -1)))
        swap = jnp.where(columns == j, pivot, jnp.where(columns == pivot, j, columns))
        a, order = a[:, swap], order[swap]
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, j)
        packed = jnp.where(rows < j, column, jnp.where(rows == j, beta, v))
        a = lax.dynamic_update_index_in_dim(_reflect_from_left(a, v, tau, j), packed, j, 1)
        return a, taus.at[j].set(tau), order

    start = (a[:, order], jnp.zeros((count,), a.dtype), order)
    a, taus, order = lax.fori_loop(0, count, step, start) if count else start
    return a, (order + 1).astype(pivots.dtype), taus


def householder_product(a: Any, taus: Any) -> Any:
    """The first n columns of H_0 H_1 ... from packed reflectors (m, n) and taus."""
    import jax.numpy as jnp

    return apply_reflectors(a, taus, jnp.eye(a.shape[0], a.shape[1], dtype=a.dtype), below=0)


def hessenberg(a: Any) -> tuple[Any, Any]:
    """(n, n) -> H above the reflectors of Q (n, n), taus (n - 1,); Q^H A Q = H."""
    import jax.numpy as jnp

    n = a.shape[0]
    if 1 < n <= _FEW:
        return native.hessenberg(a)
    packed, taus = [], [jnp.zeros((0,), a.dtype)]
    for width in _stage_widths(max(n - 1, 0)):
        done = n - a.shape[1]

        def update(a: Any, v: Any, tau: Any, j: Any, done: int = done) -> Any:
            # Reflectors of earlier columns act on zeros of v only.
            columns = v[done:]
            return _reflect_from_left(a - (tau * dot(a, columns))[:, None] * columns.conj()[None, :], v, tau, j)

        reduced, tau = _reduce_columns(a, width, done + 1, update)
        packed.append(reduced[:, :width])
        taus.append(tau)
        a = reduced[:, width:]
    return jnp.concatenate([*packed, a], 1), jnp.concatenate(taus)


def bidiagonal(a: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """(n, n) -> the real diagonal (n,) and entries above it (n - 1,) of B, and Q and P with A = Q B P^H.

    n > 1. Q is in reflectors that start on the diagonal (n, n) and taus (n,), P in those that start under it, (n, n) or
    (n, n - 1), and taus (n - 1,). As LAPACK's gebrd.
    """
    import jax.numpy as jnp

    n = a.shape[0]
    if n <= _FEW:
        packed, q_tau, rows, p_tau = native.bidiagonal(a)
        return diagonal(packed).real, diagonal(rows, -1).real, packed, q_tau, rows, p_tau
    left, right = [], []
    d, e, q_taus, p_taus = ([jnp.zeros((0,), dtype)] for dtype in (a.real.dtype, a.real.dtype, a.dtype, a.dtype))
    for width in _stage_widths(n - 1):
        a, rows, q_tau, p_tau = _bidiagonal_stage(a, width)
        left.append(_below(a[:, :width], n))
        right.append(_below(rows.T, n))
        d.append(diagonal(a).real[:width])
        e.append(diagonal(a, 1).real[:width])
        q_taus.append(q_tau)
        p_taus.append(p_tau)
        a = a[width:, width:]
    # The last row has no entries to the right of the diagonal, so it has no row reflector.
    _, tau, beta = _reflector(a[:, 0], 0)
    left.append(_below(beta[None, None], n))
    right.append(jnp.zeros((n, 1), a.dtype))
    d.append(beta.real[None])
    q_taus.append(tau[None])
    vectors = jnp.concatenate(left, 1), jnp.concatenate(q_taus), jnp.concatenate(right, 1), jnp.concatenate(p_taus)
    return jnp.concatenate(d), jnp.concatenate(e), *vectors


def _bidiagonal_stage(a: Any, count: int) -> tuple[Any, Any, Any, Any]:
    """Reduces the first `count` < n columns and rows of `a` (n, n): R and column reflectors, row reflectors, taus."""
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    places = jnp.arange(n)

    def step(j: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        a, right, q_taus, p_taus = state
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, j)
        packed = jnp.where(places < j, column, jnp.where(places == j, beta, v))
        a = lax.dynamic_update_index_in_dim(_reflect_from_left(a, v, tau, j), packed, j, 1)
        row = lax.dynamic_index_in_dim(a, j, 0, keepdims=False).conj()
        w, p_tau, p_beta = _reflector(row, j + 1)
        below = jnp.where(places > j, p_tau * dot(a, w), 0)
        a = jnp.where((places > j)[None, :], a - below[:, None] * w.conj()[None, :], a)
        finished = jnp.where(places <= j, row.conj(), jnp.where(places == j + 1, p_beta, 0))
        a = lax.dynamic_update_index_in_dim(a, finished, j, 0)
        right = lax.dynamic_update_index_in_dim(right, w, j, 0)
        return a, right, q_taus.at[j].set(tau), p_taus.at[j].set(p_tau)

    taus = jnp.zeros((count,), a.dtype)
    a, right, q_taus, p_taus = lax.fori_loop(0, count, step, (a, jnp.zeros((count, n), a.dtype), taus, taus))
    return a, right, q_taus, p_taus


def tridiagonal(a: Any, *, lower: bool) -> tuple[Any, Any, Any, Any]:
    """Hermitian (..., n, n) -> packed reflectors, diagonal, off-diagonal, taus, as LAPACK's sytrd and hetrd."""
    import jax.numpy as jnp

    if not lower:
        # The upper form of A is the lower form of A with rows and columns reversed.
        packed, d, e, taus = tridiagonal(jnp.flip(a, (-2, -1)), lower=True)
        upper = jnp.triu(jnp.flip(packed, (-2, -1)))
        return upper + jnp.tril(a, -1), jnp.flip(d, -1), jnp.flip(e, -1), jnp.flip(taus, -1)
    packed, d, e, taus = over_batches(tridiagonal_of_whole)(from_triangle(a, lower=True))
    return jnp.tril(packed) + jnp.triu(a, 1), d, e, taus


def tridiagonal_of_whole(a: Any) -> tuple[Any, Any, Any, Any]:
    """Hermitian (n, n), both triangles -> packed reflectors below, diagonal, off-diagonal, taus."""
    import jax.numpy as jnp

    n = a.shape[0]
    if 1 < n <= _FEW:
        whole, tau = native.tridiagonal(a)
        return whole, diagonal(whole).real, diagonal(whole, -1).real, tau
    packed, taus = [], [jnp.zeros((0,), a.dtype)]
    for width in _stage_widths(max(n - 1, 0)):
        reduced, tau = _reduce_columns(a, width, 1, _reflect_from_both_sides)
        packed.append(_below(reduced[:, :width], n))
        taus.append(tau)
        a = reduced[width:, width:]
    whole = jnp.concatenate([*packed, _below(a, n)], 1)
    return whole, diagonal(whole).real, diagonal(whole, -1).real, jnp.concatenate(taus)


def _reflect_from_both_sides(a: Any, v: Any, tau: Any, j: Any) -> Any:
    """H^H a H for Hermitian a, in the columns after j: a - w v^H - v w^H, as in LAPACK's sytd2."""
    import jax.numpy as jnp

    p = jnp.where(jnp.arange(a.shape[0]) > j, tau * dot(a, v), 0)
    w = p - (tau.conj() * dot(v.conj(), p) / 2) * v
    return a - w[:, None] * v.conj()[None, :] - v[:, None] * w.conj()[None, :]


def from_triangle(a: Any, lower: bool) -> Any:
    """The Hermitian matrices of which `a` holds one triangle."""
    import jax.numpy as jnp

    strict = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    diagonal = jnp.eye(a.shape[-1], dtype=a.real.dtype) * a.real
    return strict + jnp.swapaxes(strict.conj(), -1, -2) + diagonal


def _compact(packed: Any, tau: Any, first: Any) -> tuple[Any, Any]:
    """H_0 H_1 ... as 1 - Y T Y^H: Y (m, k) and T (k, k), of packed columns (m, k) with pivots from row `first` on.

    Schreiber and Van Loan, A storage-efficient WY representation, 1989. T of two neighbouring blocks of reflectors
    is ((T_1, -T_1 Y_1^H Y_2 T_2), (0, T_2)), from single reflectors, whose T is tau, to all.
    """
    import jax.numpy as jnp

    m, k = packed.shape
    pivots = first + jnp.arange(k)[None, :]
    rows = jnp.arange(m)[:, None]
    y = jnp.where(rows > pivots, packed, (rows == pivots).astype(packed.dtype))
    padded = 1 << (k - 1).bit_length()
    products = jnp.pad(dot(y.conj().T, y), (0, padded - k))
    t = jnp.pad(tau, (0, padded - k)).reshape(padded, 1, 1)
    size = 1
    while size < padded:
        pairs = padded // (2 * size)
        blocks = products.reshape(pairs, 2, size, pairs, 2, size)[:, 0, :, :, 1]
        between = jnp.sum(jnp.where(jnp.eye(pairs, dtype=bool)[:, None, :, None], blocks, 0), 2)
        first_t, second_t = t[0::2], t[1::2]
        corner = -batched_dot(first_t, batched_dot(between, second_t))
        top = jnp.concatenate([first_t, corner], 2)
        t = jnp.concatenate([top, jnp.pad(second_t, ((0, 0), (0, 0), (size, 0)))], 1)
        size *= 2
    return y, t[0, :k, :k]


def apply_reflectors(packed: Any, taus: Any, x: Any, below: int = 1) -> Any:
    """Q x (m, k), with Q = H_0 H_1 ... of packed reflectors that start `below` places under the diagonal."""
    import jax.numpy as jnp
    from jax import lax

    count = taus.shape[0]
    if not count or not x.size:
        return x
    if count <= _FEW and packed.shape[0] <= _SHORT:
        return native.apply_reflectors(packed, taus, x, below)
    width = min(_BLOCK, count)
    blocks = -(-count // width)
    packed = jnp.pad(packed[:, :count], ((0, 0), (0, blocks * width - count)))
    taus = jnp.pad(taus, (0, blocks * width - count))

    def step(i: Any, x: Any) -> Any:
        begin = (blocks - 1 - i) * width
        columns = lax.dynamic_slice_in_dim(packed, begin, width, 1)
        y, t = _compact(columns, lax.dynamic_slice_in_dim(taus, begin, width), begin + below)
        return x - dot(y, dot(t, dot(y.conj().T, x)))

    return lax.fori_loop(0, blocks, step, x)
