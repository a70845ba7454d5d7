"""Many rows that are set in a large table: first the last update of each row is found, then its rows are looked up.

`x.at[i].set(u)` keeps the last of several updates of one row. The tiles of a table see all updates for that, whose cost
grows with their number times that of the rows. The largest number of an update for each row, and lookups, are found
while blocks of the table pass by the updates, at a cost that grows with the sum.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import replaces_state
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import SIZE, num_elements

# Where this takes about half of the cycles, by the estimates of both forms: for at least so many updates, so many
# updates times rows times the third power of the bytes of a row, and at most so many rows or bytes of rows for each.
_FEWEST, _LEAST, _MOST_ROWS, _MOST_BYTES = 4096, 1.5e14, 8, 1024
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
    if not of_rows or not _FEWEST <= count <= _LARGEST or count * rows * size**3 < _LEAST:
        return None
    if rows > count * max(_MOST_ROWS, _MOST_BYTES // size):
        return None
    positions = rewriter.reshape(rewriter.emit("iota", (), (count,), "s32", {"iota_dimension": 0}), batch)
    attrs = op.attrs | {"scatter_dimension_numbers": numbers | {"update_window_dims": ()}}
    none = rewriter.full((rows,), "s32", -1)
    last = rewriter.emit(
        "scatter", (none, indices, positions), (rows,), "s32", attrs, (rewriter.combiner("maximum", "s32"),)
    )
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
