"""Replaces the sum of two all-reduced tensors by one all-reduce of their sum.

Where a program uses a tensor twice, such as an embedding table that is also the weight of the last layer, its gradient
is a sum of two tensors, and the partitioner all-reduces each of them.

All three must be in one block: in a branch or loop that reads the tensors from outside, devices may not meet, or meet
again.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import single_op
from jax_ipu.compiler.ir import Block, Module, Op, Value, blocks_of, clone_block
from jax_ipu.compiler.passes.collectives.combine_collectives import combination_key
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite


def run(module: Module) -> None:
    """Applies to all ops of main in a program for several IPUs."""
    if module.num_replicas * module.num_partitions > 1:
        blocks = blocks_of(module.main.block)
        rewrite(module.main.block, {"add": lambda op, rewriter: _add(op, rewriter, blocks)})


def _is_sum_of_one(op: Op | None) -> bool:
    if op is None or op.name != "all_reduce" or len(op.results) != 1 or len(op.result.users) != 1:
        return False
    return bool(op.regions) and single_op(op.regions[0]) == "add"


def _add(op: Op, rewriter: Rewriter, blocks: dict[Op, Block]) -> Value | None:
    first, second = (operand.op for operand in op.operands)
    if first is second or not _is_sum_of_one(first) or not _is_sum_of_one(second):
        return None
    assert first is not None and second is not None
    if any(blocks[total] is not blocks[op] for total in (first, second)):
        return None
    if combination_key(first) != combination_key(second):
        return None
    summed = rewriter.elementwise("add", first.operands[0], second.operands[0])
    region = clone_block(second.regions[0])
    attrs = dict(second.attrs)
    total = Op("all_reduce", [summed], [(op.result.shape, op.result.dtype)], attrs, (region,), rewriter.location)
    rewriter.ops.append(total)
    blocks[total] = blocks[op]
    return total.result
