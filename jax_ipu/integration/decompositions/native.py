"""JAX primitives, with batching, for steps of decompositions that the compiler implements as operations.

They are custom calls with our own names, which XLA's partitioner may split along the batch. Tested with jax 0.10.2 and
0.12.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

PLATFORM = "ipu"
_LU_PANEL, _TRIDIAGONAL_QR, _BIDIAGONAL_QR = "ipu_lu_panel", "ipu_tridiagonal_qr", "ipu_bidiagonal_qr"
_QR_PANEL, _APPLY = "ipu_qr_panel", ("ipu_apply_reflectors", "ipu_apply_reflectors_below")
_HESSENBERG, _TRIDIAGONAL, _BIDIAGONAL = "ipu_hessenberg", "ipu_tridiagonal", "ipu_bidiagonal"
_TWO_SIDED = (_HESSENBERG, _TRIDIAGONAL, _BIDIAGONAL)
# For T alone or with the vectors, and for matrices as they are or balanced.
_SCHUR = ("ipu_schur", "ipu_schur_vectors", "ipu_balanced_schur", "ipu_balanced_schur_vectors")
_MATRICES_ONLY = (_LU_PANEL, _QR_PANEL, *_TWO_SIDED, *_APPLY, *_SCHUR)
# The largest matrices of `schur`.
MOST_SCHUR_ROWS = 16


def enable() -> None:
    """Registers the lowerings."""
    import jax
    from jax._src.export import _export
    from jax._src.interpreters import mlir

    for name in (*_MATRICES_ONLY, _TRIDIAGONAL_QR, _BIDIAGONAL_QR):
        mlir.register_lowering(_primitive(name), functools.partial(_lower, name), platform=PLATFORM)
        jax.ffi.register_ffi_target_as_batch_partitionable(name)
        # jax.export requires a stable interface: operands and results of these calls do not change.
        _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.add(name)


def lu_panel(a: Any) -> tuple[Any, Any, Any]:
    """LU factorisation with partial pivots of a (m, n), m >= n > 0, f32, f64, c64 or c128.

    Returns U above L without its diagonal of ones (m, n), pivots (n,) and permutation (m,), both int32: row k was
    swapped with row pivots[k], in order of k; row i of L U is row permutation[i] of `a`.
    """
    factors, pivots, order = _primitive(_LU_PANEL).bind(a)
    return factors, pivots, order


def qr_panel(a: Any) -> tuple[Any, Any]:
    """QR factorisation of a (m, n), not empty, f32, f64, c64 or c128, as LAPACK's geqrf; for few columns.

    Returns R above the reflectors without their ones (m, n), and taus (min(m, n),).
    """
    packed, taus = _primitive(_QR_PANEL).bind(a)
    return packed, taus


def hessenberg(a: Any) -> tuple[Any, Any]:
    """H above the reflectors of Q (n, n), and taus (n - 1,), of a (n, n), n > 1; Q^H a Q = H, as LAPACK's gehrd."""
    packed, taus = _primitive(_HESSENBERG).bind(a)
    return packed, taus


def tridiagonal(a: Any) -> tuple[Any, Any]:
    """The same for a Hermitian `a`, both triangles given; what is above the diagonal of H is undefined."""
    packed, taus = _primitive(_TRIDIAGONAL).bind(a)
    return packed, taus


def bidiagonal(a: Any) -> tuple[Any, Any, Any, Any]:
    """Q and P of a (n, n), n > 1, with a = Q B P^H, as LAPACK's gebrd.

    Q is in reflectors (n, n) that start on the diagonal, where they have B's, and taus (n,). P is in reflectors
    (n, n - 1) that start under it, where they have B's entries beside the diagonal, and taus (n - 1,). The rest of the
    upper triangles is undefined.
    """
    left, q_taus, right, p_taus = _primitive(_BIDIAGONAL).bind(a)
    return left, q_taus, right, p_taus


def apply_reflectors(packed: Any, taus: Any, x: Any, below: int) -> Any:
    """Q x (m, k), Q = H_0 H_1 ... of packed reflectors (m, n) and taus (count,), 0 < count <= n; for few reflectors.

    The pivot of reflector j is `below` (0 or 1) places under entry (j, j); count + below <= m.
    """
    (product,) = _primitive(_APPLY[below]).bind(packed, taus, x)
    return product


def schur(a: Any, *, balanced: bool, vectors: bool) -> tuple[Any, ...]:
    """T (n, n) of `a` (n, n), 0 < n <= MOST_SCHUR_ROWS, f32, f64, c64 or c128, as LAPACK's gees; with `vectors` Z too.

    a = Z T Z^-1. Z is unitary; with `balanced`, for eigenvalues, the rows and columns of `a` are scaled first, and so
    are the rows of Z. NaN where `a` is not finite or the algorithm does not converge.
    """
    return tuple(_primitive(_SCHUR[2 * balanced + vectors]).bind(a))


def tridiagonal_qr(d: Any, e: Any, *rows: Any) -> tuple[Any, ...]:
    """Eigenvalues (n,) of the symmetric matrix with diagonal d (n,), n > 1, and off-diagonal e (n - 1,), unsorted.

    f32 or f64, by the implicit QR algorithm. A matrix `rows` (n, k) becomes G rows, where G T G^T is diagonal.
    NaN where the algorithm does not converge.
    """
    return tuple(_primitive(_TRIDIAGONAL_QR).bind(d, e, *rows))


def bidiagonal_qr(d: Any, e: Any, *rows: Any) -> tuple[Any, ...]:
    """Singular values (n,) of the matrix with diagonal d (n,), n > 1, and superdiagonal e (n - 1,), unsorted.

    Two matrices `rows`, (n, k) and (n, l), become L rows[0] and R rows[1], where L B R^T is diagonal. Otherwise as
    `tridiagonal_qr`.
    """
    return tuple(_primitive(_BIDIAGONAL_QR).bind(d, e, *rows))


def _lower(name: str, ctx: Any, *operands: Any) -> Any:
    from jax._src.lax import linalg

    # Rank without the batch dimensions of the largest operand.
    rank = 1 if name not in _MATRICES_ONLY and len(operands) == 2 else 2
    rule_for: Callable[..., Any] = linalg._linalg_ffi_lowering
    return rule_for(name, column_major=False, num_non_batch_dims=rank)(ctx, *operands)


@functools.cache
def _primitive(name: str) -> Any:
    from jax._src import core
    from jax._src.interpreters import batching

    primitive: Any = core.Primitive(name)
    primitive.multiple_results = True

    def types(*avals: Any) -> list[Any]:
        first = avals[0]
        if name in _APPLY:
            return [core.ShapedArray(avals[2].shape, first.dtype)]
        if name in _TWO_SIDED:
            *batch, n, _ = first.shape
            if name != _BIDIAGONAL:
                return [first, core.ShapedArray((*batch, n - 1), first.dtype)]
            shapes = [(n,), (n, n - 1), (n - 1,)]
            return [first, *(core.ShapedArray((*batch, *shape), first.dtype) for shape in shapes)]
        if name in _SCHUR:
            return [first] * (2 if name.endswith("vectors") else 1)
        if name == _QR_PANEL:
            *batch, m, n = first.shape
            return [first, core.ShapedArray((*batch, min(m, n)), first.dtype)]
        if name != _LU_PANEL:
            return [core.ShapedArray(a.shape, a.dtype) for a in (first, *avals[2:])]
        *batch, m, n = first.shape
        numbers = [core.ShapedArray((*batch, extent), np.dtype(np.int32)) for extent in (n, m)]
        return [core.ShapedArray(first.shape, first.dtype), *numbers]

    primitive.def_abstract_eval(types)
    batching.primitive_batchers[primitive] = functools.partial(batching.expand_dims_batcher, primitive)
    return primitive
