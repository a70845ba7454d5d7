"""Many rows that are set in a large table: first the last update of each row is found, then its rows are looked up.

`x.at[i].set(u)` keeps the last of several updates of one row. The tiles of a table see all updates for that, whose cost
grows with their number times that of the rows. The largest number of an update for each row, and lookups, are found
while blocks of the table pass by the updates, at a cost that grows with the sum.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import replaces_state
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import SIZE, num_elements

# Updates times rows times the square of the bytes of a row, from which on this takes about half of the cycles, and the
# most rows for each update.
_LEAST, _MOST_ROWS = 4e13, 64
_LARGEST = 2**31 - 1  # positions are s32


def run(module: Module) -> None:
    """Rewrites the scatters of main and of its loops."""
    rewrite(module.main.block, {"scatter": _scatter})


def _scatter(op: Op, rewriter: Rewriter) -> Value | None:
    if len(op.results) != 1 or not replaces_state(op.regions[0]):
        return None
    table, indices, updates = op.operands
    numbers = op.attrs["scatter_dimension_numbers"]
    rows, *row = table.shape
    axis = numbers["index_vector_dim"]
    batch = tuple(n for d, n in enumerate(indices.shape) if d != axis)
    of_rows = (
        numbers["inserted_window_dims"] == numbers["scattered_dims_to_operand_dims"] == (0,)
        and not numbers["input_batching_dims"]
        and tuple(numbers["update_window_dims"]) == tuple(range(len(batch), len(batch) + len(row)))
        and updates.shape == (*batch, *row)
    )
    count, size = num_elements(batch), num_elements(tuple(row)) * SIZE[table.dtype]
    if not of_rows or count > _LARGEST or rows > _MOST_ROWS * count or count * rows * size**2 < _LEAST:
        return None
    positions = rewriter.reshape(rewriter.emit("iota", (), (count,), "s32", {"iota_dimension": 0}), batch)
    args = [Value((), "s32", None, i) for i in range(2)]
    larger = Op("maximum", args, [((), "s32")], None, (), op.location)
    body = Block(args, [larger, Op("return", larger.results, [], None, (), op.location)])
    attrs = op.attrs | {"scatter_dimension_numbers": numbers | {"update_window_dims": ()}}
    none = rewriter.full((rows,), "s32", -1)
    last = rewriter.emit("scatter", (none, indices, positions), (rows,), "s32", attrs, (body,))
    # The lookup of -1 is one of the first update.
    lookups = {
        "dimension_numbers": {
            "offset_dims": tuple(range(1, 1 + len(row))),
            "collapsed_slice_dims": (0,),
            "operand_batching_dims": (),
            "start_indices_batching_dims": (),
            "start_index_map": (0,),
            "index_vector_dim": 1,
        },
        "slice_sizes": (1, *row),
    }
    values = rewriter.emit(
        "gather", (rewriter.reshape(updates, (count, *row)), last), table.shape, table.dtype, lookups
    )
    is_set = rewriter.elementwise("compare", last, none, dtype="pred", comparison_direction="NE", compare_type="SIGNED")
    chosen = rewriter.broadcast(is_set, table.shape, (0,))
    return rewriter.elementwise("select", chosen, values, table, dtype=table.dtype)
