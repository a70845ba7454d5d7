"""Replaces branches in scalar bodies (of map, reduce, sort, ...): vertices compute all branches and select one."""

from __future__ import annotations

from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite

_WITH_SCALAR_BODIES = frozenset(
    ("all_reduce", "map", "reduce", "reduce_scatter", "reduce_window", "scatter", "select_and_scatter", "sort")
)


def run(module: Module) -> None:
    """Leaves no `if` and no `case` in scalar bodies."""
    for op in module.main.block.walk():
        if op.name in _WITH_SCALAR_BODIES:
            for body in op.regions:
                rewrite(body, {"if": _if, "case": _case})


def _moved(branch: Block, rewriter: Rewriter) -> list[Value]:
    """The results of a branch, whose ops move in front of the op that branches."""
    *ops, end = branch.ops
    results = list(end.operands)
    rewriter.ops.extend(ops)
    branch.ops = [end]
    return results


def _selected(rewriter: Rewriter, predicate: Value, chosen: list[Value], others: list[Value]) -> list[Value]:
    return [rewriter.emit("select", (predicate, a, b), a.shape, a.dtype) for a, b in zip(chosen, others, strict=True)]


def _if(op: Op, rewriter: Rewriter) -> list[Value]:
    chosen, others = (_moved(branch, rewriter) for branch in op.regions)
    return _selected(rewriter, op.operands[0], chosen, others)


def _case(op: Op, rewriter: Rewriter) -> list[Value]:
    """Selects by comparison with the index; an index without a branch takes the last one."""
    index = op.operands[0]
    *first, results = [_moved(branch, rewriter) for branch in op.regions]
    for i, branch in reversed(list(enumerate(first))):
        number = rewriter.full(index.shape, index.dtype, i)
        predicate = rewriter.emit("compare", (index, number), index.shape, "pred", {"comparison_direction": "EQ"})
        results = _selected(rewriter, predicate, branch, results)
    return results
