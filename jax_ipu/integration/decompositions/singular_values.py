"""Singular values by each of JAX's algorithms: QR, divide and conquer, Jacobi's, the polar decomposition.

Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax_ipu.integration.decompositions.hermitian import divided, rotations, turned_columns
from jax_ipu.integration.decompositions.householder import apply_reflectors, bidiagonal, dot, over_batches
from jax_ipu.integration.decompositions.native import bidiagonal_qr

# Enough for any size: convergence is quadratic after the first few.
_MAX_SWEEPS = 30
# For larger matrices QR with vectors is no faster on the device, and less accurate.
_LARGEST_DEFAULT_QR = 128
# Divide and conquer needs blocks to divide.
_SMALLEST_DIVIDED = 5


def svd(
    a: Any,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: tuple[int, int] | None,
    algorithm: Any = None,
) -> Sequence[Any]:
    """Singular values (..., k), descending, and U, V^H of a (..., m, n), k = min(m, n). NaN where `a` is not finite.

    Without an algorithm: QR for small matrices and for values without vectors, else the polar decomposition.
    """
    from jax._src.lax import linalg
    from jax._src.tpu.linalg import svd as polar

    names = linalg.SvdAlgorithm
    if 0 in a.shape[-2:]:
        empty: Callable[..., Sequence[Any]] = linalg._empty_svd
        return empty(a, full_matrices=full_matrices, compute_uv=compute_uv)
    if algorithm in (None, names.DEFAULT):
        algorithm = names.QR if min(a.shape[-2:]) <= _LARGEST_DEFAULT_QR or not compute_uv else names.POLAR
    if algorithm == names.POLAR:
        generic: Callable[..., Sequence[Any]] = polar._svd_tpu
        return generic(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    method = {names.QR: _qr, names.JACOBI: _jacobi, names.DIVIDE_AND_CONQUER: _divide_and_conquer}[algorithm]
    rule = functools.partial(_decomposed, method=method, full_matrices=full_matrices, compute_uv=compute_uv)
    s, *vectors = over_batches(rule)(a)
    if subset_by_index is not None:
        begin, end = subset_by_index
        s = s[..., begin:end]
        if compute_uv and not full_matrices:
            vectors = [vectors[0][..., begin:end], vectors[1][..., begin:end, :]]
    return [s, *vectors]


def _decomposed(a: Any, *, method: Callable[..., Any], full_matrices: bool, compute_uv: bool) -> tuple[Any, ...]:
    """s, U, V^H of `a` (m, n) by `method`, which takes square finite matrices with entries of at most 1."""
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    if m < n:
        s, *vectors = _decomposed(a.conj().T, method=method, full_matrices=full_matrices, compute_uv=compute_uv)
        return (s, *(x.conj().T for x in reversed(vectors)))
    size = jnp.max(jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)))
    finite = jnp.isfinite(size)
    a = jnp.where(finite, a / jnp.where((size == 0) | ~finite, 1, size).astype(a.dtype), 0)
    q, r = lax.linalg.qr(a, full_matrices=full_matrices) if m > n or method is _jacobi else (None, a)
    u, s, v = method(r[:n], compute_uv)
    order = jnp.argsort(s, descending=True)
    s = jnp.where(finite, s[order] * size, jnp.nan)
    if not compute_uv:
        return (s,)
    u, v = u[:, order], v[:, order]
    if method is not _qr:
        u, v = _unitary(u), _unitary(v)
    if q is not None:
        u = jnp.concatenate([dot(q[:, :n], u), q[:, n:]], 1)
    return s, jnp.where(finite, u, jnp.nan), jnp.where(finite, v.conj().T, jnp.nan)


def _unitary(x: Any) -> Any:
    """Replaces the columns of x (n, n) that are not orthogonal to the first ones. Columns have length 1 or 0.

    The replaced columns belong to singular values that are no larger than the rounding error.
    """
    import jax.numpy as jnp
    from jax import lax

    q, r = lax.linalg.qr(x)
    along = jnp.diagonal(r)
    length = jnp.abs(along)
    return q * jnp.where(length == 0, 1, along / jnp.where(length == 0, 1, length).astype(x.dtype))


def _unit_columns(x: Any) -> tuple[Any, Any]:
    """x with columns of length 1, where they are not 0, and their lengths."""
    import jax.numpy as jnp

    largest = jnp.max(jnp.abs(x), 0)
    largest = jnp.where(largest == 0, 1, largest)
    length = jnp.sqrt(jnp.sum(jnp.abs(x / largest) ** 2, 0)) * largest
    return x / jnp.where(length == 0, 1, length), length


def _qr(a: Any, compute_uv: bool) -> tuple[Any, ...]:
    """U (n, n), s (n,), V (n, n) of a (n, n): implicit QR on the bidiagonal form, as LAPACK's gesvd."""
    import jax.numpy as jnp

    n = a.shape[0]
    if n == 1:
        size = jnp.abs(a)
        return jnp.where(size == 0, 1, a / jnp.where(size == 0, 1, size)), size[0], jnp.ones_like(a)
    d, e, left, q_taus, right, p_taus = bidiagonal(a)
    if not compute_uv:
        return None, bidiagonal_qr(d, e)[0], None
    identity = jnp.eye(n, dtype=d.dtype)
    s, u, v = bidiagonal_qr(d, e, identity, identity)
    return _transformed_back(left, q_taus, right, p_taus, u.T, s, v.T)


def _transformed_back(left: Any, q_taus: Any, right: Any, p_taus: Any, u: Any, s: Any, v: Any) -> tuple[Any, Any, Any]:
    u = apply_reflectors(left, q_taus, u.astype(left.dtype), below=0)
    return u, s, apply_reflectors(right, p_taus, v.astype(left.dtype))


def _divide_and_conquer(a: Any, compute_uv: bool) -> tuple[Any, ...]:
    """The same by divide and conquer on the bidiagonal form.

    With singular triples (s, u, v) of B, the vectors (v_0, u_0, v_1, u_1, ...) are eigenvectors for s of the symmetric
    tridiagonal matrix with zeros on the diagonal and B's entries, row by row, beside it (Golub and Kahan, Calculating
    the singular values and pseudo-inverse of a matrix, 1965).
    """
    import jax.numpy as jnp

    n = a.shape[0]
    if n < _SMALLEST_DIVIDED:
        return _jacobi(a, compute_uv)
    d, e, left, q_taus, right, p_taus = bidiagonal(a)
    beside = jnp.stack([d, jnp.pad(e, (0, 1))], 1).reshape(-1)[:-1]
    vectors, values = divided(jnp.zeros((2 * n,), d.dtype), beside)
    largest = jnp.argsort(values, descending=True)[:n]
    pairs = vectors[:, largest].reshape(n, 2, n)
    u, v = (_unit_columns(pairs[:, i])[0] for i in (1, 0))
    return _transformed_back(left, q_taus, right, p_taus, u, jnp.maximum(values[largest], 0), v)


def _jacobi(a: Any, compute_uv: bool) -> tuple[Any, ...]:
    """The same by one-sided Jacobi rotations, of n / 2 pairs of columns at once, until all are orthogonal.

    Of a^H, whose columns are nearer to orthogonal than those of a triangular `a` (Drmac and Veselic, New fast and
    accurate Jacobi SVD algorithm, 2008).
    """
    import jax.numpy as jnp
    from jax import lax

    del compute_uv
    n = a.shape[0]
    # An odd size is padded with a zero column, which never rotates and is back in its place after each whole sweep.
    half = (n + 1) // 2
    columns = jnp.pad(a.conj().T, ((0, 0), (0, 2 * half - n))).reshape(n, 2, half)
    turns = jnp.eye(2 * half, dtype=a.dtype).reshape(2 * half, 2, half)
    tolerance = float(np.finfo(a.dtype).eps) * n**0.5

    def rotate(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        columns, turns, active = state
        low, high = columns[:, 0], columns[:, 1]
        first, second = (jnp.sum(x.real**2 + x.imag**2, 0) for x in (low, high))
        product = jnp.sum(low.conj() * high, 0)
        rotates = jnp.abs(product) > tolerance * jnp.sqrt(first) * jnp.sqrt(second)
        c, s, phase = rotations(first, jnp.where(rotates, product, 0), second)
        return turned_columns(columns, c, s, phase), turned_columns(turns, c, s, phase), active | jnp.any(rotates)

    def proceed(state: tuple[Any, ...]) -> Any:
        sweep, *_, active = state
        return (sweep < _MAX_SWEEPS) & active

    def sweep(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, columns, turns, _ = state
        return count + 1, *lax.fori_loop(0, 2 * half - 1, rotate, (columns, turns, jnp.zeros((), bool)))

    _, columns, turns, _ = lax.while_loop(proceed, sweep, (0, columns, turns, jnp.ones((), bool)))
    v, s = _unit_columns(columns.reshape(n, 2 * half)[:, :n])
    return turns.reshape(2 * half, 2 * half)[:n, :n], s, v
