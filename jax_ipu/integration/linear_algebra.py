"""Decompositions that JAX has no generic form of: QR, Hessenberg, tridiagonal, and the Hermitian eigenproblem.

Written in JAX and lowered for ``ipu`` in place of LAPACK, with LAPACK's results: packed reflectors, taus, real
diagonals. JAX's generic SVD and polar decomposition build on them. `eig`, `schur` and pivoted QR have no rule, as on
other accelerators: JAX says so. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

PLATFORM = "ipu"


def enable() -> None:
    """Registers the lowerings. Importing JAX's module of the SVD registers its generic one."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg
    from jax._src.tpu.linalg import svd as _generic_svd  # noqa: F401

    rules: dict[Any, Callable[..., Any]] = {
        linalg.geqrf_p: _over_batches(_geqrf),
        linalg.householder_product_p: _over_batches(_householder_product),
        linalg.hessenberg_p: _over_batches(_hessenberg),
        linalg.tridiagonal_p: _tridiagonal,
        linalg.eigh_p: _eigh,
    }
    for primitive, rule in rules.items():
        lowering = mlir.lower_fun(_with_usual_promotion(rule), multiple_results=primitive.multiple_results)
        mlir.register_lowering(primitive, _on_plain_arrays(lowering), platform=PLATFORM)
    for primitive in (linalg.lu_p, linalg.qr_p, linalg.svd_p, linalg.tridiagonal_solve_p):
        generic = mlir._lowerings[primitive].rule
        mlir.register_lowering(primitive, _on_plain_arrays(generic), platform=PLATFORM)


def _on_plain_arrays(lowering: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering, without the mesh axes that the types of its operands name.

    The loops in these rules start from constants, which do not vary over the axes of a mesh as the operands may; and
    what they gather has no place in a sharding that the user chooses. XLA partitions what is in them.
    """

    @functools.wraps(lowering)
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        from jax._src import core
        from jax.sharding import AxisType, get_abstract_mesh, use_abstract_mesh

        plain = ctx.replace(avals_in=[core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in])
        mesh = get_abstract_mesh()
        if mesh.empty:
            return lowering(plain, *args, **params)
        with use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(mesh.axis_names, AxisType.Auto))):
            return lowering(plain, *args, **params)

    return lower


def _with_usual_promotion(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, whatever the user asks of the promotion of types and ranks in code of their own."""

    @functools.wraps(rule)
    def wrapped(*args: Any, **params: Any) -> Any:
        import jax

        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return rule(*args, **params)

    return wrapped


def _over_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices (and of vectors, as second argument) over any leading dimensions."""

    @functools.wraps(function)
    def batched(a: Any, *rest: Any, **params: Any) -> Any:
        import jax

        apply: Callable[..., Any] = functools.partial(function, **params)
        for _ in range(a.ndim - 2):
            apply = jax.vmap(apply)
        return apply(a, *rest)

    return batched


def _dot(a: Any, b: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    return jnp.dot(a, b, precision=lax.Precision.HIGHEST)


def _reflector(column: Any, pivot: Any) -> tuple[Any, Any, Any]:
    """Of H = 1 - tau v v^H, with H^H column = beta at `pivot` and 0 below: v (1 at the pivot, 0 above), tau, beta.

    The formulas of LAPACK's larfg; beta is real. The column is scaled, so that squares do not overflow.
    """
    import jax.numpy as jnp

    rows = jnp.arange(column.shape[0])
    alpha = column[pivot]
    below = jnp.where(rows > pivot, column, 0)
    scale = jnp.maximum(jnp.max(jnp.abs(below)), jnp.abs(alpha))
    scale = jnp.where(scale == 0, jnp.ones_like(scale), scale)
    norm = scale * jnp.sqrt(jnp.sum(jnp.abs(below / scale) ** 2) + jnp.abs(alpha / scale) ** 2)
    beta = -jnp.copysign(norm, alpha.real)
    nothing = jnp.logical_and(jnp.all(below == 0), alpha.imag == 0)
    beta = jnp.where(nothing, alpha.real, beta).astype(column.dtype)
    one = jnp.ones((), column.dtype)
    tau = jnp.where(nothing, 0 * one, (beta - alpha) / jnp.where(beta == 0, one, beta))
    v = jnp.where(rows == pivot, one, below / jnp.where(nothing, one, alpha - beta))
    return v, tau, beta


def _packed(column: Any, v: Any, beta: Any, pivot: Any) -> Any:
    """The column after the step: what was above, beta at the pivot, the reflector below."""
    import jax.numpy as jnp

    rows = jnp.arange(column.shape[0])
    return jnp.where(rows < pivot, column, jnp.where(rows == pivot, beta, v))


def _geqrf(a: Any) -> tuple[Any, Any]:
    """(m, n) -> R above reflectors (m, n), taus (min(m, n),)."""
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    count = min(m, n)

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, j)
        update = jnp.where(jnp.arange(n) > j, tau.conj() * _dot(v.conj(), a), 0)
        a = a - v[:, None] * update[None, :]
        a = lax.dynamic_update_index_in_dim(a, _packed(column, v, beta, j), j, 1)
        return a, taus.at[j].set(tau)

    a, taus = lax.fori_loop(0, count, step, (a, jnp.zeros((count,), a.dtype)))
    return a, taus


def _householder_product(a: Any, taus: Any) -> Any:
    """The first n columns of H_0 H_1 ... from packed reflectors (m, n) and taus."""
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    count = taus.shape[0]
    rows = jnp.arange(m)

    def step(i: Any, q: Any) -> Any:
        j = count - 1 - i
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v = jnp.where(rows == j, jnp.ones((), a.dtype), jnp.where(rows > j, column, 0))
        return q - v[:, None] * (taus[j] * _dot(v.conj(), q))[None, :]

    return lax.fori_loop(0, count, step, jnp.eye(m, n, dtype=a.dtype))


def _hessenberg(a: Any) -> tuple[Any, Any]:
    """(n, n) -> H above the reflectors of Q (n, n), taus (n - 1,); Q^H A Q = H."""
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    count = max(n - 1, 0)
    indices = jnp.arange(n)

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, j + 1)
        # The reflectors of earlier columns lie to the left: only the columns after j take part.
        active = jnp.where(indices > j, a, 0)
        a = a - (tau * _dot(active, v))[:, None] * v.conj()[None, :]
        left = jnp.where(indices > j, tau.conj() * _dot(v.conj(), a), 0)
        a = a - v[:, None] * left[None, :]
        a = lax.dynamic_update_index_in_dim(a, _packed(column, v, beta, j + 1), j, 1)
        return a, taus.at[j].set(tau)

    taus = jnp.zeros((count,), a.dtype)
    if count:
        a, taus = lax.fori_loop(0, count, step, (a, taus))
    return a, taus


def _tridiagonal(a: Any, *, lower: bool) -> tuple[Any, Any, Any, Any]:
    """Hermitian (..., n, n) -> packed reflectors, diagonal, off-diagonal, taus, as LAPACK's sytrd and hetrd."""
    import jax.numpy as jnp

    if not lower:
        # From the other end: the upper form of A is the lower form of A with both orders reversed.
        packed, d, e, taus = _tridiagonal(jnp.flip(a, (-2, -1)), lower=True)
        upper = jnp.triu(jnp.flip(packed, (-2, -1)))
        return upper + jnp.tril(a, -1), jnp.flip(d, -1), jnp.flip(e, -1), jnp.flip(taus, -1)
    whole = _from_triangle(a, lower=True)
    packed, d, e, taus = _over_batches(_tridiagonal_lower)(whole)
    return jnp.tril(packed) + jnp.triu(a, 1), d, e, taus


def _tridiagonal_lower(a: Any) -> tuple[Any, Any, Any, Any]:
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    count = max(n - 1, 0)
    indices = jnp.arange(n)

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        column = lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        v, tau, beta = _reflector(column, j + 1)
        active = jnp.where((indices[:, None] > j) & (indices[None, :] > j), a, 0)
        right = active - (tau * _dot(active, v))[:, None] * v.conj()[None, :]
        both = right - v[:, None] * (tau.conj() * _dot(v.conj(), right))[None, :]
        a = jnp.where((indices[:, None] > j) & (indices[None, :] > j), both, a)
        a = lax.dynamic_update_index_in_dim(a, _packed(column, v, beta, j + 1), j, 1)
        return a, taus.at[j].set(tau)

    taus = jnp.zeros((count,), a.dtype)
    if count:
        a, taus = lax.fori_loop(0, count, step, (a, taus))
    return a, jnp.diagonal(a).real, jnp.diagonal(a, -1).real, taus


def _from_triangle(a: Any, lower: bool) -> Any:
    """The Hermitian matrices of which `a` holds one triangle."""
    import jax.numpy as jnp

    strict = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    diagonal = jnp.eye(a.shape[-1], dtype=a.real.dtype) * a.real
    return strict + jnp.swapaxes(strict.conj(), -1, -2) + diagonal


# Enough for any size: convergence is quadratic after the first few.
_MAX_SWEEPS = 30


def _eigh(
    a: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None, algorithm: Any = None
) -> tuple[Any, Any]:
    """Eigenvectors (..., n, n) and eigenvalues (..., n) by Jacobi's method.

    Every step rotates n / 2 disjoint pairs of rows and columns at once; the order of pairs is that of Brent and Luk
    (The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays, 1985): after a rotation
    the pairs are neighbours again when tops and bottoms move on by one place.
    """
    import jax.numpy as jnp
    from jax import lax
    from jax._src.lax import linalg

    if algorithm not in (None, linalg.EighImplementation.JACOBI):
        raise NotImplementedError(f"eigh on ipu has one algorithm, Jacobi's; {algorithm} was asked for")
    n, batch, real = a.shape[-1], a.shape[:-2], a.real.dtype
    if n == 0:
        return a, jnp.zeros((*batch, 0), real)
    a = _from_triangle(a, lower)
    size = jnp.max(jnp.abs(a), (-2, -1), keepdims=True)
    finite = jnp.isfinite(size)
    scale = jnp.where((size == 0) | ~finite, jnp.ones_like(size), size)
    # An odd size gets an index of its own that never rotates, and comes back to its place after whole sweeps.
    half = (n + 1) // 2
    padding = [(0, 0)] * len(batch) + [(0, 2 * half - n)] * 2
    start = jnp.pad(jnp.where(finite, a / scale.astype(a.dtype), 0), padding)
    matrix = start.reshape(*batch, 2, half, 2, half)
    vectors = jnp.broadcast_to(jnp.eye(2 * half, dtype=a.dtype), start.shape).reshape(*batch, 2 * half, 2, half)
    tolerance = float(np.finfo(real).eps) * jnp.sqrt(jnp.sum(jnp.abs(start) ** 2, (-2, -1)))

    def proceed(state: tuple[Any, Any, Any]) -> Any:
        sweep, matrix, _ = state
        square = matrix.reshape(start.shape)
        off = jnp.where(jnp.eye(2 * half, dtype=bool), 0, square)
        return (sweep < _MAX_SWEEPS) & jnp.any(jnp.sqrt(jnp.sum(jnp.abs(off) ** 2, (-2, -1))) > tolerance)

    def run_sweep(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        sweep, matrix, vectors = state
        matrix, vectors = lax.fori_loop(0, 2 * half - 1, lambda _, s: _rotate_pairs(*s), (matrix, vectors))
        return sweep + 1, matrix, vectors

    _, matrix, vectors = lax.while_loop(proceed, run_sweep, (0, matrix, vectors))
    values = jnp.diagonal(matrix.reshape(start.shape), axis1=-2, axis2=-1).real[..., :n] * scale[..., 0].astype(real)
    vectors = vectors.reshape(start.shape)[..., :n, :n]
    nan = jnp.array(jnp.nan, real)
    values = jnp.where(finite[..., 0], values, nan)
    vectors = jnp.where(finite, vectors, nan.astype(a.dtype))
    if sort_eigenvalues or subset_by_index is not None:
        order = jnp.argsort(values, -1)
        values = jnp.take_along_axis(values, order, -1)
        vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    if subset_by_index is not None:
        begin, end = subset_by_index
        values, vectors = values[..., begin:end], vectors[..., begin:end]
    return vectors, values


def _rotate_pairs(matrix: Any, vectors: Any) -> tuple[Any, Any]:
    """Zeroes the entries of all pairs. matrix (..., 2, k, 2, k): pair i is made of rows (0, i) and (1, i)."""
    import jax.numpy as jnp

    def pairs(p: int, q: int) -> Any:
        return jnp.diagonal(matrix[..., p, :, q, :], axis1=-2, axis2=-1)

    a, b, d = pairs(0, 0).real, pairs(0, 1), pairs(1, 1).real
    size = jnp.abs(b)
    rotates = size > 0
    phase = jnp.where(rotates, b / jnp.where(rotates, size, 1).astype(b.dtype), jnp.ones_like(b))
    theta = (d - a) / jnp.where(rotates, 2 * size, 1)
    tangent = jnp.where(theta >= 0, 1.0, -1.0).astype(a.dtype) / (jnp.abs(theta) + jnp.sqrt(1 + theta * theta))
    tangent = jnp.where(rotates, tangent, 0)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    c = cosine.astype(b.dtype)
    s = (tangent * cosine).astype(b.dtype)

    def rotate(low: Any, high: Any, c: Any, s: Any, phase: Any) -> tuple[Any, Any]:
        return c * low - phase * s * high, s * low + phase * c * high

    # Rows by J^H, then columns by J, with J = ((c, s), (-conj(phase) s, conj(phase) c)).
    column = (..., slice(None), None, None)
    top, bottom = rotate(matrix[..., 0, :, :, :], matrix[..., 1, :, :, :], c[column], s[column], phase[column])
    rows = jnp.stack(_advance(top, bottom, -3), -4)
    row: Any = (..., None, None, slice(None))
    turned = rotate(rows[..., 0, :], rows[..., 1, :], c[row], s[row], phase.conj()[row])
    matrix = jnp.stack(_advance(*turned, -1), -2)
    row = (..., None, slice(None))
    turned = rotate(vectors[..., 0, :], vectors[..., 1, :], c[row], s[row], phase.conj()[row])
    return matrix, jnp.stack(_advance(*turned, -1), -2)


def _advance(top: Any, bottom: Any, axis: int) -> tuple[Any, Any]:
    """The next pairs: all but the first top move on by one place, in a circle through the bottoms."""
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
