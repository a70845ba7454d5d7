"""Positions that move along in a sort, as those of `argsort`, are made by the sort.

A sort in chunks holds the positions of the elements anyhow, as they order elements that compare as equal. As an
operand they would be moved a second time, and take memory before the sort as well.
"""

from __future__ import annotations

import collections

from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops
from jax_ipu.compiler.passes.cse import structure_key
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import INTEGER, SIZE, num_elements

_LONGEST = 2**31  # positions are s32


def run(module: Module) -> None:
    """Applies to all ops of main."""
    if not module.frugal:
        rewrite(module.main.block, RULES)
        return
    # Where sorts that are alike will share their code, one more operand takes less.
    keys = collections.Counter(structure_key(op) for op in module.main.block.walk() if op.name == "sort")

    def sort(op: Op, rewriter: Rewriter) -> list[Value] | None:
        return _sort(op, rewriter) if keys[structure_key(op)] == 1 else None

    rewrite(module.main.block, {"sort": sort})


def _counts(value: Value, dim: int) -> int:
    """1 if each element of `value` is its own index along `dim`, -1 if its index from the end, 0 if neither."""
    op = value.op
    if op is None or value.dtype not in INTEGER or SIZE[value.dtype] < 4:
        return 0
    if op.name == "reverse":
        inner = _counts(op.operands[0], dim)
        return -inner if dim in op.attrs["dimensions"] else inner
    if op.name == "broadcast_in_dim":
        dims, row = op.attrs["broadcast_dimensions"], op.operands[0]
        spread = dim not in dims or row.shape[dims.index(dim)] != value.shape[dim]
        return 0 if spread else _counts(row, dims.index(dim))
    return int(op.name == "iota" and op.attrs["iota_dimension"] == dim)


def _sort(op: Op, rewriter: Rewriter) -> list[Value] | None:
    shape, count = op.results[0].shape, len(op.operands)
    dim = op.attrs.get("dimension", -1) % max(1, len(shape))
    if count < 2 or num_elements(shape) == 0 or shape[dim] >= _LONGEST:
        return None
    body = op.regions[0]
    moved = {
        i: step
        for i, operand in enumerate(op.operands)
        if not body.args[2 * i].users and not body.args[2 * i + 1].users and (step := _counts(operand, dim))
    }
    kept = [i for i in range(count) if i not in moved]
    if not moved or not kept:
        return None
    old = [body.args[k] for i in kept for k in (2 * i, 2 * i + 1)]
    args = [Value(arg.shape, arg.dtype, None, k) for k, arg in enumerate(old)]
    comparator = Block(args, clone_ops(body, dict(zip(old, args, strict=True))))
    operands = [op.operands[i] for i in kept]
    types = [*((v.shape, v.dtype) for v in operands), (shape, "s32")]
    sort = Op("ipu.sort_with_positions", operands, types, {"dimension": dim}, (comparator,), op.location)
    rewriter.ops.append(sort)
    *sorted_operands, positions = sort.results
    results = dict(zip(kept, sorted_operands, strict=True))
    for i, step in moved.items():
        counted = positions
        if step < 0:
            counted = rewriter.elementwise("subtract", rewriter.full(shape, "s32", shape[dim] - 1), positions)
        results[i] = rewriter.convert(counted, op.results[i].dtype)
    return [results[i] for i in range(count)]


RULES: dict[str, Rule] = {"sort": _sort}
