"""dynamic_slice, dynamic_update_slice, updates at constant positions, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.lowering.context import Context, expression_of
from jax_ipu.compiler.mapping import Demand, slice_sizes
from jax_ipu.compiler.types import num_elements


def lower_dynamic_slice(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A slice at a position known at run time only, clamped into the operand."""
    name = context.name(op)
    if num_elements(op.result.shape) == 0:
        return [context.variable(op.result.dtype, op.result.shape, name)]
    operand, *starts = context.operands(op)
    return [_ipu.dynamic_slice(context.graph, operand, starts, op.result.shape, context.sequence, name)]


def writeable(context: Context, op: Op, value: Value) -> _ipu.Tensor:
    """The storage of the operand where the op may write over it, otherwise a copy.

    A copy as well where the operand consists of parts of several variables, as what devices sent each other may.
    """
    tensor = context.tensor(value)
    if op.attrs.get("in_place") and tensor.is_strided:
        return tensor
    name = context.name(op)
    result = context.allocate(value, name)
    context.sequence.copy(tensor, result, name)
    return result


def lower_dynamic_update_slice(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Writes a slice at a position that is clamped into the operand."""
    operand, update, *starts = op.operands
    name = context.name(op)
    target = writeable(context, op, operand)
    if num_elements(update.shape) == 0:
        return [target]
    indices = [context.tensor(s) for s in starts]
    _ipu.dynamic_update_slice(
        context.graph, target, context.tensor(update), indices, context.sequence, name, in_place=True
    )
    return [target]


def lower_update_slice(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Copies the update over every `strides[d]`th element from `start_indices[d]` on."""
    operand, update = op.operands
    name = context.name(op)
    result = writeable(context, op, operand)
    begins, strides = op.attrs["start_indices"], op.attrs["strides"]
    ends = [b + (n - 1) * s + 1 for b, n, s in zip(begins, update.shape, strides, strict=True)]
    target = result.slice(begins, ends)
    for dim, stride in enumerate(strides):
        if stride > 1 and update.shape[dim] > 1:
            target = target.sub_sample(stride, dim)
    context.sequence.copy(context.tensor(update), target, name)
    return [result]


def lower_gather(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Slices at several positions; positions outside are clamped into the operand."""
    name = context.name(op)
    result = op.result
    if num_elements(result.shape) == 0:
        return [context.variable(result.dtype, result.shape, name)]
    operand, indices = context.operands(op)
    d = op.attrs["dimension_numbers"]
    return [
        _ipu.gather(
            context.graph,
            operand,
            indices,
            d["offset_dims"],
            d["collapsed_slice_dims"],
            d["operand_batching_dims"],
            d["start_indices_batching_dims"],
            d["start_index_map"],
            d["index_vector_dim"],
            op.attrs.get("index_wraps", ()),
            op.attrs["slice_sizes"],
            context.sequence,
            name,
        )
    ]


def lower_scatter(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Combines updates with slices at several positions by the body; positions outside are left out."""
    count = len(op.results)
    operands, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    name = context.name(op)
    targets = [writeable(context, op, o) for o in operands]
    if num_elements(updates[0].shape) == 0 or num_elements(op.results[0].shape) == 0:
        return targets
    d = op.attrs["scatter_dimension_numbers"]
    # The arguments of the body are the current elements, then the updates.
    _ipu.scatter(
        context.graph,
        targets,
        context.tensor(indices),
        [context.tensor(u) for u in updates],
        d["update_window_dims"],
        d["inserted_window_dims"],
        d["input_batching_dims"],
        d["scatter_indices_batching_dims"],
        d["scattered_dims_to_operand_dims"],
        d["index_vector_dim"],
        op.attrs.get("index_wraps", ()),
        bool(op.attrs.get("unique_indices", False)),
        expression_of(region_program(op.regions[0], op)),
        context.sequence,
        name,
        in_place=True,
    )
    return targets


def create_sliced(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable that can be sliced as the op does without an exchange between tiles."""
    operand = demand.op.operands[demand.operand]
    sizes = {d: size for d, size in enumerate(slice_sizes(demand.op) or ()) if size != operand.shape[d]}
    if not sizes:
        return None
    tensor = _ipu.create_sliceable_tensor(context.graph, dtype, operand.shape, list(sizes), list(sizes.values()), name)
    own = context.mapping.own_tiles.get((demand.op, demand.operand))
    if own is not None and sum(map(bool, context.graph.get_tile_mapping(tensor))) == 1:
        context.graph.set_tile_mapping(tensor, -own % context.num_tiles)
    return tensor


def create_indexed(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable with as many elements on each tile as the plan of the gather or scatter wants."""
    op = demand.op
    operand, indices = op.operands[0], op.operands[len(op.results) if op.name == "scatter" else 1]
    if op.name == "gather":
        d = op.attrs["dimension_numbers"]
        numbers = (
            d["offset_dims"],
            d["collapsed_slice_dims"],
            d["operand_batching_dims"],
            d["start_indices_batching_dims"],
            d["start_index_map"],
        )
        sizes = op.attrs["slice_sizes"]
    else:
        d = op.attrs["scatter_dimension_numbers"]
        numbers = (
            d["update_window_dims"],
            d["inserted_window_dims"],
            d["input_batching_dims"],
            d["scatter_indices_batching_dims"],
            d["scattered_dims_to_operand_dims"],
        )
        windows = iter(d["update_window_dims"])
        update, single = op.operands[-1].shape, (*d["inserted_window_dims"], *d["input_batching_dims"])
        sizes = tuple(1 if i in single else update[next(windows)] for i in range(len(operand.shape)))
    if num_elements(indices.shape) == 0:
        return None
    has_passes = (op, demand.operand) not in context.mapping.without_passes
    return _ipu.create_gather_input(
        context.graph, dtype, operand.shape, indices.shape, *numbers, d["index_vector_dim"], sizes, name, has_passes
    )


LOWERINGS = {
    "dynamic_slice": lower_dynamic_slice,
    "dynamic_update_slice": lower_dynamic_update_slice,
    "ipu.update_slice": lower_update_slice,
    "gather": lower_gather,
    "scatter": lower_scatter,
}

CREATORS = {
    "dynamic_slice": create_sliced,
    "dynamic_update_slice": create_sliced,
    "gather": create_indexed,
    "scatter": create_indexed,
}
