"""Random bits: from a state that the program passes, or from the state of the run."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.types import num_elements


def lower_rng_bit_generator(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The next state of a generator, and random bits from the given state."""
    name = context.name(op)
    bits = op.results[1]
    state = context.tensor(op.operands[0])
    if num_elements(bits.shape) == 0:
        return [state, context.variable(bits.dtype, bits.shape, name)]
    algorithm = op.attrs["rng_algorithm"]
    return _ipu.rng_bit_generator(context.graph, algorithm, state, bits.dtype, bits.shape, context.sequence, name)


def lower_random_bits(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Random bits from the state of the run, which is advanced."""
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


LOWERINGS = {"ipu.random_bits": lower_random_bits, "rng_bit_generator": lower_rng_bit_generator}
