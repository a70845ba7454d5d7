"""reduce_window and select_and_scatter: pooling, its gradient, cumulative operations."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.shapes import pairs
from jax_ipu.compiler.types import num_elements


def lower_reduce_window(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Reduces each window of one or several operands; cumulative operations are windows as long as a dimension."""
    count = len(op.results)
    tensors = context.operands(op)
    name = context.name(op)
    attrs = op.attrs
    rank = len(op.results[0].shape)
    ones = (1,) * rank
    if num_elements(op.results[0].shape) == 0:
        return [context.variable(r.dtype, r.shape, name) for r in op.results]
    return _ipu.reduce_window(
        context.graph,
        tensors[:count],
        tensors[count:],
        attrs["window_dimensions"],
        attrs.get("window_strides", ones),
        attrs.get("base_dilations", ones),
        attrs.get("window_dilations", ones),
        pairs(attrs.get("padding"), rank),
        expression_of(region_program(op.regions[0], op)),
        context.sequence,
        name,
    )


def lower_select_and_scatter(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Adds each source element to the operand element that the window selects: the gradient of max pooling."""
    operand, source, init = context.operands(op)
    name = context.name(op)
    rank = len(op.result.shape)
    if num_elements(op.result.shape) == 0:
        return [context.variable(op.result.dtype, op.result.shape, name)]
    attrs = op.attrs
    select, scatter = op.regions
    return [
        _ipu.select_and_scatter(
            context.graph,
            operand,
            source,
            init,
            attrs.get("window_dimensions", (1,) * rank),
            attrs.get("window_strides", (1,) * rank),
            pairs(attrs.get("padding"), rank),
            expression_of(region_program(select, op)),
            expression_of(region_program(scatter, op)),
            context.sequence,
            name,
        )
    ]


LOWERINGS = {"reduce_window": lower_reduce_window, "select_and_scatter": lower_select_and_scatter}
