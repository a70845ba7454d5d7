"""Collectives between replicas, and the ids of partition and replica.

They become calls of GCL where the groups are regular and GCL has an operator for the reduction; all others become
collectives over lists of replicas (hlo/Collectives.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program, single_op
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.replica_groups import Groups, groups_of, regular, sources_of
from jax_ipu.compiler.types import Shape

_NUMBERS = ("f32", "f16", "s32", "s64", "u64")
# Op in the body of a reduction -> operator of GCL, and the element types that it supports.
_OPERATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "add": ("ADD", _NUMBERS),
    "and": ("LOGICAL_AND", ("pred",)),
    "maximum": ("MAX", (*_NUMBERS, "u32")),
    "minimum": ("MIN", (*_NUMBERS, "u32")),
    "multiply": ("MUL", _NUMBERS),
    "or": ("LOGICAL_OR", ("pred",)),
}


def _groups(context: Context, op: Op) -> Groups:
    return groups_of(op, context.num_partitions, context.num_replicas)


def _comm_group(context: Context, groups: Groups) -> _ipu.CommGroup | None:
    form = regular(groups, context.num_partitions * context.num_replicas)
    return None if form is None else _ipu.CommGroup(*form)


def collective_operator(op: Op) -> str | None:
    """The operator of GCL for the body of a reduction; None where GCL has none for the body or the element type."""
    combine = single_op(op.regions[0])
    if combine not in _OPERATORS:
        return None
    name, types = _OPERATORS[combine]
    return name if all(o.dtype in types for o in op.operands) else None


def _parts_first(tensor: _ipu.Tensor, dim: int, parts: int) -> _ipu.Tensor:
    """[..., n, ...] -> [parts, ..., n / parts, ...]"""
    shape = list(tensor.shape)
    split = tensor.reshape([*shape[:dim], parts, shape[dim] // parts, *shape[dim + 1 :]])
    return split.dim_shuffle([dim, *(d for d in range(len(shape) + 1) if d != dim)])


def _first(tensor: _ipu.Tensor, dim: int, after: int = 0) -> _ipu.Tensor:
    """The tensor with dimension `dim` behind the first `after` dimensions: pieces of it join to a strided view."""
    others = [d for d in range(len(tensor.shape)) if d != dim]
    return tensor.dim_shuffle([*others[:after], dim, *others[after:]])


def _join(pieces: _ipu.Tensor, dim: int) -> _ipu.Tensor:
    """[parts, n, ...] -> [..., parts * n, ...]; n was dimension `dim`."""
    parts, count, *others = pieces.shape
    joined = pieces.reshape([parts * count, *others])
    return joined.dim_shuffle([*range(1, dim + 1), 0, *range(dim + 1, len(joined.shape))])


def lower_all_gather(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Joins the operand of all members along `all_gather_dim`."""
    groups, dim = _groups(context, op), op.attrs["all_gather_dim"]
    graph, sequence, name = context.graph, context.sequence, context.name(op)
    group = _comm_group(context, groups)
    if group is None:
        return [_ipu.all_gather(graph, t, dim, groups, sequence, name) for t in context.operands(op)]
    first = [_first(t, dim) for t in context.operands(op)]
    return [_join(_ipu.all_gather_cross_replica(graph, t, sequence, group, name), dim) for t in first]


def lower_all_reduce(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Combines the operands of all members elementwise; each gets the result."""
    groups, operator = _groups(context, op), collective_operator(op)
    graph, sequence, name = context.graph, context.sequence, context.name(op)
    # The order of the members does not matter for an all-reduce.
    group = _comm_group(context, [sorted(members) for members in groups])
    if group is not None and operator is not None:
        return _ipu.all_reduce_cross_replica(graph, context.operands(op), operator, sequence, group, name)
    body = expression_of(region_program(op.regions[0], op))
    return _ipu.all_reduce(graph, context.operands(op), groups, body, sequence, name)


def lower_reduce_scatter(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Combines the operands of all members elementwise; each gets one part along `scatter_dimension`."""
    groups, operator = _groups(context, op), collective_operator(op)
    graph, sequence, name = context.graph, context.sequence, context.name(op)
    dim, shape = op.attrs["scatter_dimension"], op.results[0].shape
    group = _comm_group(context, groups)
    if group is not None and operator is not None:
        parts = len(groups[0])
        flat = [_parts_first(t, dim, parts).reshape([t.num_elements]) for t in context.operands(op)]
        scattered = [_ipu.reduce_scatter_cross_replica(graph, t, operator, sequence, group, name) for t in flat]
        return [t.reshape(shape) for t in scattered]
    body = expression_of(region_program(op.regions[0], op))
    return [_ipu.reduce_scatter(graph, t, dim, groups, body, sequence, name) for t in context.operands(op)]


def lower_all_to_all(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Splits the operand along `split_dimension`, sends part p to member p, joins along `concat_dimension`."""
    groups, attrs, tensors = _groups(context, op), op.attrs, context.operands(op)
    if "split_dimension" in attrs:
        split, concat = attrs["split_dimension"], attrs["concat_dimension"]
        return [_all_to_all(context, op, t, split, concat, groups) for t in tensors]
    # The form with several operands: operand p goes to member p.
    received = _all_to_all(context, op, _ipu.concat([t.expand([0]) for t in tensors], 0), 0, 0, groups)
    return [_element(received, p, tensors[0].shape) for p in range(len(tensors))]


def _all_to_all(context: Context, op: Op, tensor: _ipu.Tensor, split: int, concat: int, groups: Groups) -> _ipu.Tensor:
    graph, sequence, name = context.graph, context.sequence, context.name(op)
    group = _comm_group(context, groups)
    if group is None:
        return _ipu.all_to_all(graph, tensor, split, concat, groups, sequence, name)
    parts = _first(_parts_first(tensor, split, len(groups[0])), concat + 1, 1)
    return _join(_ipu.all_to_all_cross_replica(graph, parts, sequence, group, name), concat)


def _element(tensor: _ipu.Tensor, position: int, shape: Shape) -> _ipu.Tensor:
    return tensor.slice([position] + [0] * len(shape), [position + 1, *shape]).reshape(shape)


def lower_collective_permute(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Sends the operand along source-target pairs; zeros where no pair has this replica as target."""
    sources = sources_of(op, context.num_partitions, context.num_replicas)
    return [
        _ipu.collective_permute(context.graph, tensor, sources, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_collective_broadcast(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Gives all members the operand of the first one of the group."""
    groups = _groups(context, op)
    return [
        _ipu.collective_broadcast(context.graph, tensor, groups, context.sequence, context.name(op))
        for tensor in context.operands(op)
    ]


def lower_partition_id(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The index of the partition, u32[]."""
    if context.num_replicas == 1:
        return [context.replica_index()]
    return [_part_of_index(context, op, "remainder")]


def lower_replica_id(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The index of the replica, u32[]."""
    if context.num_partitions == 1:
        return [context.replica_index()]
    return [_part_of_index(context, op, "divide")]


def _part_of_index(context: Context, op: Op, operation: str) -> _ipu.Tensor:
    partitions = context.num_partitions.to_bytes(4, "little")
    expression = _ipu.Expression(["u32"], [("u32", partitions)], [(operation, "u32", "u32", 0, 1, 0, 0)], [2])
    return _ipu.map(context.graph, expression, [context.replica_index()], context.sequence, context.name(op))


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
