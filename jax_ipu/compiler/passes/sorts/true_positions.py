"""The positions of what is true in a mask (`jnp.nonzero`, `jnp.unique`, `x[mask]` of a size) are sorted.

JAX counts how many elements have as many true ones before them, with a scatter whose cost for each element grows with
their number, and sums the counts. The same numbers are, in order, the positions of the true elements, and after them
the number of elements: what a sort gives, at about the same cost for each element.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import cumulated, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import SIGNED, SIZE, Shape, num_elements


def run(module: Module) -> None:
    """Applies to all ops of main."""
    rewrite(module.main.block, {"reduce_window": _positions})


def _positions(op: Op, rewriter: Rewriter) -> Value | None:
    counts = _summed(op)
    if counts is not None and counts.op is not None and counts.op.name == "reshape":
        counts = counts.op.operands[0] if _has_rows_of(counts.op.operands[0], counts) else None
    if counts is None or counts.op is None or counts.op.name != "scatter" or len(counts.op.operands) != 3:
        return None
    table, indices, ones = counts.op.operands
    if single_op(counts.op.regions[0]) != "add" or not _is_full(table, 0) or not _is_full(ones, 1):
        return None
    mask = _mask_of_counts(indices)
    if mask is None or not _has_rows_of(mask, ones) or not _is_along_rows(counts.op, ones.shape):
        return None
    mask = rewriter.reshape(mask, ones.shape)
    (*rows, count), size, dtype = mask.shape, table.shape[-1], counts.dtype
    none = rewriter.full(mask.shape, dtype, count)
    place = rewriter.emit("iota", (), mask.shape, dtype, {"iota_dimension": len(rows)})
    found = rewriter.elementwise("select", mask, place, none, dtype=dtype)
    (places,) = rewriter.sort((found,), len(found.shape) - 1, is_stable=False)
    if size <= count:
        places = rewriter.slice(places, (0,) * len(table.shape), table.shape)
    else:
        rest = rewriter.full((*rows, size - count), dtype, count)
        places = rewriter.emit("concatenate", (places, rest), table.shape, dtype, {"dimension": len(rows)})
    return rewriter.reshape(places, op.result.shape)


def _has_rows_of(value: Value, other: Value) -> bool:
    """Whether two values of the same elements in order have the same rows, along the last dimension."""
    shapes = [tuple(n for n in v.shape[:-1] if n != 1) for v in (value, other)]
    return bool(value.shape) and shapes[0] == shapes[1] and value.shape[-1:] == other.shape[-1:]


def _is_along_rows(scatter: Op, shape: Shape) -> bool:
    """Whether a scatter of elements changes in each row, along the last dimension, what the indices of the row say."""
    table, indices, updates = scatter.operands
    rows = tuple(range(len(shape) - 1))
    numbers = scatter.attrs["scatter_dimension_numbers"]
    along = {
        "update_window_dims": (),
        "inserted_window_dims": (len(rows),),
        "input_batching_dims": rows,
        "scatter_indices_batching_dims": rows,
        "scattered_dims_to_operand_dims": (len(rows),),
        "index_vector_dim": len(shape),
    }
    same = all(tuple(numbers[k]) == v if k != "index_vector_dim" else numbers[k] == v for k, v in along.items())
    return (
        same
        and table.dtype in SIGNED
        and SIZE[table.dtype] >= SIZE["s32"]
        and table.shape[:-1] == shape[:-1]
        and updates.shape == shape
        and indices.shape in (shape, (*shape, 1))
    )


def _is_full(value: Value, number: int) -> bool:
    literal = splat_of(value)
    return literal is not None and bool(literal.data) and literal.scalar() == number


def _summed(op: Op) -> Value | None:
    """The operand of a cumulative sum from the front along the last dimension; None for others."""
    return op.operands[0] if cumulated(op) == ("add", len(op.results[0].shape) - 1) else None


def _mask_of_counts(indices: Value) -> Value | None:
    """The mask of which the indices are the cumulative sum; None where they are something else."""
    value = indices
    while value.op is not None and value.op.name in ("broadcast_in_dim", "reshape", "maximum", "convert"):
        op = value.op
        if op.name == "maximum":
            # Counts are not negative.
            kept = [o for o in op.operands if not _is_full(o, 0)]
            if len(kept) != 1:
                return None
            value = kept[0]
            continue
        inner, dims = op.operands[0], op.attrs.get("broadcast_dimensions", ())
        if (
            list(dims) != sorted(dims)
            or num_elements(inner.shape) != num_elements(value.shape)
            or SIZE[inner.dtype] > SIZE[value.dtype]
        ):
            return None
        value = inner
    if value.op is None or value.op.name != "reduce_window":
        return None
    summed = _summed(value.op)
    converted = summed.op if summed is not None else None
    if converted is None or converted.name != "convert" or value.dtype not in SIGNED:
        return None
    mask = converted.operands[0]
    holds_all = mask.shape[-1] < 1 << 8 * SIZE[value.dtype] - 1
    return mask if mask.dtype == "pred" and holds_all else None
