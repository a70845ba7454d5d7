"""The positions of what is true in a mask (`jnp.nonzero`, `jnp.unique`, `x[mask]` of a size) are sorted.

JAX counts how many elements have as many true ones before them, with a scatter whose cost for each element grows with
their number, and sums the counts. The same numbers are, in order, the positions of the true elements, and after them
the number of elements: what a sort gives, at about the same cost for each element.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import single_op, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import SIGNED, SIZE, num_elements


def run(module: Module) -> None:
    """Applies to all ops of main."""
    rewrite(module.main.block, {"reduce_window": _positions})


def _positions(op: Op, rewriter: Rewriter) -> Value | None:
    counts = _summed(op)
    if counts is None or counts.op is None or counts.op.name != "scatter" or len(counts.op.operands) != 3:
        return None
    table, indices, ones = counts.op.operands
    numbers = counts.op.attrs["scatter_dimension_numbers"]
    if single_op(counts.op.regions[0]) != "add" or not _is_full(table, 0) or not _is_full(ones, 1):
        return None
    if numbers["inserted_window_dims"] != (0,) or len(table.shape) != 1 or counts.dtype not in SIGNED:
        return None
    mask = _mask_of_counts(indices)
    if mask is None or num_elements(mask.shape) != num_elements(ones.shape):
        return None
    (count,), (size,), dtype = mask.shape, table.shape, counts.dtype
    if SIZE[dtype] < SIZE["s32"]:
        return None
    none = rewriter.full((count,), dtype, count)
    place = rewriter.emit("iota", (), (count,), dtype, {"iota_dimension": 0})
    places = _sorted(rewriter.elementwise("select", mask, place, none, dtype=dtype), rewriter)
    if size <= count:
        return rewriter.slice(places, (0,), (size,))
    rest = rewriter.full((size - count,), dtype, count)
    return rewriter.emit("concatenate", (places, rest), (size,), dtype, {"dimension": 0})


def _is_full(value: Value, number: int) -> bool:
    literal = splat_of(value)
    return literal is not None and bool(literal.data) and literal.scalar() == number


def _summed(op: Op) -> Value | None:
    """The operand of a cumulative sum from the front in one dimension; None for others."""
    attrs = op.attrs
    if len(op.results) != 1 or len(op.result.shape) != 1 or single_op(op.regions[0]) != "add":
        return None
    (n,) = op.result.shape
    plain = all(attrs.get(k, (1,)) == (1,) for k in ("window_strides", "base_dilations", "window_dilations"))
    along = attrs["window_dimensions"] == (n,) and attrs.get("padding") == ((n - 1, 0),)
    return op.operands[0] if plain and along and _is_full(op.operands[1], 0) else None


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
        inner = op.operands[0]
        if num_elements(inner.shape) != num_elements(value.shape) or SIZE[inner.dtype] > SIZE[value.dtype]:
            return None
        value = inner
    if value.op is None or value.op.name != "reduce_window":
        return None
    summed = _summed(value.op)
    converted = summed.op if summed is not None else None
    if converted is None or converted.name != "convert" or value.dtype not in SIGNED:
        return None
    mask = converted.operands[0]
    holds_all = mask.shape[0] < 1 << 8 * SIZE[value.dtype] - 1
    return mask if mask.dtype == "pred" and holds_all else None


def _sorted(value: Value, rewriter: Rewriter) -> Value:
    args = [Value((), value.dtype, None, i) for i in range(2)]
    less = {"comparison_direction": "LT", "compare_type": "SIGNED"}
    compare = Op("compare", args, [((), "pred")], less, (), rewriter.location)
    body = Block(args, [compare, Op("return", compare.results, [], None, (), rewriter.location)])
    return rewriter.emit("sort", (value,), value.shape, value.dtype, {"dimension": 0, "is_stable": False}, (body,))
