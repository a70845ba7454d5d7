"""Elementwise ops and reductions of broadcast values are computed before the broadcast, on fewer elements.

Values that programs write with and without dimensions of one element, such as the mean of a batch normalisation and the
mean within its variance, become equal ops, of which CSE keeps one.
"""

from __future__ import annotations

import math

from jax_ipu.compiler.expression import identity_of, is_elementwise, single_op, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.arithmetic.simplify_views import compose_broadcast, inserted_units
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import INTEGER, Shape, num_elements

# Those whose value for the same element several times is known.
_REDUCTIONS = frozenset(("add", "and", "maximum", "minimum", "or"))
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
    if op.name == "reduce":
        return _reduced(op, rewriter)
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


def _reduced(op: Op, rewriter: Rewriter) -> Value | None:
    """The reduction of the values before the broadcast, and the broadcast.

    Over a dimension that only the broadcast adds, a sum of n integers is n times the value, and other reductions are
    the value. A sum of floats would be rounded differently.
    """
    name = single_op(op.regions[0])
    if name not in _REDUCTIONS or len(op.results) != 1 or op.result.dtype != op.operands[0].dtype:
        return None
    value, first = op.operands
    source, literal, identity = _broadcast_source(value), splat_of(first), identity_of(name, first.dtype)
    if source is None or literal is None or identity is None or literal.scalar() != identity:
        return None
    reduced = set(op.attrs["dimensions"])
    # The dimensions that the broadcast keeps.
    kept = [(n, d) for n, d in zip(source[0].shape, source[1], strict=True) if n == value.shape[d]]
    dims = [d for _, d in kept]
    added = reduced - set(dims)
    if num_elements(value.shape) == 0 or (added and name == "add" and op.result.dtype not in INTEGER):
        return None
    small = rewriter.reshape(source[0], tuple(n for n, _ in kept))
    own = tuple(i for i, d in enumerate(dims) if d in reduced)
    result = rewriter.reduce(name, small, own, identity)
    if added and name == "add":
        count = math.prod(value.shape[d] for d in added)
        result = rewriter.elementwise("multiply", result, rewriter.full(result.shape, result.dtype, count))
    left = [d for d in range(len(value.shape)) if d not in reduced]
    return rewriter.broadcast(result, op.result.shape, tuple(left.index(d) for d in dims if d not in reduced))
