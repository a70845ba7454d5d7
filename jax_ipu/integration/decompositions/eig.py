"""Eigenvalues and eigenvectors of general matrices, from the Schur form, with the normalisation of LAPACK's geev."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax_ipu.integration.decompositions import native
from jax_ipu.integration.decompositions.balancing import permuted, permuting_order, scaling
from jax_ipu.integration.decompositions.householder import batched_dot, diagonal
from jax_ipu.integration.decompositions.schur import scaled, schur_form, shifted, with_turned_pairs


def eig(
    a: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> tuple[Any, ...]:
    """Eigenvalues (..., n), then left and right eigenvectors (..., n, n) if requested, of `a` (..., n, n).

    Vectors have 2-norm 1, and their largest component is real. For real matrices, conjugate eigenvalues are adjacent,
    the one with positive imaginary part first, and their vectors are conjugate. NaN where A is not finite or the
    iteration does not converge.
    """
    import jax.numpy as jnp

    del enable_eigvec_derivs
    if implementation is not None:
        raise NotImplementedError(
            f"eig on ipu has one algorithm, and not {implementation.name}, a choice between libraries. "
            f"Leave `implementation` (or `use_magma`) out"
        )
    n, complex_dtype = a.shape[-1], jnp.promote_types(a.dtype, np.complex64)
    vectors = compute_left_eigenvectors + compute_right_eigenvectors
    if n == 0:
        return (jnp.zeros(a.shape[:-1], complex_dtype), *[a.astype(complex_dtype)] * vectors)
    small = n <= native.MOST_SCHUR_ROWS
    if small and vectors == 0:
        (t,) = native.schur(a, balanced=True, vectors=False)
        return (_triangular(t, None)[0],)
    good: Any
    start, size, good = scaled(a)
    if small:
        t, z = native.schur(start, balanced=True, vectors=True)
    else:
        order, middle = permuting_order(start)
        balanced, scale = scaling(permuted(start, order), middle)
        t, z, converged = schur_form(balanced, vectors > 0)
        good = good & converged
        if z is not None:
            # A = Z T Z^-1 for the matrix as it was before balancing.
            place = jnp.argsort(order, -1)
            z = jnp.take_along_axis(z * scale[..., :, None].astype(z.dtype), place[..., :, None], -2)
    values, t, z = _triangular(t, z)
    results = [jnp.where(good[..., None], values * size[..., None].astype(complex_dtype), jnp.nan)]
    if vectors == 0:
        return tuple(results)

    # Left eigenvectors of T are right ones of its conjugate transpose; reversing both orders makes that triangular.
    wanted = []
    if compute_left_eigenvectors:
        wanted.append((jnp.flip(jnp.swapaxes(t, -1, -2), (-2, -1)), jnp.flip(values, -1)))
    if compute_right_eigenvectors:
        wanted.append((t, values))
    solutions = list(_triangular_vectors(*(jnp.stack(parts) for parts in zip(*wanted, strict=True))))
    bases = [z] * vectors
    if compute_left_eigenvectors:
        solutions[0] = jnp.flip(solutions[0].conj(), (-2, -1))
        # Z^-H: the rows of Z are orthogonal, and their norms are the factors of balancing.
        squares = jnp.sum(z.real * z.real + z.imag * z.imag, -1, keepdims=True)
        bases[0] = z / squares.astype(complex_dtype)
    for basis, solution in zip(bases, solutions, strict=True):
        v = batched_dot(basis, solution)
        if not jnp.iscomplexobj(a):
            v = _with_conjugate_pairs(v, values)
        v = _normalised(v, not jnp.iscomplexobj(a))
        results.append(jnp.where(good[..., None, None], v, jnp.nan))
    return tuple(results)


def _triangular(t: Any, z: Any) -> tuple[Any, Any, Any]:
    """The eigenvalues (..., n), and the complex Schur form T, Z of the real one, whose 2 x 2 blocks are standard."""
    import jax.numpy as jnp

    d = diagonal(t)
    if jnp.iscomplexobj(t):
        return d, t, z
    dtype, n = jnp.promote_types(t.dtype, np.complex64), t.shape[-1]
    if n == 1:
        return d.astype(dtype), t.astype(dtype), None if z is None else z.astype(dtype)
    low, up = diagonal(t, -1), diagonal(t, 1)
    is_block = low != 0
    root_low, root_up = jnp.sqrt(jnp.abs(low)), jnp.sqrt(jnp.abs(up))
    turn = jnp.where(is_block, root_low * root_up, 0)
    margin = [(0, 0)] * (turn.ndim - 1)
    values = jnp.pad(turn, [*margin, (0, 1)]) - jnp.pad(turn, [*margin, (1, 0)])
    values = d + 1j * values.astype(dtype)
    if z is None:
        return values, t, z
    # The columns of ((cosine, i sine), (i sine, cosine)) are the vectors of ((x, b), (c, x)), without cancellation.
    length = jnp.hypot(root_low, root_up)
    length = jnp.where(is_block, length, 1)
    cosine = jnp.where(is_block, root_up / length, 1).astype(dtype)
    sine = 1j * jnp.where(is_block, jnp.copysign(root_low / length, up), 0).astype(dtype)
    turned = with_turned_pairs(with_turned_pairs(t.astype(dtype), cosine, sine, sine, -1), cosine, -sine, -sine, -2)
    z = with_turned_pairs(z.astype(dtype), cosine, sine, sine, -1)
    return values, jnp.where(jnp.eye(n, dtype=bool), values[..., :, None], jnp.triu(turned)), z


def _triangular_vectors(t: Any, values: Any) -> Any:
    """The eigenvectors (..., n, n) of upper triangular T with the diagonal `values`, each with entries of at most 1.

    All are solved for at once, from the last row up. Divisors below the rounding error of the eigenvalue are raised to
    it, and a vector that grows is scaled down, as in LAPACK's trevc.
    """
    import jax.numpy as jnp
    from jax import lax

    n, dtype = t.shape[-1], t.dtype
    limits = np.finfo(dtype)
    rows = jnp.arange(n)
    least = jnp.maximum(
        float(limits.eps) * (jnp.abs(values.real) + jnp.abs(values.imag)), float(limits.tiny) * n / float(limits.eps)
    )

    def step(i: Any, x: Any) -> Any:
        """`x` holds the solution below row j and the remaining right-hand side above it."""
        j = n - 1 - i
        right = lax.dynamic_index_in_dim(x, j, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(t, j, -1, keepdims=False)
        divisor = lax.dynamic_index_in_dim(values, j, -1) - values
        small = jnp.abs(divisor.real) + jnp.abs(divisor.imag) < least
        solution = right / jnp.where(small, least.astype(dtype), divisor)
        solution = jnp.where(rows > j, solution, jnp.where(rows == j, 1, 0).astype(dtype))
        growth = jnp.maximum(jnp.abs(solution.real), jnp.abs(solution.imag))
        shrink = jnp.where(growth > 1, 1 / jnp.where(growth > 1, growth, 1), 1).astype(dtype)
        solution = solution * shrink
        above = jnp.where(rows < j, column, 0)
        x = x * shrink[..., None, :] - above[..., :, None] * solution[..., None, :]
        return jnp.where((rows == j)[:, None], solution[..., None, :], x)

    return lax.fori_loop(0, n, step, jnp.zeros_like(t))


def _with_conjugate_pairs(v: Any, values: Any) -> Any:
    """Eigenvectors (..., n, n) of a real matrix: real for real eigenvalues, conjugate for conjugate pairs."""
    import jax.numpy as jnp

    turn = values.imag[..., None, :]
    v = jnp.where(turn < 0, shifted(v, 1, -1).conj(), v)
    return jnp.where(turn == 0, v.real.astype(v.dtype), v)


def _normalised(v: Any, keeps_sign: bool) -> Any:
    """Columns of v (..., n, n) with norm 1 and a real largest component: positive, or with the sign that it has."""
    import jax.numpy as jnp

    size = jnp.max(jnp.maximum(jnp.abs(v.real), jnp.abs(v.imag)), -2, keepdims=True)
    v = v / jnp.where(size == 0, 1, size).astype(v.dtype)
    squares = v.real * v.real + v.imag * v.imag
    v = v / jnp.sqrt(jnp.sum(squares, -2, keepdims=True)).astype(v.dtype)
    largest = jnp.argmax(squares, -2)[..., None, :]
    pivot = jnp.take_along_axis(v, largest, -2)
    length = jnp.abs(pivot)
    phase = pivot.conj() / length.astype(v.dtype)
    if keeps_sign:
        phase = jnp.where(pivot.real < 0, -phase, phase)
        # Real eigenvectors keep their sign.
        phase = jnp.where(pivot.imag == 0, 1, phase)
        length = jnp.where(pivot.real < 0, -length, length)
    at_largest = jnp.arange(v.shape[-1])[:, None] == largest
    return jnp.where(at_largest, length.astype(v.dtype), v * phase)
