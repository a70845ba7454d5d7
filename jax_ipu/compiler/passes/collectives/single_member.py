"""Removes collectives from programs for one IPU: each group has one member, so the results are the operands."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule


def _identity(op: Op, rewriter: Rewriter) -> Sequence[Value] | None:
    same = [o.shape for o in op.operands] == [r.shape for r in op.results]
    return list(op.operands) if same else None


def _collective_permute(op: Op, rewriter: Rewriter) -> Value:
    """The operand where the IPU sends to itself, otherwise zeros."""
    if op.attrs["source_target_pairs"]:
        return op.operands[0]
    return rewriter.full(op.result.shape, op.result.dtype, 0)


def _member(op: Op, rewriter: Rewriter) -> Value:
    return rewriter.full(op.result.shape, op.result.dtype, 0)


RULES: dict[str, Rule] = {
    "all_gather": _identity,
    "all_reduce": _identity,
    "all_to_all": _identity,
    "collective_broadcast": _identity,
    "collective_permute": _collective_permute,
    "cross-replica-sum": _identity,
    "partition_id": _member,
    "reduce_scatter": _identity,
    "replica_id": _member,
}
