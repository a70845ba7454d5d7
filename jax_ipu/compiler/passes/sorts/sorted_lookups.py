"""Lookups of what was sorted, at the positions that the sort gives, are the sorted elements: `x[jnp.argsort(x)]`.

`jnp.unique` is written so. A sort moves its operands anyhow; the lookup would cost as much as half a sort. And many
elements that are set at these positions (`x.at[order].set(u)`, the inverse of `order`) are sorted by them, as are
those of the gradient of a sort.
"""

from __future__ import annotations

import math

from jax_ipu.compiler.expression import replaces_state, single_op
from jax_ipu.compiler.ir import Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes import dce
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import INTEGER, SIZE, num_elements

_SORT = "ipu.sort_with_positions"
# Where a table of this part of the memory is looked up, it lies better as lookups want it than as it was sorted.
_LARGE_TABLE = 1 / 10
# From so many elements on, a sort by the positions takes much less time than setting the elements.
_MANY = 1 << 21
# A sort of rows of at least this many elements takes less time than setting them one by one, which one tile does.
_LONG = 1 << 10


def run(module: Module) -> None:
    """Applies to all ops of main."""
    if not any(op.name == _SORT for op in module.main.block.walk()):
        return
    most = module.memory * _LARGE_TABLE if module.memory else math.inf
    rules: dict[str, Rule] = {"gather": lambda op, rewriter: _gather(op, rewriter, most)}
    if not module.frugal:
        rules["scatter"] = _scatter
    rewrite(module.main.block, rules)
    dce.run(module)
    rewrite(module.main.block, {_SORT: _without_positions})


def _gather(op: Op, rewriter: Rewriter, most: float) -> Value | None:
    table, indices = op.operands
    if size_in_bytes(table) > most and any(u.name == "gather" and u.operands[0] is op.result for u in op.result.users):
        return None
    sort, positions = _sort_of(indices)
    if sort is None or positions is None:
        return None
    dim, shape, numbers = sort.attrs["dimension"], positions.shape, op.attrs["dimension_numbers"]
    others = tuple(d for d in range(len(shape)) if d != dim)
    along = {
        "offset_dims": (),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": others,
        "start_indices_batching_dims": others,
        "start_index_map": (dim,),
        "index_vector_dim": len(shape),
    }
    if any(numbers[key] != value for key, value in along.items()) or table.shape != shape:
        return None
    for operand, result in zip(sort.operands, sort.results, strict=False):
        if operand.dtype == table.dtype and _unmoved(operand) is _unmoved(table):
            return rewriter.reshape(result, op.result.shape)
    return None


def _scatter(op: Op, rewriter: Rewriter) -> Value | None:
    """Elements of each row that are all set, or added to, each once."""
    if len(op.results) != 1:
        return None
    adds = single_op(op.regions[0]) == "add" and op.result.dtype != "pred"
    if not adds and not replaces_state(op.regions[0]):
        return None
    table, indices, updates = op.operands
    sort, positions = _sort_of(indices)
    if sort is None or positions is None or not positions.shape == updates.shape == table.shape:
        return None
    dim, shape, numbers = sort.attrs["dimension"], positions.shape, op.attrs["scatter_dimension_numbers"]
    others = tuple(d for d in range(len(shape)) if d != dim)
    along = {
        "update_window_dims": (),
        "inserted_window_dims": (dim,),
        "input_batching_dims": others,
        "scatter_indices_batching_dims": others,
        "scattered_dims_to_operand_dims": (dim,),
        "index_vector_dim": len(shape),
    }
    if any(numbers[key] != value for key, value in along.items()):
        return None
    if num_elements(shape) < _MANY and (shape[dim] < _LONG or num_elements(shape) == shape[dim]):
        return None
    moved = rewriter.sort((positions, updates), dim)[1]
    return rewriter.elementwise("add", table, moved) if adds else moved


def _sort_of(indices: Value) -> tuple[Op | None, Value | None]:
    """The sort whose positions are the indices, which have one more dimension, of one element, or none."""
    value = indices
    while value.op is not None and value.op.name != _SORT:
        inner = value.op.operands[0] if value.op.operands else None
        same = inner is not None and value.shape in (inner.shape, (*inner.shape, 1))
        dims = value.op.attrs.get("broadcast_dimensions", ())
        if value.op.name == "broadcast_in_dim":
            same = same and inner is not None and dims == tuple(range(len(inner.shape)))
        # Another type holds all positions.
        same = same and value.dtype in INTEGER and SIZE[value.dtype] >= SIZE["s32"]
        if not same or value.op.name not in ("broadcast_in_dim", "reshape", "convert"):
            return None, None
        value = value.op.operands[0]
    sort = value.op
    return (sort, value) if sort is not None and value is sort.results[-1] else (None, None)


def _unmoved(value: Value) -> Value:
    """The value before ops that only add, drop or move dimensions of one element."""
    while value.op is not None:
        op = value.op
        order = [p for p in op.attrs.get("permutation", ()) if op.operands[0].shape[p] > 1]
        if op.name != "reshape" and not (op.name == "transpose" and order == sorted(order)):
            break
        value = op.operands[0]
    return value


def _without_positions(op: Op, rewriter: Rewriter) -> list[Value] | None:
    if op.results[-1].users:
        return None
    types = [(result.shape, result.dtype) for result in op.results[:-1]]
    attrs = {"dimension": op.attrs["dimension"], "is_stable": True}
    sort = Op("sort", op.operands, types, attrs, [op.regions.pop()], op.location)
    rewriter.ops.append(sort)
    return [*sort.results, op.results[-1]]
