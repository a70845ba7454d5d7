"""Gathers and scatters along batching dimensions of one element, as `jax.vmap` makes of one row, are plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule


def _gather(op: Op, rewriter: Rewriter) -> Value | None:
    """Lookups with one table for each row, if there is one row only, look up in that table."""
    table, indices = op.operands
    numbers = op.attrs["dimension_numbers"]
    ones = [
        (d, i)
        for d, i in zip(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"], strict=True)
        if table.shape[d] == 1
    ]
    if not ones:
        return None
    dims, index_dims = ([pair[k] for pair in ones] for k in (0, 1))
    axis, rank = numbers["index_vector_dim"], len(op.result.shape)
    # Dimensions of the result are either of the windows or of the indices, in order, without that of the vectors.
    along = [d for d in range(len(indices.shape)) if d != axis]
    batch = [d for d in range(rank) if d not in numbers["offset_dims"]]
    dropped = [batch[along.index(d)] for d in index_dims]
    changed = _without(
        numbers,
        (("collapsed_slice_dims", "operand_batching_dims", "start_index_map"), dims),
        (("start_indices_batching_dims",), index_dims),
        (("offset_dims",), dropped),
    )
    changed["index_vector_dim"] = axis - sum(d < axis for d in index_dims)
    sizes = tuple(n for d, n in enumerate(op.attrs["slice_sizes"]) if d not in dims)
    attrs = op.attrs | {"dimension_numbers": changed, "slice_sizes": sizes}
    operands = (_squeeze(table, dims, rewriter), _squeeze(indices, index_dims, rewriter))
    shape = tuple(n for d, n in enumerate(op.result.shape) if d not in dropped)
    return rewriter.reshape(rewriter.emit("gather", operands, shape, op.result.dtype, attrs), op.result.shape)


def _scatter(op: Op, rewriter: Rewriter) -> list[Value] | None:
    """Updates with one array for each row, if there is one row only, update that array."""
    count = len(op.results)
    tables, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    numbers = op.attrs["scatter_dimension_numbers"]
    ones = [
        (d, i)
        for d, i in zip(numbers["input_batching_dims"], numbers["scatter_indices_batching_dims"], strict=True)
        if tables[0].shape[d] == 1
    ]
    if not ones:
        return None
    dims, index_dims = ([pair[k] for pair in ones] for k in (0, 1))
    axis = numbers["index_vector_dim"]
    along = [d for d in range(len(indices.shape)) if d != axis]
    batch = [d for d in range(len(updates[0].shape)) if d not in numbers["update_window_dims"]]
    dropped = [batch[along.index(d)] for d in index_dims]
    changed = _without(
        numbers,
        (("inserted_window_dims", "input_batching_dims", "scattered_dims_to_operand_dims"), dims),
        (("scatter_indices_batching_dims",), index_dims),
        (("update_window_dims",), dropped),
    )
    changed["index_vector_dim"] = axis - sum(d < axis for d in index_dims)
    operands = [
        *(_squeeze(table, dims, rewriter) for table in tables),
        _squeeze(indices, index_dims, rewriter),
        *(_squeeze(update, dropped, rewriter) for update in updates),
    ]
    types = [(value.shape, value.dtype) for value in operands[:count]]
    attrs = op.attrs | {"scatter_dimension_numbers": changed}
    scatter = Op("scatter", operands, types, attrs, [op.regions.pop()], op.location)
    rewriter.ops.append(scatter)
    return [rewriter.reshape(r, old.shape) for r, old in zip(scatter.results, op.results, strict=True)]


def _without(numbers: dict[str, Any], *changes: tuple[Sequence[str], Sequence[int]]) -> dict[str, Any]:
    """The lists of dimensions of these names, when some dimensions are dropped."""
    changed = dict(numbers)
    for names, dropped in changes:
        for name in names:
            changed[name] = tuple(d - sum(e < d for e in dropped) for d in numbers[name] if d not in dropped)
    return changed


def _squeeze(value: Value, dims: Sequence[int], rewriter: Rewriter) -> Value:
    return rewriter.reshape(value, tuple(n for d, n in enumerate(value.shape) if d not in dims))


RULES: dict[str, Rule] = {"gather": _gather, "scatter": _scatter}
