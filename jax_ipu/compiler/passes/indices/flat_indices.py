"""Gathers and scatters of single elements at several indices (`x[i, j]`) work on the flat array, at a computed index.

Every tile that holds a part of the array receives all indices, so half as many are exchanged for two dimensions, and
the columns of indices are not stacked. An index is clamped in each dimension before, as a gather does, or the window
is left out where it is outside, as a scatter does.

Where there are many indices they are also wrapped before, once and not on every tile; `wrap_indices.py` has moved that
into the gather or scatter, which saves an op where they are few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jax_ipu.compiler.expression import is_elementwise
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import INTEGER, SIGNED, SIZE, Shape, num_elements

# With fewer windows the arithmetic on indices takes longer than what it saves.
_FEWEST_WINDOWS = 1024
# Where the tiles of a table see all indices, each of them would wrap them all: in tables of at least so many elements,
# but not where these are few for each index, so that the table is copied to all tiles.
_LARGE_TABLE, _INDICES_OF_ELEMENT = 2**16, 8
# The tiles of any table see so many updates.
_MANY_UPDATES = 8192
# A row that one tile updates takes thirty times as long as one that all tiles share. So rows are made one list if each
# has so many updates: fewer are enough where there are only a few rows, which leave most tiles idle.
_FEW_ROWS, _FEWEST_OF_ROW, _FEWEST_OF_ROWS = 16, 1024, 8192
_LARGEST = 2**31 - 1  # the flat index is s32
_WHOLE_BYTES = INTEGER - {"s2", "u2", "s4", "u4"}
# What takes an array as it lies; other ops demand a mapping of its dimensions.
_USERS = frozenset(("gather", "scatter", "reduce", "reshape", "return"))


def run(module: Module) -> None:
    """Rewrites the gathers and scatters of main."""
    rewrite(module.main.block, RULES)


class _Flat(NamedTuple):
    """The indexed dimensions of an operand, which become the one dimension `first`."""

    shape: Shape  # of the operand
    first: int
    rank: int  # the number of these dimensions

    @property
    def extents(self) -> Shape:
        return self.shape[self.first : self.first + self.rank]

    @property
    def flat_shape(self) -> Shape:
        return (*self.shape[: self.first], num_elements(self.extents), *self.shape[self.first + self.rank :])

    def dims(self, dims: Shape) -> Shape:
        """The dimensions of the flat operand that hold `dims`."""
        return tuple(dict.fromkeys(max(min(d, self.first), d - self.rank + 1) for d in dims))

    def place(self, components: dict[int, Value], rewriter: Rewriter) -> Value:
        """The flat index of the indices by dimension."""
        first, *others = range(self.first, self.first + self.rank)
        flat = components[first]
        for d in others:
            extent = rewriter.full(flat.shape, "s32", self.shape[d])
            flat = rewriter.elementwise("add", rewriter.elementwise("multiply", flat, extent), components[d])
        return flat


def _gather(op: Op, rewriter: Rewriter) -> Value | None:
    numbers: dict[str, Any] = op.attrs["dimension_numbers"]
    elements, windows = (num_elements(operand.shape) for operand in op.operands)
    if elements >= max(_LARGE_TABLE, windows // _INDICES_OF_ELEMENT):
        _wrap_before(op, 1, numbers["index_vector_dim"], rewriter)
    operand, indices = op.operands
    collapsed, axis, indexed = (numbers[k] for k in ("collapsed_slice_dims", "index_vector_dim", "start_index_map"))
    flat = _flat(operand, indexed, collapsed, numbers["operand_batching_dims"])
    columns = _columns(op, indices, axis, rewriter)
    if flat is None or columns is None:
        return None
    inside = {d: _clamped(column, operand.shape[d], rewriter) for d, column in zip(indexed, columns, strict=True)}
    index = flat.place(inside, rewriter)
    sizes = [n for d, n in enumerate(op.attrs["slice_sizes"]) if d == flat.first or d not in indexed]
    attrs = {k: v for k, v in op.attrs.items() if k != "index_wraps"} | {
        "dimension_numbers": numbers
        | {
            "collapsed_slice_dims": flat.dims(collapsed),
            "start_index_map": (flat.first,),
            "index_vector_dim": len(index.shape),
        },
        "slice_sizes": tuple(sizes),
    }
    table = rewriter.reshape(operand, flat.flat_shape)
    return rewriter.emit("gather", (table, index), op.result.shape, op.result.dtype, attrs)


def _scatter(op: Op, rewriter: Rewriter) -> list[Value] | None:
    count = len(op.results)
    numbers: dict[str, Any] = op.attrs["scatter_dimension_numbers"]
    elements, windows = num_elements(op.operands[0].shape), num_elements(op.operands[count].shape)
    if elements >= _LARGE_TABLE or windows >= _MANY_UPDATES:
        _wrap_before(op, count, numbers["index_vector_dim"], rewriter)
    if (rows := _scatter_of_rows(op, rewriter)) is not None:
        return rows
    inputs, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    inserted, indexed = numbers["inserted_window_dims"], numbers["scattered_dims_to_operand_dims"]
    flats = [_flat(value, indexed, inserted, numbers["input_batching_dims"]) for value in inputs]
    flat = flats[0]
    columns = _columns(op, indices, numbers["index_vector_dim"], rewriter) if None not in flats else None
    if flat is None or columns is None:
        return _scatter_of_one_list(op, rewriter)
    is_inside = None
    for d, column in zip(indexed, columns, strict=True):
        for test in _tests(column, flat.shape[d], rewriter):
            is_inside = test if is_inside is None else rewriter.elementwise("and", is_inside, test)
    components = (rewriter.convert(column, "s32") for column in columns)
    index = flat.place(dict(zip(indexed, components, strict=True)), rewriter)
    if is_inside is not None:
        outside = rewriter.full(index.shape, "s32", -1)
        index = rewriter.elementwise("select", is_inside, index, outside, dtype="s32")
    attrs = {k: v for k, v in op.attrs.items() if k != "index_wraps"} | {
        "scatter_dimension_numbers": numbers
        | {
            "inserted_window_dims": flat.dims(inserted),
            "scattered_dims_to_operand_dims": (flat.first,),
            "index_vector_dim": len(index.shape),
        },
    }
    operands = [*(rewriter.reshape(value, flat.flat_shape) for value in inputs), index, *updates]
    types = [(flat.flat_shape, value.dtype) for value in inputs]
    scatter = Op("scatter", operands, types, attrs, [op.regions.pop()], op.location)
    rewriter.ops.append(scatter)
    return [rewriter.reshape(result, flat.shape) for result in scatter.results]


def _scatter_of_one_list(op: Op, rewriter: Rewriter) -> list[Value] | None:
    """Many updates at an array of indices are those at a list of them, which the tiles divide evenly."""
    count = len(op.results)
    numbers: dict[str, Any] = op.attrs["scatter_dimension_numbers"]
    indices, updates = op.operands[count], op.operands[count + 1 :]
    axis, dims = numbers["index_vector_dim"], tuple(numbers["update_window_dims"])
    windows, component = indices.shape[:axis], indices.shape[axis:]
    first = len(windows)
    if first < 2 or len(component) > 1 or numbers["input_batching_dims"]:
        return None
    if num_elements(windows) < _FEWEST_WINDOWS or dims != tuple(range(first, first + len(dims))):
        return None
    lists = [rewriter.reshape(value, (num_elements(windows), *value.shape[first:])) for value in (indices, *updates)]
    attrs = op.attrs | {
        "scatter_dimension_numbers": numbers
        | {"update_window_dims": tuple(range(1, 1 + len(dims))), "index_vector_dim": 1}
    }
    types = [(r.shape, r.dtype) for r in op.results]
    scatter = Op("scatter", [*op.operands[:count], *lists], types, attrs, [op.regions.pop()], op.location)
    rewriter.ops.append(scatter)
    return list(scatter.results)


def _scatter_of_rows(op: Op, rewriter: Rewriter) -> list[Value] | None:
    """Few rows or long ones, of which each has updates of its elements (`jax.vmap` of `x.at[i].add(u)`).

    A tile alone would update a row.
    """
    count = len(op.results)
    numbers: dict[str, Any] = op.attrs["scatter_dimension_numbers"]
    shape, indices = op.result.shape if count == 1 else (), op.operands[count]
    batch = len(shape) - 1
    along = {
        "update_window_dims": (),
        "inserted_window_dims": (batch,),
        "input_batching_dims": tuple(range(batch)),
        "scatter_indices_batching_dims": tuple(range(batch)),
        "scattered_dims_to_operand_dims": (batch,),
        "index_vector_dim": len(indices.shape) - 1,
    }
    if batch < 1 or any(numbers[key] != value for key, value in along.items()) or indices.dtype not in _WHOLE_BYTES:
        return None
    windows = indices.shape[:-1]
    rows, each = num_elements(shape[:batch]), num_elements(windows[batch:])
    if rows < 2 or each < (_FEWEST_OF_ROW if rows <= _FEW_ROWS else _FEWEST_OF_ROWS) or num_elements(shape) > _LARGEST:
        return None
    wraps = op.attrs.get("index_wraps") or (0,)
    column = _wrapped(_without_axis(indices, windows, rewriter), wraps[0], rewriter)
    tests = _tests(column, shape[batch], rewriter)
    flat = rewriter.convert(column, "s32")
    stride = shape[batch]
    for d in reversed(range(batch)):
        row = rewriter.emit("iota", (), windows, "s32", {"iota_dimension": d})
        base = rewriter.elementwise("multiply", row, rewriter.full(windows, "s32", stride))
        flat = rewriter.elementwise("add", flat, base)
        stride *= shape[d]
    for test in tests:
        flat = rewriter.elementwise("select", test, flat, rewriter.full(windows, "s32", -1), dtype="s32")
    alone = {
        "inserted_window_dims": (0,),
        "input_batching_dims": (),
        "scatter_indices_batching_dims": (),
        "scattered_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    attrs = {k: v for k, v in op.attrs.items() if k != "index_wraps"}
    attrs["scatter_dimension_numbers"] = numbers | alone
    table = rewriter.reshape(op.operands[0], (num_elements(shape),))
    operands = [table, *(rewriter.reshape(value, (num_elements(windows),)) for value in (flat, op.operands[2]))]
    scatter = Op("scatter", operands, [(table.shape, table.dtype)], attrs, [op.regions.pop()], op.location)
    rewriter.ops.append(scatter)
    return [rewriter.reshape(scatter.result, shape)]


def _flat(operand: Value, indexed: Shape, single: Shape, batching: Shape) -> _Flat | None:
    """The flat operand, where neighbouring dimensions are indexed and are in `single`: windows have one element."""
    flat = _Flat(operand.shape, min(indexed, default=0), len(indexed))
    if flat.rank < 2 or batching or set(indexed) != set(range(flat.first, flat.first + flat.rank)):
        return None
    if not set(indexed) <= set(single) or not 0 < num_elements(flat.extents) <= _LARGEST:
        return None
    if not all(user.name in _USERS or is_elementwise(user) for user in operand.users):
        return None
    return flat


def _columns(op: Op, indices: Value, axis: int, rewriter: Rewriter) -> list[Value] | None:
    """The indices of each component, wrapped, as tensors over the windows; None where they are not stacked."""
    stack = indices.op
    if stack is None or stack.name != "concatenate" or stack.attrs["dimension"] != axis:
        return None
    shape = tuple(n for d, n in enumerate(indices.shape) if d != axis)
    if num_elements(shape) < _FEWEST_WINDOWS or indices.dtype not in _WHOLE_BYTES:
        return None
    if any(column.shape[axis] != 1 for column in stack.operands):
        return None
    wraps = op.attrs.get("index_wraps") or (0,) * len(stack.operands)
    parts = zip(stack.operands, wraps, strict=True)
    return [_wrapped(_without_axis(column, shape, rewriter), wrap, rewriter) for column, wrap in parts]


def _wrap_before(op: Op, place: int, axis: int, rewriter: Rewriter) -> None:
    """Wraps the indices of one component, operand `place` of `op`, before it."""
    indices, wraps = op.operands[place], op.attrs.get("index_wraps", ())
    if len(wraps) != 1 or num_elements(indices.shape) < _FEWEST_WINDOWS:
        return
    shape = tuple(n for d, n in enumerate(indices.shape) if d != axis)
    wrapped = _wrapped(_without_axis(indices, shape, rewriter), op.attrs.pop("index_wraps")[0], rewriter)
    op.set_operands([*op.operands[:place], rewriter.reshape(wrapped, indices.shape), *op.operands[place + 1 :]])


def _without_axis(column: Value, shape: Shape, rewriter: Rewriter) -> Value:
    """A column of indices as it was before it got its dimension of one element."""
    op = column.op
    if op is not None and op.name == "broadcast_in_dim" and op.operands[0].shape == shape:
        dims = op.attrs["broadcast_dimensions"]
        if tuple(column.shape[d] for d in dims) == shape and dims == tuple(sorted(dims)):
            return op.operands[0]
    return rewriter.reshape(column, shape)


def _wrapped(index: Value, wrap: int, rewriter: Rewriter) -> Value:
    """`index` with `wrap` added to what is negative."""
    if wrap == 0:
        return index
    zero, extent = (rewriter.full(index.shape, index.dtype, n) for n in (0, wrap))
    negative = rewriter.elementwise("compare", index, zero, dtype="pred", comparison_direction="LT")
    return rewriter.elementwise(
        "select", negative, rewriter.elementwise("add", index, extent), index, dtype=index.dtype
    )


def _bounds(index: Value, extent: int, rewriter: Rewriter) -> tuple[Value | None, Value | None]:
    """The first and the last index of a dimension, each None where the type has no number beyond."""
    largest = 2 ** (8 * SIZE[index.dtype] - (index.dtype in SIGNED)) - 1
    first = rewriter.full(index.shape, index.dtype, 0) if index.dtype in SIGNED else None
    return first, rewriter.full(index.shape, index.dtype, extent - 1) if extent - 1 < largest else None


def _clamped(index: Value, extent: int, rewriter: Rewriter) -> Value:
    """`index` as s32, inside a dimension of `extent`."""
    first, last = _bounds(index, extent, rewriter)
    index = index if first is None else rewriter.elementwise("maximum", index, first)
    index = index if last is None else rewriter.elementwise("minimum", index, last)
    return rewriter.convert(index, "s32")


def _tests(index: Value, extent: int, rewriter: Rewriter) -> list[Value]:
    """Whether `index` is inside a dimension of `extent`, as predicates that must all hold."""
    bounds = zip(_bounds(index, extent, rewriter), ("GE", "LE"), strict=True)
    return [
        rewriter.elementwise("compare", index, bound, dtype="pred", comparison_direction=direction)
        for bound, direction in bounds
        if bound is not None
    ]


RULES: dict[str, Rule] = {"gather": _gather, "scatter": _scatter}
