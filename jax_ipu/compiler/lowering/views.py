"""Ops that are views of the same variables, or copies into parts of a new one."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, broadcast, part_of
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.passes.state.stacks import STACK
from jax_ipu.compiler.types import num_elements


def lower_reshape(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A view where one strided view can express the reshape, otherwise a copy."""
    tensor = context.tensor(op.operands[0]).reshape(op.result.shape)
    return [context.strided(tensor, context.name(op))]


def lower_transpose(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A view."""
    return [context.tensor(op.operands[0]).dim_shuffle(op.attrs["permutation"])]


def lower_broadcast_in_dim(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A view that repeats elements."""
    return [broadcast(context.tensor(op.operands[0]), op.result.shape, op.attrs["broadcast_dimensions"])]


def lower_slice(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A view of every `strides[d]`th element from `start_indices[d]` up to `limit_indices[d]`."""
    attrs = op.attrs
    tensor = context.tensor(op.operands[0])
    # sub_sample keeps ceil(n / stride) elements from the first one on, as a strided slice does.
    tensor = tensor.slice(attrs["start_indices"], attrs["limit_indices"])
    for dim, stride in enumerate(attrs["strides"]):
        if stride > 1 and tensor.shape[dim] > 0:
            tensor = tensor.sub_sample(stride, dim)
    return [tensor]


def lower_reverse(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A view with negative strides."""
    tensor = context.tensor(op.operands[0])
    for dim in op.attrs["dimensions"]:
        if tensor.shape[dim] > 1:
            tensor = tensor.reverse(dim)
    return [tensor]


def lower_concatenate(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A variable into which each operand is copied that was not computed there, or a state changed part by part."""
    if op.attrs.get("in_place"):
        return [context.tensor(op.attrs[STACK].state)]
    name = context.name(op)
    result = context.joined(op)
    # One copy of all parts: they move in one superstep.
    copied = [
        position
        for position, operand in enumerate(op.operands)
        if num_elements(operand.shape) and (op, position) not in context.placed
    ]
    if copied:
        dim = op.attrs["dimension"]
        sources = _ipu.concat([context.tensor(op.operands[position]) for position in copied], dim)
        parts = _ipu.concat([part_of(result, op, position) for position in copied], dim)
        context.sequence.copy(sources, parts, name)
    return [result]


def lower_pad(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A new variable, of the operand and the padding value around it and between its elements."""
    value, padding = op.operands
    name = context.name(op)
    shape = op.result.shape
    result = context.allocate(op.result, name)
    if num_elements(shape) == 0:
        return [result]
    begins, ends, src_begins, src_ends = [], [], [], []
    strides = []
    for d, low in enumerate(op.attrs["edge_padding_low"]):
        stride = op.attrs["interior_padding"][d] + 1
        size = value.shape[d]
        # Elements first to last of the operand are inside of [0, shape[d]); negative padding cuts the others off.
        first = 0 if low >= 0 else (-low + stride - 1) // stride
        room = shape[d] - 1 - low
        last = min(size - 1, room // stride) if room >= 0 else -1
        count = max(0, last - first + 1)
        begin = low + first * stride
        src_begins.append(first)
        src_ends.append(first + count)
        begins.append(begin if count else 0)
        ends.append(begin + (count - 1) * stride + 1 if count else 0)
        strides.append(stride)
    fill = context.tensor(padding)
    if any(e == b for b, e in zip(src_begins, src_ends, strict=True)):
        context.sequence.copy(broadcast(fill, shape, ()), result, name)
        return [result]
    inner = context.tensor(value).slice(src_begins, src_ends)
    if all(s == 1 for s in strides):
        # Operand and border move in one superstep.
        for d in reversed(range(len(shape))):
            pieces = [_with_extent(inner.shape, d, n) for n in (begins[d], shape[d] - ends[d])]
            low, high = ([broadcast(fill, piece, ())] if piece[d] else [] for piece in pieces)
            inner = _ipu.concat([*low, inner, *high], d)
        context.sequence.copy(inner, result, name)
        return [result]
    context.sequence.copy(broadcast(fill, shape, ()), result, name)
    target = result.slice(begins, ends)
    for d, stride in enumerate(strides):
        if stride > 1 and target.shape[d] > 1:
            target = target.sub_sample(stride, d)
    context.sequence.copy(inner, target, name)
    return [result]


def _with_extent(shape: Sequence[int], dim: int, extent: int) -> tuple[int, ...]:
    return (*shape[:dim], extent, *shape[dim + 1 :])


def lower_optimization_barrier(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The operands themselves."""
    return context.operands(op)


def lower_copy(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The operand itself: values are never written over while they are used."""
    return [context.tensor(op.operands[0])]


def lower_saved(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A copy of what will be written over."""
    return [context.copy(context.tensor(op.operands[0]), context.name(op))]


def create_blocks(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable of the shape that a stencil reads, in blocks; None where strips are as good."""
    stencil = context.mapping.stencils[demand.op]
    if stencil.parts is None:
        return None
    tensor = context.graph.add_variable(dtype, stencil.array.shape, name)
    context.graph.map_in_blocks(tensor, stencil.parts)
    return tensor


LOWERINGS = {
    "ipu.copy": lower_saved,
    "reshape": lower_reshape,
    "transpose": lower_transpose,
    "broadcast_in_dim": lower_broadcast_in_dim,
    "slice": lower_slice,
    "reverse": lower_reverse,
    "concatenate": lower_concatenate,
    "pad": lower_pad,
    "optimization_barrier": lower_optimization_barrier,
    "copy": lower_copy,
}

CREATORS = {"slice": create_blocks, "pad": create_blocks, "concatenate": create_blocks}
