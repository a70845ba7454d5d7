"""PyTorch's decompositions of matrices, where torchax's are for some matrices only or can not be compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    """The inverse of the matrix that has this factor."""
    lower = _adjoint(factor) if upper else factor
    unit = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return _by_factor(lower, unit)


def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """Solves the system of the matrix that has this factor."""
    return _by_factor(_adjoint(factor) if upper else factor, b)


def lu(a: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    """Returns (permutation, lower, upper)."""
    rows, columns = a.shape[-2:]
    size = min(rows, columns)
    packed, _, permutation = lax.linalg.lu(a)
    lower = jnp.tril(packed[..., :, :size], -1) + jnp.eye(rows, size, dtype=a.dtype)
    unit = jnp.eye(rows, dtype=a.dtype)
    return jnp.swapaxes(unit[permutation], -1, -2), lower, jnp.triu(packed[..., :size, :])


def ldl_factor(a: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "torch.linalg.ldl_factor pivots by values, which torchax leaves out: use torch.linalg.lu_factor, or "
        "torch.linalg.cholesky for positive definite matrices"
    )


def _adjoint(a: Any) -> Any:
    return jnp.swapaxes(a.conj(), -1, -2)


def _by_factor(lower: Any, b: Any) -> Any:
    """Solves lower @ lower^H @ x = b."""
    batch = jnp.broadcast_shapes(lower.shape[:-2], b.shape[:-2])
    lower, b = (jnp.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (lower, b))
    solution: Any = jax.scipy.linalg.cho_solve((lower, True), b)
    return solution
