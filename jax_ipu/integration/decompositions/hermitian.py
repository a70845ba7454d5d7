"""The Hermitian eigenproblem: implicit QR for small matrices, else divide and conquer; or the given method."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax_ipu.integration.decompositions.householder import (
    apply_reflectors,
    batched_dot,
    from_triangle,
    over_batches,
    tridiagonal_of_whole,
)
from jax_ipu.integration.decompositions.native import tridiagonal_qr
from jax_ipu.integration.decompositions.spectral import qdwh

# Largest size for implicit QR, whose rotations follow one another: larger matrices take fewer cycles if divided. And
# the size of the blocks at which dividing ends.
_QR_SIZE, _LEAF_SIZE = 32, 4
# Enough for any size: convergence is quadratic after the first few.
_MAX_SWEEPS = 30
# Enough even for bisection alone between two poles: it needs a step per digit and exponent of a double.
_MAX_ROOT_STEPS = 150


def eigh(
    a: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None, algorithm: Any = None
) -> tuple[Any, Any]:
    """Eigenvectors (..., n, n) and eigenvalues (..., n) of the matrices of which `a` holds one triangle."""
    import jax.numpy as jnp
    from jax._src.lax import linalg

    n, batch, real = a.shape[-1], a.shape[:-2], a.real.dtype
    if n == 0:
        return a, jnp.zeros((*batch, 0), real)
    a = from_triangle(a, lower)
    size = jnp.max(jnp.abs(a), (-2, -1), keepdims=True)
    finite = jnp.isfinite(size)
    scale = jnp.where((size == 0) | ~finite, jnp.ones_like(size), size)
    start = jnp.where(finite, a / scale.astype(a.dtype), 0)
    methods: dict[Any, Callable[..., Any]] = {
        None: over_batches(_qr if n <= _QR_SIZE else _divide_and_conquer),
        linalg.EighImplementation.JACOBI: _jacobi,
        linalg.EighImplementation.QDWH: qdwh,
        linalg.EighImplementation.QR: over_batches(_qr),
    }
    vectors, values = methods[algorithm](start)
    nan = jnp.array(jnp.nan, real)
    values = jnp.where(finite[..., 0], values * size[..., 0], nan)
    vectors = jnp.where(finite, vectors, nan.astype(a.dtype))
    if sort_eigenvalues or subset_by_index is not None:
        order = jnp.argsort(values, -1)
        values = jnp.take_along_axis(values, order, -1)
        vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    if subset_by_index is not None:
        begin, end = subset_by_index
        values, vectors = values[..., begin:end], vectors[..., begin:end]
    return vectors, values


def _jacobi(a: Any) -> tuple[Any, Any]:
    """Eigenvectors (..., n, n) and eigenvalues (..., n) of Hermitian (..., n, n) with entries of at most 1.

    Every step rotates n / 2 disjoint pairs of rows and columns at once; the order of pairs is that of Brent and Luk
    (The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays, 1985): after a rotation,
    moving tops and bottoms on by one place makes the next pairs neighbours.
    """
    import jax.numpy as jnp
    from jax import lax

    n, batch, real = a.shape[-1], a.shape[:-2], a.real.dtype
    # An odd size is padded with an index that never rotates and is back in its place after each whole sweep.
    half = (n + 1) // 2
    start = jnp.pad(a, [(0, 0)] * len(batch) + [(0, 2 * half - n)] * 2)
    matrix = start.reshape(*batch, 2, half, 2, half)
    vectors = jnp.broadcast_to(jnp.eye(2 * half, dtype=a.dtype), start.shape).reshape(*batch, 2 * half, 2, half)
    tolerance = float(np.finfo(real).eps) * jnp.sqrt(jnp.sum(jnp.abs(start) ** 2, (-2, -1)))

    def is_active(matrix: Any) -> Any:
        off = jnp.where(jnp.eye(2 * half, dtype=bool), 0, matrix.reshape(start.shape))
        return jnp.sqrt(jnp.sum(jnp.abs(off) ** 2, (-2, -1))) > tolerance

    def proceed(state: tuple[Any, ...]) -> Any:
        sweep, _, _, active = state
        return (sweep < _MAX_SWEEPS) & jnp.any(active)

    def run_sweep(state: tuple[Any, ...]) -> tuple[Any, ...]:
        sweep, matrix, vectors, active = state
        turned = lax.fori_loop(0, 2 * half - 1, lambda _, s: _rotate_pairs(*s), (matrix, vectors))
        # Freeze converged matrices, so that results do not depend on the rest of the batch.
        stays = ~active[..., None, None, None]
        matrix = jnp.where(stays[..., None], matrix, turned[0])
        return sweep + 1, matrix, jnp.where(stays, vectors, turned[1]), is_active(matrix)

    _, matrix, vectors, _ = lax.while_loop(proceed, run_sweep, (0, matrix, vectors, is_active(matrix)))
    values = jnp.diagonal(matrix.reshape(start.shape), axis1=-2, axis2=-1).real[..., :n]
    return vectors.reshape(start.shape)[..., :n, :n], values


def _divide_and_conquer(a: Any) -> tuple[Any, Any]:
    """Eigenvectors (n, n) and eigenvalues (n,) of a Hermitian (n, n) with entries of at most 1."""
    packed, d, e, taus = tridiagonal_of_whole(a)
    vectors, values = divided(d, e)
    return apply_reflectors(packed, taus, vectors.astype(a.dtype)), values


def _qr(a: Any) -> tuple[Any, Any]:
    """The same by the implicit QR algorithm on the tridiagonal form, as LAPACK's syev."""
    import jax.numpy as jnp

    n = a.shape[0]
    if n == 1:
        return jnp.ones_like(a), a[0].real
    packed, d, e, taus = tridiagonal_of_whole(a)
    values, rows = tridiagonal_qr(d, e, jnp.eye(n, dtype=d.dtype))
    return apply_reflectors(packed, taus, rows.T.astype(a.dtype)), values


def divided(d: Any, e: Any) -> tuple[Any, Any]:
    """Eigenvectors (n, n), eigenvalues (n,) of the real matrix with diagonal d (n,), n > 4, and e (n - 1,) beside it.

    The matrix is cut into blocks of one size, whose solutions are merged two by two (Cuppen, A divide and conquer
    method for the symmetric tridiagonal eigenproblem, 1981). Entries should be of at most about 1.
    """
    import jax.numpy as jnp

    n = d.shape[0]
    levels = math.ceil(math.log2(n / _LEAF_SIZE))
    size = -(-n // 2**levels)
    padded = size << levels
    # The padding of the last block has eigenvalues larger than all others.
    beyond = 4 * jnp.maximum(jnp.max(jnp.abs(d)), jnp.max(jnp.abs(e))) + 1
    d = jnp.concatenate([d, jnp.full((padded - n,), beyond)])
    e = jnp.pad(e, (0, padded - n + 1))
    cuts = jnp.abs(e[size - 1 :: size])
    # A cut writes the matrix as two blocks plus a matrix of rank 1, whose four entries are all the cut's entry.
    d = d.reshape(-1, size).at[:, -1].add(-cuts).at[1:, 0].add(-cuts[:-1])
    inner = e.reshape(-1, size)[:, :-1]
    places = jnp.arange(size - 1)
    blocks = jnp.zeros((2**levels, size, size), d.dtype).at[:, places, places + 1].set(inner)
    blocks = blocks + jnp.swapaxes(blocks, -1, -2) + jnp.eye(size, dtype=d.dtype) * d[:, :, None]
    vectors, values = _jacobi(blocks)
    cuts = e[size - 1 :: size]
    for _ in range(levels):
        pairs = (values.shape[0] // 2, 2, values.shape[1])
        vectors, values = _merge(vectors.reshape(*pairs, pairs[-1]), values.reshape(pairs), cuts[::2])
        cuts = cuts[1::2]
    return vectors[0, :n, :n], values[0, :n]


def _merge(vectors: Any, values: Any, cut: Any) -> tuple[Any, Any]:
    """Eigenpairs of pairs of blocks with known eigenpairs, coupled only by the entries `cut` between neighbours.

    vectors (m, 2, k, k), values (m, 2, k), cut (m,) -> (m, 2k, 2k), (m, 2k). In the basis of the vectors the matrix is
    D + rho z z^T. No entry is deflated: equal values are moved apart by less than the rounding error and small entries
    of z are raised to it, so that every eigenvalue is between its neighbours in D. z is then recomputed to fit the
    computed eigenvalues exactly (Gu and Eisenstat, A stable and efficient algorithm for the rank-one modification of
    the symmetric eigenproblem, 1994), which makes the vectors orthogonal.
    """
    import jax.numpy as jnp

    m, _, k = values.shape
    n, real = 2 * k, values.dtype
    eps = float(np.finfo(real).eps)
    d = values.reshape(m, n)
    scale = jnp.maximum(jnp.max(jnp.abs(d), -1), jnp.abs(cut))[:, None]
    scale = jnp.where(scale == 0, 1, scale)
    rho = jnp.maximum(jnp.abs(cut)[:, None] / scale, eps / 4)
    z = jnp.concatenate([vectors[:, 0, -1], jnp.where(cut < 0, -1, 1)[:, None] * vectors[:, 1, 0]], -1)
    z = jnp.where(jnp.abs(z) < eps / 4, eps / 4, z)
    order = jnp.argsort(d, -1)
    place = jnp.argsort(order, -1)
    take = functools.partial(jnp.take_along_axis, axis=-1)
    high = take(d / scale, order)
    # The low parts are multiples of a power of two, hence exact, and below eps / 8.
    low = jnp.broadcast_to(jnp.arange(n, dtype=real) * (eps / (8 << (n - 1).bit_length())), (m, n))
    base, poles, length, x = _secular_roots(high, low, rho * take(z, order) ** 2, eps)
    away = x[:, :, None] - poles  # (eigenvalue i - d_j) / length_i

    # z_j^2 is the product over i of (eigenvalue i - d_j) / (d_i - d_j); from i = j on, divide by the next d instead,
    # so that each factor is at most 1.
    between = _differences(high, low, high, low)  # d_j - d_i
    following = jnp.concatenate([-between[:, 1:], jnp.ones((m, 1, n), real)], 1)
    factors = away * length[:, :, None] / jnp.where(jnp.tri(n, n, -1, dtype=bool).T, -between, following)
    fitted = jnp.copysign(jnp.sqrt(jnp.abs(jnp.prod(factors, 1))), take(z, order))
    rows = take(fitted, place)[:, None, :] / take(away, jnp.broadcast_to(place[:, None, :], away.shape))
    rows = rows / jnp.max(jnp.abs(rows), -1, keepdims=True)
    rows = rows / jnp.sqrt(jnp.sum(rows * rows, -1, keepdims=True))
    merged = base + x * length
    # Uncoupled blocks keep their eigenpairs unchanged.
    apart = jnp.abs(cut)[:, None] <= eps / 4 * scale
    rows = jnp.where(apart[:, :, None], place[:, None, :] == jnp.arange(n)[:, None], rows)
    merged = jnp.where(apart, high, merged)
    inner = jnp.swapaxes(rows, -1, -2)
    halves = batched_dot(vectors, inner.reshape(m, 2, k, n))
    return halves.reshape(m, n, n), merged * scale


def _differences(high: Any, low: Any, base_high: Any, base_low: Any) -> Any:
    """(m, i, j): high_j + low_j minus base i, to full relative accuracy."""
    return (high[:, None, :] - base_high[:, :, None]) + (low[:, None, :] - base_low[:, :, None])


def _secular_roots(high: Any, low: Any, weight: Any, eps: float) -> tuple[Any, Any, Any, Any]:
    """The zeros of 1 + sum_j weight_j / (d_j - x), one beyond each of the ascending poles d = high + low (m, n).

    Returns base (m, n), poles (m, n, n), length (m, n) and x (m, n): zero i is base_i + length_i x_i, where the base is
    the nearer of the two poles around it, and poles[i, j] is (d_j - base_i) / length_i.

    Each step fits a rational function with both poles to the sums over the poles on either side (Li, Solving secular
    equations stably and efficiently, 1993); bisection takes over when a step leaves the bracket.
    """
    import jax.numpy as jnp
    from jax import lax

    n, real = high.shape[-1], high.dtype
    last = jnp.arange(n) == n - 1
    next_high, next_low = (jnp.concatenate([part[:, 1:], part[:, -1:]], -1) for part in (high, low))
    total = jnp.sum(weight, -1, keepdims=True) * (1 + 4 * eps)
    length = jnp.where(last, total, (next_high - high) + (next_low - low))
    halfway = 1 + jnp.sum(weight[:, None, :] / (_differences(high, low, high, low) - length[:, :, None] / 2), -1)
    from_right = (halfway < 0) & ~last
    base_high, base_low = jnp.where(from_right, next_high, high), jnp.where(from_right, next_low, low)
    poles = _differences(high, low, base_high, base_low) / length[:, :, None]
    scaled = weight[:, None, :] / length[:, :, None]
    up_to = jnp.tri(n, n, dtype=bool)
    left, side = jnp.where(from_right, -1, 0).astype(real), jnp.where(from_right, -1, 1).astype(real)
    half = jnp.full(high.shape, 0.5, real)
    begin = jnp.where(from_right, -half, jnp.where(last & (halfway < 0), half, 0))

    def proceed(state: tuple[Any, ...]) -> Any:
        count, *_, active = state
        return (count < _MAX_ROOT_STEPS) & jnp.any(active)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, x, lower, upper, active = state
        inverse = 1 / (poles - x[:, :, None])
        terms = scaled * inverse
        slopes = terms * inverse
        before, after = jnp.sum(jnp.where(up_to, terms, 0), -1), jnp.sum(jnp.where(up_to, 0, terms), -1)
        slope, slope_after = jnp.sum(jnp.where(up_to, slopes, 0), -1), jnp.sum(jnp.where(up_to, 0, slopes), -1)
        value = 1 + before + after
        found = jnp.abs(value) <= 4 * eps * (1 - before + after)
        lower, upper = jnp.where(value < 0, x, lower), jnp.where(value < 0, upper, x)
        # u is the distance from the base to the zero of the fitted function; no digits cancel near the pole.
        p, q = left - x, left + 1 - x
        near, far = (
            jnp.where(from_right, q * q * slope_after, p * p * slope),
            jnp.where(from_right, p * p * slope, q * q * slope_after),
        )
        c = side * (value - p * slope - q * slope_after)
        b = c + near + far
        root = jnp.sqrt(jnp.maximum(b * b - 4 * c * near, 0))
        new = side * jnp.where(b > 0, 2 * near / (b + root), (b - root) / (2 * c))
        new = jnp.where((new > lower) & (new < upper), new, (lower + upper) / 2)
        active = active & ~found & (new > lower) & (new < upper)
        return count + 1, jnp.where(active, new, x), lower, upper, active

    start = (0, begin + half / 2, begin, begin + half, jnp.ones(high.shape, bool))
    _, x, *_ = lax.while_loop(proceed, step, start)
    return base_high + base_low, poles, length, x


def _rotate_pairs(matrix: Any, vectors: Any) -> tuple[Any, Any]:
    """Zeroes the entries of all pairs. matrix (..., 2, k, 2, k): pair i is made of rows (0, i) and (1, i)."""
    import jax.numpy as jnp

    def pairs(p: int, q: int) -> Any:
        return jnp.diagonal(matrix[..., p, :, q, :], axis1=-2, axis2=-1)

    c, s, phase = rotations(pairs(0, 0).real, pairs(0, 1), pairs(1, 1).real)

    # Rows by J^H, then columns by J, with J = ((c, s), (-conj(phase) s, conj(phase) c)).
    column = (..., slice(None), None, None)
    top, bottom = _turned(matrix[..., 0, :, :, :], matrix[..., 1, :, :, :], c[column], s[column], phase[column])
    rows = jnp.stack(_advance(top, bottom, -3), -4)
    turn = (c[..., None, :], s[..., None, :], phase[..., None, :])
    return turned_columns(rows, *turn), turned_columns(vectors, c, s, phase)


def rotations(a: Any, b: Any, d: Any) -> tuple[Any, Any, Any]:
    """c, s, phase (...) with J = ((c, s), (-conj(phase) s, conj(phase) c)) that makes ((a, b), (conj(b), d)) diagonal.

    The smaller of the two angles; the identity where b is zero. a and d are real.
    """
    import jax.numpy as jnp

    size = jnp.abs(b)
    rotates = size > 0
    phase = jnp.where(rotates, b / jnp.where(rotates, size, 1).astype(b.dtype), jnp.ones_like(b))
    theta = (d - a) / jnp.where(rotates, 2 * size, 1)
    tangent = jnp.where(theta >= 0, 1.0, -1.0).astype(a.dtype) / (jnp.abs(theta) + jnp.sqrt(1 + theta * theta))
    tangent = jnp.where(rotates, tangent, 0)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine.astype(b.dtype), (tangent * cosine).astype(b.dtype), phase


def _turned(low: Any, high: Any, c: Any, s: Any, phase: Any) -> tuple[Any, Any]:
    return c * low - phase * s * high, s * low + phase * c * high


def turned_columns(x: Any, c: Any, s: Any, phase: Any) -> Any:
    """The columns of x (..., m, 2, k), k pairs, times J of each pair (..., k), in the places of the next pairs."""
    import jax.numpy as jnp

    turn = c[..., None, :], s[..., None, :], phase.conj()[..., None, :]
    return jnp.stack(_advance(*_turned(x[..., 0, :], x[..., 1, :], *turn), -1), -2)


def _advance(top: Any, bottom: Any, axis: int) -> tuple[Any, Any]:
    """The next pairs: all except the first top move on by one place, in a circle through the bottoms."""
    import jax.numpy as jnp

    k = top.shape[axis]
    if k == 1:
        return top, bottom

    def part(x: Any, begin: int, end: int) -> Any:
        index = [slice(None)] * x.ndim
        index[axis] = slice(begin, end)
        return x[tuple(index)]

    tops = [part(top, 0, 1), part(bottom, 0, 1), part(top, 1, k - 1)]
    return (
        jnp.concatenate(tops, axis),
        jnp.concatenate([part(bottom, 1, k), part(top, k - 1, k)], axis),
    )
