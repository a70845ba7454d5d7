"""PyTorch's decompositions of matrices, where torchax's are for some matrices only or can not be compiled."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def cholesky(a: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    """Returns (factor, order of the first leading minor that is not positive, or 0), from one triangle."""
    full = _hermitian(a, not upper)
    return jnp.linalg.cholesky(full, upper=upper), _first(_pivots(full).real <= 0)


def eigenvectors(a: Any, triangle: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    """Returns (eigenvalues, eigenvectors) of the hermitian matrix that has this triangle."""
    full = _hermitian(a, triangle.upper() == "L")
    if not compute_v:
        return jnp.linalg.eigvalsh(full), a[..., :0, :0].reshape(0)
    values, vectors = jnp.linalg.eigh(full)
    return values, vectors


def determinant(a: Any) -> tuple[Any, Any, Any]:
    """Returns (determinant, packed factors, pivots), as `_linalg_det` does."""
    # JAX has no gradient of an empty matrix.
    return (jnp.linalg.det(a if a.shape[-1] else lax.stop_gradient(a)), *_packed(a))


def sign_and_log_of_determinant(a: Any) -> tuple[Any, Any, Any, Any]:
    """Returns (sign, logarithm, packed factors, pivots), as `_linalg_slogdet` does."""
    return (*jnp.linalg.slogdet(a), *_packed(a))


def solution(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any, Any]:
    """Returns (solution, packed factors, pivots, order of the first pivot that is zero, or 0)."""
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if is_vector else b
    if left:
        solved = jnp.linalg.solve(a, right)
    else:
        solved = jnp.matrix_transpose(jnp.linalg.solve(jnp.matrix_transpose(a), jnp.matrix_transpose(right)))
    packed, pivots = _packed(a)
    return solved[..., 0] if is_vector else solved, packed, pivots, _singular(packed)


def inverse(a: Any, *, check_errors: bool = False) -> tuple[Any, Any]:
    """Returns (inverse, order of the first pivot that is zero, or 0)."""
    return jnp.linalg.inv(a), _singular(_packed(a)[0])


def pseudo_inverse(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudo-inverse, from one triangle if `hermitian`: without singular values of at most
    max(atol, rtol * the largest)."""
    full = _hermitian(a, True) if hermitian else a
    if rtol is None:
        rtol = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
        if atol is not None:
            rtol = jnp.where(jnp.asarray(atol) > 0, 0, rtol)
    if atol is not None and a.size:
        largest = jnp.linalg.svdvals(lax.stop_gradient(full))[..., 0]
        rtol = jnp.maximum(rtol, jnp.where(largest > 0, atol / jnp.where(largest > 0, largest, 1), 0))
    rtol = jnp.broadcast_to(jnp.asarray(rtol, full.real.dtype), a.shape[:-2])
    return _inverse_of_hermitian(a, rtol) if hermitian else jnp.linalg.pinv(a, rtol=rtol)


@jax.custom_jvp
def _inverse_of_hermitian(a: Any, rtol: Any) -> Any:
    """The pseudo-inverse, whose gradient is that of any matrix, as in PyTorch."""
    return jnp.linalg.pinv(_hermitian(a, True), rtol=rtol)


@_inverse_of_hermitian.defjvp
def _(primals: Any, tangents: Any) -> Any:
    a, change = primals[0], tangents[0]
    found, unit = _inverse_of_hermitian(*primals), jnp.eye(a.shape[-1], dtype=a.dtype)
    of_columns = found @ _adjoint(found) @ _adjoint(change) @ (unit - a @ found)
    of_rows = (unit - found @ a) @ _adjoint(change) @ _adjoint(found) @ found
    return found, of_columns + of_rows - found @ change @ found


def qr(a: Any, mode: str = "reduced") -> tuple[Any, Any]:
    """Returns (orthogonal, triangular); the first is empty in the mode "r"."""
    if mode == "r":
        return jnp.zeros(0, a.dtype), jnp.linalg.qr(a, mode="r")
    orthogonal, triangular = jnp.linalg.qr(a, mode=mode)
    return orthogonal, triangular


def lu_factor(a: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    """Returns (packed factors, pivots from 1, order of the first pivot that is zero, or 0)."""
    _needs_pivots(pivot)
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots + 1, _singular(packed)


def cholesky_factor(a: Any, upper: bool = False) -> Any:
    """torch.cholesky."""
    return cholesky(a, upper=upper)[0]


def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    """The inverse of the matrix that has this factor."""
    unit = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return _by_factor(_adjoint(factor) if upper else factor, unit)


def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """Solves the system of the matrix that has this factor."""
    return _by_factor(_adjoint(factor) if upper else factor, b)


def lu(a: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    """Returns (permutation, lower, upper)."""
    _needs_pivots(pivot)
    packed, _, permutation = lax.linalg.lu(a)
    return (_permutation(permutation, a), *_triangles(packed))


def lu_unpack(packed: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> tuple[Any, Any, Any]:
    """Returns (permutation, lower, upper) of packed factors and pivots from 1; what is not asked for is empty."""
    empty = jnp.zeros(0, packed.dtype)
    lower, upper = _triangles(packed) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, packed.shape[-2])
    return _permutation(order, packed), lower, upper


def _needs_pivots(pivot: bool) -> None:
    if not pivot:
        raise NotImplementedError("LU without pivoting is not implemented, as on PyTorch's CPU: leave out pivot=False")


def _triangles(packed: Any) -> tuple[Any, Any]:
    rows, columns = packed.shape[-2:]
    size = min(rows, columns)
    lower = jnp.tril(packed[..., :, :size], -1) + jnp.eye(rows, size, dtype=packed.dtype)
    return lower, jnp.triu(packed[..., :size, :])


def _permutation(order: Any, of: Any) -> Any:
    """The matrix whose product with rows in this order is the rows of the matrices `of`."""
    return jnp.swapaxes(jnp.eye(of.shape[-2], dtype=of.dtype)[order], -1, -2)


def ldl_factor(a: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "torch.linalg.ldl_factor pivots by values, which torchax leaves out: use torch.linalg.lu_factor, or "
        "torch.linalg.cholesky for positive definite matrices"
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _hermitian(a: Any, lower: bool) -> Any:
    """The hermitian matrix with this triangle; its gradient is shared between both triangles."""
    strict = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    diagonal = jnp.eye(a.shape[-1], dtype=bool)
    return strict + _adjoint(strict) + jnp.where(diagonal, a.real, 0).astype(a.dtype)


@_hermitian.defjvp
def _(lower: bool, primals: Any, tangents: Any) -> Any:
    (a,), (change,) = primals, tangents
    return _hermitian(a, lower), (change + _adjoint(change)) / 2


def _pivots(a: Any) -> Any:
    """The pivots [.., n] of elimination without exchanges, which are positive for positive definite matrices only."""
    a = lax.stop_gradient(a)
    if not a.shape[-1]:
        return a.reshape(a.shape[:-1])
    rest = jnp.arange(a.shape[-1])

    def eliminate(k: Any, a: Any) -> Any:
        row, column = (lax.dynamic_index_in_dim(a, k, axis, keepdims=True) for axis in (a.ndim - 2, a.ndim - 1))
        change = column * row / lax.dynamic_index_in_dim(row, k, row.ndim - 1, keepdims=True)
        return jnp.where((rest[:, None] > k) & (rest > k), a - change, a)

    return jnp.diagonal(lax.fori_loop(0, a.shape[-1], eliminate, a), axis1=-2, axis2=-1)


def _packed(a: Any) -> tuple[Any, Any]:
    packed, pivots, _ = lax.linalg.lu(lax.stop_gradient(a))
    return packed, pivots + 1


def _singular(packed: Any) -> Any:
    return _first(jnp.diagonal(lax.stop_gradient(packed), axis1=-2, axis2=-1) == 0)


def _first(found: Any) -> Any:
    """The place of the first that is true, counted from 1; 0 for none."""
    if not found.shape[-1]:
        return jnp.zeros(found.shape[:-1], jnp.int32)
    return jnp.where(found.any(-1), jnp.argmax(found, -1) + 1, 0).astype(jnp.int32)


def _adjoint(a: Any) -> Any:
    return jnp.swapaxes(a.conj(), -1, -2)


@jax.custom_jvp
def _by_factor(lower: Any, b: Any) -> Any:
    """Solves lower @ lower^H @ x = b. Only one triangle is read; PyTorch gives both a gradient."""
    batch = jnp.broadcast_shapes(lower.shape[:-2], b.shape[:-2])
    lower, b = (jnp.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (lower, b))
    solution: Any = jax.scipy.linalg.cho_solve((lower, True), b)
    return solution


@_by_factor.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (lower, b), (change, change_of_b) = primals, tangents
    solution = _by_factor(lower, b)
    product = jnp.matmul(change, _adjoint(lower)) + jnp.matmul(lower, _adjoint(change))
    return solution, _by_factor(lower, change_of_b - jnp.matmul(product, solution))


@jax.custom_jvp
def reflections(a: Any, factors: Any) -> Any:
    """torch.linalg.householder_product, which has no gradient in JAX."""
    return lax.linalg.householder_product(a, factors)


@reflections.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return jax.jvp(_reflections_one_by_one, primals, tangents)


def reflected(a: Any, factors: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """torch.ormqr: the square matrix of all reflections, or its adjoint, times another matrix, or after it."""
    count = factors.shape[-1]
    missing = [(0, 0)] * (a.ndim - 1) + [(0, a.shape[-2] - count)]
    square = reflections(jnp.pad(a[..., :count], missing), factors)
    square = _adjoint(square) if transpose else square
    return jnp.matmul(square, other) if left else jnp.matmul(other, square)


def _reflections_one_by_one(a: Any, factors: Any) -> Any:
    rows, columns = a.shape[-2:]
    start = jnp.broadcast_to(jnp.eye(rows, columns, dtype=a.dtype), a.shape)
    units = jnp.tril(a, -1) + jnp.eye(rows, columns, dtype=a.dtype)

    def step(product: Any, one: Any) -> tuple[Any, None]:
        unit, factor = one
        along = jnp.matmul(unit[..., None, :].conj(), product)
        return product - factor[..., None, None] * unit[..., None] * along, None

    ones = jnp.moveaxis(units[..., : factors.shape[-1]], -1, 0), jnp.moveaxis(factors, -1, 0)
    return lax.scan(step, start, ones, reverse=True)[0]
