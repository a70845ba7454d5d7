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


def lower_threefry(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """JAX's threefry2x32; the attributes "counters" and "has_operand" say what the words of the counter are."""
    name = context.name(op)
    first = context.allocate(op.result, name)
    outs = [first, *(context.graph.clone_as(r.dtype, first, name) for r in op.results[1:])]
    if num_elements(op.result.shape) == 0:
        return outs
    tensors = iter(context.operands(op))
    key = [next(tensors), next(tensors)]
    counters = [next(tensors) if has_operand else None for has_operand in op.attrs["has_operand"]]
    starts, strides = zip(*op.attrs["counters"], strict=True)
    _ipu.threefry2x32(context.graph, key, starts, strides, counters, outs, context.sequence, name)
    return outs


LOWERINGS = {
    "ipu.random_bits": lower_random_bits,
    "ipu.threefry2x32": lower_threefry,
    "rng_bit_generator": lower_rng_bit_generator,
}
