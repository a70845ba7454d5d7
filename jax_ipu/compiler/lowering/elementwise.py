"""Elementwise programs and iota."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.types import num_elements


def lower_map(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A fused elementwise expression as one popops::map, in the place that it has, if any: storage of other values."""
    name = context.name(op)
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    tensors = context.operands(op)
    expression = expression_of(op.attrs["program"])
    over = op.attrs.get("write_over", {})
    outs = [context.tensor(over[i]) if i in over else context.place(op, i) for i in range(len(op.results))]
    if len(op.results) == 1:
        if outs[0] is None:
            return [_ipu.map(context.graph, expression, tensors, context.sequence, name)]
        _ipu.map_with_output(context.graph, expression, tensors, outs[0], context.sequence, name)
        return [outs[0]]
    made = _ipu.map_multiple(context.graph, expression, tensors, outs, context.sequence, name)
    # Return the tensor object of the state: write_results sees by it that the value is in place.
    return [m if o is None else o for m, o in zip(made, outs, strict=True)]


def lower_iota(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Numbers that count up along one dimension."""
    tensor = context.allocate(op.result, context.name(op))
    if num_elements(op.result.shape):
        _ipu.iota(context.graph, tensor, op.attrs["iota_dimension"], context.sequence, context.name(op))
    return [tensor]


LOWERINGS = {"ipu.map": lower_map, "iota": lower_iota}
