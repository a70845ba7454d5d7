"""Reductions over dimensions. A sum of narrow floats may have a wide result: see passes/arithmetic/narrow_sums.py."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.types import num_elements


def lower_reduce(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Reduces one or several operands together; the body becomes a scalar program."""
    count = len(op.results)
    tensors = context.operands(op)
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    expression = expression_of(region_program(op.regions[0], op))
    unrounded = op.results[0].dtype != op.operands[0].dtype
    dims, sequence = op.attrs["dimensions"], context.sequence
    return _ipu.reduce(
        context.graph, tensors[:count], tensors[count:], dims, expression, sequence, name, unrounded=unrounded
    )


LOWERINGS = {"reduce": lower_reduce}
