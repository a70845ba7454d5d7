"""fft, random bits, cholesky, triangular_solve and the steps of other decompositions."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.types import num_elements


def lower_fft(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    operand = context.tensor(op.operands[0])
    lengths = [int(n) for n in op.attrs["fft_length"]]
    kind = op.attrs["fft_type"]
    return [_ipu.fft(context.graph, operand, kind, lengths, context.sequence, context.name(op))]


def lower_cholesky(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    lower = bool(op.attrs.get("lower", False))
    return [_ipu.cholesky(context.graph, context.tensor(op.operands[0]), lower, context.sequence, context.name(op))]


def lower_triangular_solve(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
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
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(result.dtype, result.shape, name) for result in op.results]
    return _ipu.lu_panel(context.graph, context.tensor(op.operands[0]), context.sequence, name)


def lower_implicit_qr(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    bidiagonal = op.name == "ipu.bidiagonal_qr"
    return _ipu.implicit_qr(context.graph, bidiagonal, context.operands(op), context.sequence, context.name(op))


def lower_rng_bit_generator(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    name = context.name(op)
    bits = op.results[1]
    state = context.tensor(op.operands[0])
    if num_elements(bits.shape) == 0:
        return [state, context.variable(bits.dtype, bits.shape, name)]
    algorithm = op.attrs["rng_algorithm"]
    return _ipu.rng_bit_generator(context.graph, algorithm, state, bits.dtype, bits.shape, context.sequence, name)


def lower_random_bits(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Bits from the state of the running program, which moves on."""
    name = context.name(op)
    result, state = op.result, context.random_state
    if num_elements(result.shape) == 0:
        return [context.variable(result.dtype, result.shape, name)]
    assert state is not None
    next_state, bits = _ipu.rng_bit_generator(
        context.graph, "THREE_FRY", state, result.dtype, result.shape, context.sequence, name
    )
    context.sequence.copy(next_state, state, name)
    return [bits]


LOWERINGS = {
    "cholesky": lower_cholesky,
    "fft": lower_fft,
    "ipu.bidiagonal_qr": lower_implicit_qr,
    "ipu.lu_panel": lower_lu_panel,
    "ipu.random_bits": lower_random_bits,
    "ipu.tridiagonal_qr": lower_implicit_qr,
    "rng_bit_generator": lower_rng_bit_generator,
    "triangular_solve": lower_triangular_solve,
}
