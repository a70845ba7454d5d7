"""Elementwise ops on a part that is padded to the whole are computed on the whole, and masked.

So are `velocity + jnp.pad(f(velocity[:, 2:]), ((0, 0), (2, 0)))` and the gradient of what is computed of a slice.
Elements stay on their tiles, and the ops around are one map with these.
"""

from __future__ import annotations

import math

import numpy as np

from jax_ipu.compiler.expression import TRANSCENDENTAL, is_elementwise, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import Literal, Shape, num_elements

# How many times the elements of the part the whole may have: also where a function of elements is computed.
_MOST_EXTRA, _MOST_EXTRA_FUNCTIONS = 4, 1.5
# The most ops of a part, and elements of a mask, which is a constant.
_MOST_OPS, _MOST_MASK = 16, 4096


def run(module: Module) -> None:
    """Rewrites the pads of main and of its regions."""
    rewrite(module.main.block, {"pad": _pad})


def _pad(op: Op, rewriter: Rewriter) -> Value | None:
    value, padding = op.operands
    low, high, whole = op.attrs["edge_padding_low"], op.attrs["edge_padding_high"], op.result.shape
    if any(op.attrs["interior_padding"]) or min((*low, *high), default=0) < 0 or num_elements(value.shape) == 0:
        return None
    padded = [d for d, n in enumerate(whole) if n != value.shape[d]]
    if not padded or sum(whole[d] for d in padded) > _MOST_MASK:
        return None
    ops: list[Op] = []
    if not _collect(value, op, tuple(low), whole, ops):
        return None
    extra = math.prod(whole[d] / value.shape[d] for d in padded)
    if extra > (_MOST_EXTRA_FUNCTIONS if any(o.name in TRANSCENDENTAL for o in ops) else _MOST_EXTRA):
        return None
    made: dict[Value, Value] = {}
    for inner in ops:
        operands = [made.get(operand) or _whole(operand, whole, rewriter) for operand in inner.operands]
        made[inner.result] = rewriter.emit(inner.name, operands, whole, inner.result.dtype, dict(inner.attrs))
    mask: Value | None = None
    for d in padded:
        inside = np.zeros(whole[d], np.bool_)
        inside[low[d] : low[d] + value.shape[d]] = True
        along = rewriter.broadcast(rewriter.constant(Literal.from_numpy("pred", inside)), whole, (d,))
        mask = along if mask is None else rewriter.elementwise("and", mask, along)
    assert mask is not None
    return rewriter.elementwise("select", mask, made[value], rewriter.spread(padding, whole), dtype=value.dtype)


def _collect(value: Value, user: Op, low: Shape, whole: Shape, ops: list[Op]) -> bool:
    """Adds the ops that compute `value`, which `user` reads, of slices of whole tensors at `low`, operands first.

    False where something else is among what they read, or where an op that is not among them reads their results.
    """
    op = value.op
    if op in ops:
        return True
    if op is None or not is_elementwise(op) or len(op.results) != 1 or len(ops) >= _MOST_OPS:
        return False
    if any(other is not user for other in value.users):
        return False
    found = False
    for operand in op.operands:
        if splat_of(operand) is not None or _is_spread(operand):
            continue
        if _is_part(operand, low, whole):
            found = True
        elif _collect(operand, op, low, whole, ops):
            found = True
        else:
            return False
    ops.append(op)
    return found


def _is_part(value: Value, low: Shape, whole: Shape) -> bool:
    """Whether the value is the slice from `low` on of a tensor of shape `whole`."""
    op = value.op
    return (
        op is not None
        and op.name == "slice"
        and op.operands[0].shape == whole
        and tuple(op.attrs["start_indices"]) == low
        and all(stride == 1 for stride in op.attrs["strides"])
    )


def _is_spread(value: Value) -> bool:
    """Whether the value is a scalar in every element."""
    return value.op is not None and value.op.name == "broadcast_in_dim" and value.op.operands[0].shape == ()


def _whole(operand: Value, whole: Shape, rewriter: Rewriter) -> Value:
    literal = splat_of(operand)
    if literal is not None:
        return rewriter.constant(literal.reshaped(whole))
    assert operand.op is not None
    source = operand.op.operands[0]
    return source if operand.op.name == "slice" else rewriter.spread(source, whole)
