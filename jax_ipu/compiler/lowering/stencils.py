"""Chooses between blocks and strips for the arrays that stencils read.

The ops over such arrays are lowered with either mapping, in graphs of their own. The cycles of the model decide.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu import _ipu
from jax_ipu.compiler.ir import LOOPS, Block, Op
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.lowering.control_flow import write_results
from jax_ipu.compiler.lowering.rivals import cycles_of, lower_alone
from jax_ipu.compiler.mapping import PASSES, VIEWS, MappingPlan

# Ops over arrays in blocks that are tried.
_TRIED = PASSES | {"ipu.update_slice", "dynamic_update_slice", "dynamic_slice"}
# Ops that take as long with any mapping. Others, such as products, want one of their own.
_ANY_MAPPING = VIEWS | {"constant", "iota", "ipu.random_bits", "ipu.threefry2x32", "ipu.copy", "collective_permute"}
_CONTROL = frozenset((*LOOPS, "if", "case", "ipu.call", "return"))


def settle(mapping: MappingPlan, target: _ipu.Target, trial: Callable[[], Context], main: Block) -> None:
    """Leaves the stencils out of the mapping plan if strips take no more cycles.

    Args:
        mapping, target, trial: as of `rivals.settle`.
        main: the whole program.
    """
    if mapping.in_strips is None:  # settled, or without stencils
        return
    num_tiles = trial().num_tiles
    for stencil in mapping.stencils.values():
        stencil.choose(num_tiles, target.exchange_bytes_per_cycle)
    known = _TRIED | _ANY_MAPPING | _CONTROL
    others = (op for op in main.walk() if op.name not in known and _is_over_blocks(mapping, op))
    if any(stencil.parts for stencil in mapping.stencils.values()) and next(others, None) is None:
        blocks = dict.fromkeys(b for stencil in mapping.stencils.values() for b in stencil.blocks)
        plans = mapping, mapping.in_strips
        in_blocks, in_strips = (sum(_cycles(trial(), plan, mapping, b, main) for b in blocks) for plan in plans)
        if in_blocks < in_strips:
            mapping.in_strips = None
            return
    mapping.leave_out_stencils()


def _is_over_blocks(mapping: MappingPlan, op: Op) -> bool:
    """Whether the op reads or makes an array that a stencil decides."""
    for value in (*op.operands, *op.results):
        while value.op is not None and value.op.name in VIEWS:
            value = value.op.operands[0]
        demand = mapping.demands.get(value)
        if demand is not None and demand.op in mapping.stencils:
            return True
    return False


def _cycles(context: Context, plan: MappingPlan, blocks: MappingPlan, block: Block, main: Block) -> int:
    """Cycles of the ops of the block that go over arrays in blocks, mapped as the plan says."""
    context.mapping = plan
    for op in block.ops:
        if op.name not in _TRIED or not _is_over_blocks(blocks, op):
            continue
        lower_alone(context, op, plan.demand)
    ends = {
        i: context.tensors[arg]
        for i, (arg, result) in enumerate(zip(block.args, block.results, strict=False))
        if block is not main and arg in context.tensors and result in context.tensors and arg.shape == result.shape
    }
    write_results(context, block, ends, "state")
    return cycles_of(context)
