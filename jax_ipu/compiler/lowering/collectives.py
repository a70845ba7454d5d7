"""Collectives between the replicas of the program, and which of them runs it."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.replica_groups import Groups, groups_of, sources_of


def _groups(context: Context, op: Op) -> Groups:
    return groups_of(op, context.num_partitions, context.num_replicas)


def lower_all_gather(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    groups, dim = _groups(context, op), op.attrs["all_gather_dim"]
    return [
        _ipu.all_gather(context.graph, tensor, dim, groups, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_all_reduce(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    groups, body = _groups(context, op), expression_of(region_program(op.regions[0], op))
    return [
        _ipu.all_reduce(context.graph, tensor, groups, body, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_reduce_scatter(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    groups, body = _groups(context, op), expression_of(region_program(op.regions[0], op))
    dim = op.attrs["scatter_dimension"]
    return [
        _ipu.reduce_scatter(context.graph, tensor, dim, groups, body, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_all_to_all(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    groups, attrs, name = _groups(context, op), op.attrs, context.name(op)
    tensors = context.operands(op)
    if "split_dimension" in attrs:
        split, concat = attrs["split_dimension"], attrs["concat_dimension"]
        return [_ipu.all_to_all(context.graph, t, split, concat, groups, context.sequence, name) for t in tensors]
    # The form of tuples: operand p goes to member p.
    stacked = _ipu.concat([t.expand([0]) for t in tensors], 0)
    received = _ipu.all_to_all(context.graph, stacked, 0, 0, groups, context.sequence, name)
    shape = tensors[0].shape
    return [received.slice([p] + [0] * len(shape), [p + 1, *shape]).reshape(shape) for p in range(len(tensors))]


def lower_collective_permute(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    sources = sources_of(op, context.num_partitions, context.num_replicas)
    return [
        _ipu.collective_permute(context.graph, tensor, sources, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_collective_broadcast(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    groups = _groups(context, op)
    return [
        _ipu.collective_broadcast(context.graph, tensor, groups, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_partition_id(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    return [_part_of_index(context, op, "remainder")]


def lower_replica_id(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    return [_part_of_index(context, op, "divide")]


def _part_of_index(context: Context, op: Op, operation: str) -> _ipu.Tensor:
    """The launch index is replica * num_partitions + partition."""
    index = _ipu.replica_index(context.graph, context.sequence, context.name(op))
    partitions = context.num_partitions.to_bytes(4, "little")
    expression = _ipu.Expression(["u32"], [("u32", partitions)], [(operation, "u32", "u32", 0, 1, 0, 0)], [2])
    return _ipu.map(context.graph, expression, [index], context.sequence, context.name(op))


LOWERINGS = {
    "all_gather": lower_all_gather,
    "all_reduce": lower_all_reduce,
    "all_to_all": lower_all_to_all,
    "collective_broadcast": lower_collective_broadcast,
    "collective_permute": lower_collective_permute,
    "partition_id": lower_partition_id,
    "reduce_scatter": lower_reduce_scatter,
    "replica_id": lower_replica_id,
}
