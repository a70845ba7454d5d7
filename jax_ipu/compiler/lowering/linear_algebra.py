"""cholesky, triangular_solve, and the steps of the other decompositions."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.types import num_elements


def lower_cholesky(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The Cholesky factor of each matrix of a batch."""
    lower = bool(op.attrs.get("lower", False))
    return [_ipu.cholesky(context.graph, context.tensor(op.operands[0]), lower, context.sequence, context.name(op))]


def lower_triangular_solve(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Solves a x = b or x a = b for triangular matrices a."""
    a, b = context.operands(op)
    return [
        _ipu.triangular_solve(
            context.graph,
            a,
            b,
            bool(op.attrs["left_side"]),
            bool(op.attrs["lower"]),
            bool(op.attrs["unit_diagonal"]),
            op.attrs["transpose_a"],
            context.sequence,
            context.name(op),
        )
    ]


def lower_lu_panel(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """LU decomposition with partial pivoting of a panel of columns."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(result.dtype, result.shape, name) for result in op.results]
    return _ipu.lu_panel(context.graph, context.tensor(op.operands[0]), context.sequence, name)


def lower_qr_panel(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """QR factorisation of a few columns: packed reflectors, taus."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(result.dtype, result.shape, name) for result in op.results]
    return _ipu.qr_panel(context.graph, context.tensor(op.operands[0]), context.sequence, name)


def lower_two_sided(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Reduction by reflections from both sides: packed reflectors, taus, for the bidiagonal form of rows too."""
    form = op.name.removeprefix("ipu.")
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(result.dtype, result.shape, name) for result in op.results]
    return _ipu.two_sided(context.graph, form, context.tensor(op.operands[0]), context.sequence, name)


def lower_apply_reflectors(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Products with the Q of a few packed reflectors, which start on the diagonal or one place below."""
    name = context.name(op)
    if num_elements(op.result.shape) == 0:
        return [context.variable(op.result.dtype, op.result.shape, name)]
    packed, taus, x = context.operands(op)
    below = int(op.name == "ipu.apply_reflectors_below")
    return [_ipu.apply_reflectors(context.graph, packed, taus, x, below, context.sequence, name)]


def lower_implicit_qr(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Implicit QR iterations on a tridiagonal or bidiagonal matrix."""
    bidiagonal = op.name == "ipu.bidiagonal_qr"
    return _ipu.implicit_qr(context.graph, bidiagonal, context.operands(op), context.sequence, context.name(op))


def lower_schur(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The Schur form of small matrices, and its vectors if there are two results."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(result.dtype, result.shape, name) for result in op.results]
    balanced, vectors = op.name == "ipu.balanced_schur", len(op.results) > 1
    return _ipu.schur(context.graph, context.tensor(op.operands[0]), balanced, vectors, context.sequence, name)


LOWERINGS = {
    "ipu.apply_reflectors": lower_apply_reflectors,
    "ipu.apply_reflectors_below": lower_apply_reflectors,
    "cholesky": lower_cholesky,
    "ipu.balanced_schur": lower_schur,
    "ipu.bidiagonal": lower_two_sided,
    "ipu.bidiagonal_qr": lower_implicit_qr,
    "ipu.hessenberg": lower_two_sided,
    "ipu.lu_panel": lower_lu_panel,
    "ipu.qr_panel": lower_qr_panel,
    "ipu.schur": lower_schur,
    "ipu.tridiagonal": lower_two_sided,
    "ipu.tridiagonal_qr": lower_implicit_qr,
    "triangular_solve": lower_triangular_solve,
}
