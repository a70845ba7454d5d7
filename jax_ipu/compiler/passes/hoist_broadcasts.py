"""Elementwise ops on broadcast values are computed before the broadcast, on fewer elements.

Values that programs write with and without dimensions of one element, such as the mean of a batch normalisation and the
mean within its variance, become equal ops, of which CSE keeps one.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.passes.simplify_views import compose_broadcast, inserted_units
from jax_ipu.compiler.types import Shape

_LOOPS_AND_BRANCHES = frozenset(("while", "if", "case", "ipu.repeat"))


def run(module: Module) -> None:
    """Rewrites the ops of main, and of the regions of its control flow."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    rewriter = Rewriter()
    for op in block.ops:
        if op.name in _LOOPS_AND_BRANCHES:
            for region in op.regions:
                _run_block(region)
        rewriter.location = op.location
        replacement = _replacement(op, rewriter)
        if replacement is None:
            rewriter.ops.append(op)
            continue
        op.result.replace_with(replacement)
        op.drop()
    block.ops = rewriter.ops


def _replacement(op: Op, rewriter: Rewriter) -> Value | None:
    if op.name == "broadcast_in_dim":
        return compose_broadcast(op, rewriter)
    if op.name == "reshape":
        source = _broadcast_source(op.operands[0])
        return source[0] if source is not None and source[0].shape == op.result.shape else None
    return _hoisted(op, rewriter) if is_elementwise(op) else None


def _broadcast_source(value: Value) -> tuple[Value, Shape] | None:
    """What `value` is a broadcast of, and the dimensions of `value` that it has; None where it is no broadcast."""
    op = value.op
    if op is not None and op.name == "broadcast_in_dim":
        return op.operands[0], tuple(op.attrs["broadcast_dimensions"])
    if op is not None and op.name == "reshape":
        added = inserted_units(op.operands[0].shape, value.shape)
        if added:
            return op.operands[0], tuple(d for d in range(len(value.shape)) if d not in added)
    return None


def _hoisted(op: Op, rewriter: Rewriter) -> Value | None:
    """The op on the values before the broadcast, if all operands are broadcast alike, and the broadcast."""
    found: tuple[Shape, Shape] | None = None
    sources: list[Value | None] = []
    for operand in op.operands:
        source = None if splat_of(operand) is not None else _broadcast_source(operand)
        sources.append(source[0] if source is not None else None)
        if splat_of(operand) is not None:
            continue
        if source is None or found not in (None, (source[0].shape, source[1])):
            return None
        found = (source[0].shape, source[1])
    if found is None:
        return None
    shape, dims = found
    operands = []
    for operand, before in zip(op.operands, sources, strict=True):
        literal = splat_of(operand)
        operands.append(rewriter.constant(literal.reshaped(shape)) if literal is not None else before)
    small = rewriter.emit(op.name, [o for o in operands if o is not None], shape, op.result.dtype, op.attrs)
    return rewriter.broadcast(small, op.result.shape, dims)
