"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context


def lower_fft(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """FFT, IFFT, RFFT or IRFFT along the last dimensions."""
    operand = context.tensor(op.operands[0])
    lengths = [int(n) for n in op.attrs["fft_length"]]
    kind = op.attrs["fft_type"]
    flops = float(op.attrs.get("flops", -1))
    return [_ipu.fft(context.graph, operand, kind, lengths, context.sequence, context.name(op), flops)]


LOWERINGS = {"fft": lower_fft}
