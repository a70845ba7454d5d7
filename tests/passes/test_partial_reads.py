"""The passes that read parts of computed tensors, and add up masked ones: on small programs, and by value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu.compiler import ir
from jax_ipu.compiler.passes import cse, dce, loops
from jax_ipu.compiler.passes.arithmetic import masked_sums, simplify
from jax_ipu.compiler.passes.expansions import inline
from jax_ipu.compiler.passes.indices import partial_reads
from jax_ipu.compiler.types import num_elements
from support.modes import MODES, array, check
from support.stages import imported

ROWS, COLUMNS = 40, 6


def names(block: ir.Block) -> list[str]:
    return [op.name for op in block.ops if op.name not in ("constant", "return")]


def after(function, *shapes, passes=(inline, simplify, cse, partial_reads, dce)) -> ir.Block:
    arguments = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    module = imported(str(jax.jit(function).lower(*arguments).compiler_ir()))
    for step in passes:
        step.run(module)
    return module.main.block


def largest(block: ir.Block) -> int:
    """Elements of the largest tensor that an op makes."""
    return max((num_elements(result.shape) for op in block.ops for result in op.results), default=0)


# Sums under a mask ------------------------------------------------------------------------------------------------

STATE, FLAG, INDEX = ((ROWS, COLUMNS), np.float32), ((), np.bool_), ((), np.int32)
SUMS = (inline, simplify, cse, masked_sums, dce)


def masked(p, a, b):
    return jnp.where(p, a, 0) + jnp.where(p, 0, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_a_sum_of_two_sides_of_a_mask_is_one_select(dtype):
    block = after(masked, ((ROWS,), np.bool_), ((ROWS,), dtype), ((ROWS,), dtype), passes=SUMS)
    # A sum of integers may be of any values, but no gradient is one.
    assert names(block).count("add") == (dtype == np.int32)
    assert names(block).count("select") == (2 if dtype == np.int32 else 1)


@pytest.mark.parametrize(
    "other",
    [
        lambda p, a, b: jnp.where(p, a, 0) + jnp.where(p, b, 0),  # both on one side
        lambda p, a, b: jnp.where(p, a, 1) + jnp.where(p, 0, b),
        lambda p, a, b: jnp.where(p, a, 0) + jnp.where(a > 0, 0, b),
        lambda p, a, b: jnp.where(p, a, 0) - jnp.where(p, 0, b),
    ],
)
def test_other_sums_stay(other):
    block = after(other, ((ROWS,), np.bool_), ((ROWS,), np.float32), ((ROWS,), np.float32), passes=SUMS)
    assert names(block).count("select") == 2


def rows_set_to_zero(p, i, a, b):
    return jnp.where(p, a, 0) + jnp.where(p, 0, b).at[i].set(0)


def test_rows_set_to_zero_are_set_behind_the_select():
    block = after(rows_set_to_zero, FLAG, INDEX, STATE, STATE, passes=SUMS)
    assert not any(op.name == "add" and op.result.dtype == "f32" for op in block.ops)
    update = next(op for op in block.ops if op.name in ("scatter", "dynamic_update_slice"))
    # Only the side of the update is changed.
    select = next(op for op in block.ops if op.name == "select" and num_elements(op.result.shape) > 1)
    assert update.result is select.operands[2]


@pytest.mark.parametrize("p", [True, False])
def test_values_of_masked_sums(p):
    a, b = array(ROWS, COLUMNS), array(ROWS, COLUMNS, seed=1)
    check(masked, np.bool_(p), a, b, mode=MODES[0])
    check(rows_set_to_zero, np.bool_(p), np.int32(3), a, b, mode=MODES[0])


# Reads of parts ---------------------------------------------------------------------------------------------------


def row(x, i):
    return lax.dynamic_index_in_dim(x, i, keepdims=False)


def two_rows(x, i):
    return lax.dynamic_slice(x, (i, 1), (2, COLUMNS - 1))


def several_rows(x, i):
    return x[jnp.stack([i, i + 2, -i])]


def known_rows(x, i):
    return x[3:6, 1:]


# What is computed of all rows.
COMPUTED = {
    "iota": lambda x, i: lax.broadcasted_iota(jnp.int32, x.shape, 0),
    "mask": lambda x, i: lax.broadcasted_iota(jnp.int32, x.shape, 0) < i,
    "broadcast": lambda x, i: jnp.broadcast_to(x[0], x.shape),
    "one_operand": lambda x, i: jnp.sin(x),
    "first_column": lambda x, i: jnp.broadcast_to(x[:, :1] > x[0, 0], x.shape),
}
# What one row of a tensor is set to or has added, at a place known at run time or before.
UPDATED = {
    "row_set": lambda x, i: x.at[i + 1].set(x[0]),
    "row_set_outside": lambda x, i: x.at[i + 2 * ROWS].set(1),
    "row_of_a_slice": lambda x, i: lax.dynamic_update_slice(x, x[:1] + 1, (i + 1, 0)),
    "row_beyond_the_end": lambda x, i: lax.dynamic_update_slice(x, x[:1] + 1, (i + ROWS, 0)),
    "element": lambda x, i: x.at[i, 2].set(7),
    "known_row": lambda x, i: x.at[4].set(x[0]),
    "row_added_to_zeros": lambda x, i: jnp.zeros_like(x).at[i].add(x[1]),
    "padded": lambda x, i: jnp.pad(x[:-2], ((1, 1), (0, 0)), constant_values=2),
}
VIEWS = {
    "column_without_its_dimension": lambda x, i: jnp.broadcast_to(jnp.exp(x[:, 2:3]).reshape(-1)[:, None], x.shape),
    "rows_reversed": lambda x, i: jnp.exp(x)[::-1],
}
READS = {f.__name__: f for f in (row, two_rows, several_rows, known_rows)}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("made", [*COMPUTED, *UPDATED, *VIEWS])
def test_values_of_reads(made, read, monkeypatch):
    monkeypatch.setattr(partial_reads, "LARGE", 1)
    function = {**COMPUTED, **UPDATED, **VIEWS}[made]
    for i in (0, 3, ROWS - 2):
        check(lambda x, i: READS[read](function(x, i), i), array(ROWS, COLUMNS), np.int32(i), mode=MODES[0])


@pytest.mark.parametrize("made", COMPUTED)
def test_only_rows_that_are_read_are_computed(made):
    block = after(lambda x, i: row(COMPUTED[made](x, i), i), STATE, INDEX)
    # Views of the argument cost nothing.
    made_of_all = [op for op in block.ops[:-1] if num_elements(op.result.shape) >= ROWS]
    assert all(op.name in ("slice", "reshape", "transpose") for op in made_of_all), names(block)


@pytest.mark.parametrize("read", [row, two_rows, known_rows])
@pytest.mark.parametrize("made", ["row_set", "row_set_outside", "row_of_a_slice", "known_row", "row_added_to_zeros"])
def test_a_read_of_an_updated_tensor_does_not_make_it(made, read, monkeypatch):
    monkeypatch.setattr(partial_reads, "LARGE", 1)
    block = after(lambda x, i: read(UPDATED[made](x, i), i), STATE, INDEX)
    assert largest(block) < ROWS * COLUMNS, names(block)


def test_a_tensor_that_is_read_whole_is_made_once():
    def also_whole(x, i):
        y = jnp.sin(x)
        return row(y, i), y

    assert names(after(also_whole, STATE, INDEX)).count("sine") == 1


# Tables that count, as loops read them.
COUNTED = {
    "integers": lambda: jnp.arange(ROWS),
    "floats": lambda: jnp.arange(ROWS, dtype=jnp.float32),
    "scaled": lambda: jnp.arange(ROWS) * 3 + 1,
    "narrow": lambda: jnp.arange(ROWS, dtype=jnp.int8),
    "of_rows": lambda: lax.broadcasted_iota(jnp.int32, (ROWS, COLUMNS), 0),
}


def totals(table, reverse):
    def function(x):
        def step(c, n):
            return c * 0.5 + n, c.sum() + n

        return lax.scan(step, x, table(), reverse=reverse)

    return function


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("table", COUNTED)
def test_values_of_tables_that_count(table, reverse):
    for mode in MODES:
        check(totals(COUNTED[table], reverse), array(COLUMNS), mode=mode)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("table", ["integers", "scaled", "of_rows"])
def test_a_loop_computes_what_it_would_read_of_a_table_that_counts(table, reverse):
    block = after(
        totals(COUNTED[table], reverse), ((COLUMNS,), np.float32), passes=(inline, simplify, loops, partial_reads, dce)
    )
    (loop,) = (op for op in block.ops if op.name == "ipu.repeat")
    assert "dynamic_slice" not in names(loop.regions[0])
    assert all(op.name != "iota" for op in block.ops)


def test_a_table_that_counts_is_also_read_outside():
    def function(x):
        table = jnp.arange(ROWS) * 2
        return lax.scan(lambda c, n: (c + n, c), x, table), table

    check(function, array(COLUMNS), mode=MODES[0])
