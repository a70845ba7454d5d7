"""Gathers and scatters of which an index counts the rows, `x[jnp.arange(n)[:, None], i]`, are those of each row.

JAX writes these with batching dimensions where the program has `jax.vmap(lambda row, i: row[i])(x, i)`. Then a tile
sees the indices of the rows that it holds, and not those of all, and the index that counts is not made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.indices.known_indices import counts
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import num_elements

# Where memory comes first, tiles have at least so many rows each: then none has much more than another.
_EVEN = 4

# The names of a gather, and those of a scatter, for the same numbers.
_GATHER = ("collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map")
_SCATTER = (
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scattered_dims_to_operand_dims",
)


def run(module: Module) -> None:
    """Rewrites the gathers and scatters of main."""
    if module.frugal and not module.num_tiles:
        return
    least = _EVEN * module.num_tiles if module.frugal else 0

    def gather(op: Op, rewriter: Rewriter) -> Value | None:
        found = _rows(op, "dimension_numbers", _GATHER, 1, least, rewriter)
        if found is None:
            return None
        return rewriter.emit("gather", found.operands, op.result.shape, op.result.dtype, found.attrs)

    def scatter(op: Op, rewriter: Rewriter) -> list[Value] | None:
        found = _rows(op, "scatter_dimension_numbers", _SCATTER, len(op.results), least, rewriter)
        if found is None:
            return None
        types = [(r.shape, r.dtype) for r in op.results]
        new = Op("scatter", list(found.operands), types, found.attrs, [op.regions.pop()], op.location)
        rewriter.ops.append(new)
        return list(new.results)

    rewrite(module.main.block, {"gather": gather, "scatter": scatter})


class _Found(NamedTuple):
    operands: tuple[Value, ...]
    attrs: dict[str, Any]


def _rows(op: Op, key: str, names: tuple[str, ...], place: int, least: int, rewriter: Rewriter) -> _Found | None:
    """The operands and attributes of the op on each row by itself; `place` is that of the indices.

    None if no index counts the elements of a dimension, if all do, or if these are fewer than `least` rows.
    """
    numbers: dict[str, Any] = op.attrs[key]
    single, batching, own, indexed = (tuple(numbers[name]) for name in names)
    shape, indices, axis = op.operands[0].shape, op.operands[place], numbers["index_vector_dim"]
    stack = indices.op
    if stack is None or stack.name != "concatenate" or stack.attrs["dimension"] != axis:
        return None
    columns = list(stack.operands)
    if any(column.shape[axis] != 1 for column in columns):
        return None
    rows = dict(zip(batching, own, strict=True))
    counting: set[int] = set()
    for number, (dim, column) in enumerate(zip(indexed, columns, strict=True)):
        along = counts(column, shape[dim]) if dim in single else None
        if along is None or along in rows.values() or len(counting) + 1 == len(columns):
            continue
        counting.add(number)
        rows[dim] = along
    if not counting or num_elements(tuple(shape[d] for d in rows)) < least:
        return None

    def others(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(value for number, value in enumerate(values) if number not in counting)

    order = sorted(rows)
    new = (tuple(d for d in single if d not in rows), tuple(order), tuple(rows[d] for d in order), others(indexed))
    attrs = op.attrs | {key: numbers | dict(zip(names, new, strict=True))}
    if "index_wraps" in attrs:
        attrs["index_wraps"] = others(attrs["index_wraps"])
    kept = others(tuple(columns))
    column = kept[0]
    if len(kept) > 1:
        joined = tuple(len(kept) if d == axis else n for d, n in enumerate(indices.shape))
        column = rewriter.emit("concatenate", kept, joined, indices.dtype, {"dimension": axis})
    return _Found((*op.operands[:place], column, *op.operands[place + 1 :]), attrs)
