"""Lookups and scatters of many indices are computed in parts of the indices, where memory comes first.

The parts of one operation each have code of their own, which does not fit where there are many; the trips of a loop
share it. A trip reads and writes one row of views [.., trips, rows, ..], whose rows each lie on all tiles: what a tile
holds of a part does not depend on the trip. What is left after parts of equal size is done after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_block, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import Shape

# Lookups whose indices and results, and scatters whose indices and updates, take this part of the memory are cut into
# parts that take the other one.
_LARGE, _PART = 1 / 8, 1 / 48


def run(module: Module) -> None:
    """Applies to all ops of main."""
    if module.memory:
        rules: dict[str, Rule] = {
            "gather": lambda op, rewriter: _gather(op, rewriter, module.memory),
            "scatter": lambda op, rewriter: _scatter(op, rewriter, module.memory),
        }
        rewrite(module.main.block, rules)


def _gather(op: Op, rewriter: Rewriter, memory: int) -> Value | None:
    table, indices = op.operands
    numbers = op.attrs["dimension_numbers"]
    batch = [d for d in range(len(op.result.shape)) if d not in numbers["offset_dims"]]
    cut = _choose(indices, op.result, batch, numbers, "start_indices_batching_dims", memory)
    if cut is None:
        return None
    axis, place, rows = cut
    trips, rest = divmod(indices.shape[axis], rows)
    pieces = _split(indices, axis, trips, rows, rewriter)

    def lookup(indices: Value, rows: int, rewriter: Rewriter) -> Value:
        shape = _with(op.result.shape, place, rows)
        return rewriter.emit("gather", (table, indices), shape, op.result.dtype, dict(op.attrs))

    def trip(number: Value, state: Value, rewriter: Rewriter) -> Value:
        found = lookup(_row(pieces, axis, number, rewriter), rows, rewriter)
        zero = rewriter.full((), "s32", 0)
        begins = [number if d == place else zero for d in range(len(state.shape))]
        row = rewriter.reshape(found, _with(state.shape, place, 1))
        return rewriter.emit("dynamic_update_slice", (state, row, *begins), state.shape, state.dtype)

    shape = (*op.result.shape[:place], trips, rows, *op.result.shape[place + 1 :])
    start = rewriter.full(shape, op.result.dtype, 0)
    done = rewriter.reshape(_loop(start, trips, trip, rewriter), _with(op.result.shape, place, trips * rows))
    if not rest:
        return done
    last = lookup(_slice(indices, axis, trips * rows, rest, rewriter), rest, rewriter)
    return rewriter.emit("concatenate", (done, last), op.result.shape, op.result.dtype, {"dimension": place})


def _scatter(op: Op, rewriter: Rewriter, memory: int) -> Value | None:
    if len(op.results) != 1:
        return None
    state, indices, updates = op.operands
    numbers = op.attrs["scatter_dimension_numbers"]
    batch = [d for d in range(len(updates.shape)) if d not in numbers["update_window_dims"]]
    cut = _choose(indices, updates, batch, numbers, "scatter_indices_batching_dims", memory)
    if cut is None:
        return None
    axis, place, rows = cut
    trips, rest = divmod(indices.shape[axis], rows)
    pieces = _split(indices, axis, trips, rows, rewriter)
    changes = _split(updates, place, trips, rows, rewriter)

    def scatter(state: Value, indices: Value, updates: Value, rewriter: Rewriter) -> Value:
        regions = [clone_block(region) for region in op.regions]
        operands = (state, indices, updates)
        return rewriter.emit("scatter", operands, state.shape, state.dtype, dict(op.attrs), regions)

    def trip(number: Value, state: Value, rewriter: Rewriter) -> Value:
        at, by = _row(pieces, axis, number, rewriter), _row(changes, place, number, rewriter)
        return scatter(state, at, by, rewriter)

    done = _loop(state, trips, trip, rewriter)
    if not rest:
        return done
    at, by = (_slice(v, d, trips * rows, rest, rewriter) for v, d in ((indices, axis), (updates, place)))
    return scatter(done, at, by, rewriter)


def _choose(
    indices: Value, rows: Value, batch: Sequence[int], numbers: dict[str, Any], batching: str, memory: int
) -> tuple[int, int, int] | None:
    """The longest dimension of the indices, that dimension of the rows, and the extent of a part; None: no parts."""
    total = size_in_bytes(indices) + size_in_bytes(rows)
    dims = [d for d in range(len(indices.shape)) if d != numbers["index_vector_dim"]]
    free = [(indices.shape[d], d) for d in dims if d not in numbers[batching]]
    if total < memory * _LARGE or not free:
        return None
    extent, axis = max(free)
    part = int(extent * memory * _PART) // total
    # Without a rest if that takes at most twice as many trips.
    part = next((n for n in range(part, part // 2, -1) if extent % n == 0), part)
    return (axis, batch[dims.index(axis)], part) if 1 <= part < extent else None


def _loop(state: Value, trips: int, trip: Callable[..., Value], rewriter: Rewriter) -> Value:
    """`state` after `trips` trips; a trip gets its number, the state, and its rewriter."""
    start = (rewriter.full((), "s32", 0), state)
    args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate(start)]
    body = Rewriter()
    body.location = rewriter.location
    updated = trip(args[0], args[1], body)
    following = body.elementwise("add", args[0], body.full((), "s32", 1))
    body.ops.append(Op("return", [following, updated], [], None, (), rewriter.location))
    types = [(v.shape, v.dtype) for v in args]
    loop = Op("ipu.repeat", list(start), types, {"count": trips}, (Block(args, body.ops),), rewriter.location)
    rewriter.ops.append(loop)
    return loop.results[1]


def _with(shape: Shape, axis: int, rows: int) -> Shape:
    return (*shape[:axis], rows, *shape[axis + 1 :])


def _slice(value: Value, axis: int, begin: int, rows: int, rewriter: Rewriter) -> Value:
    shape = _with(value.shape, axis, rows)
    first = _with((0,) * len(shape), axis, begin)
    return rewriter.slice(value, first, tuple(b + n for b, n in zip(first, shape, strict=True)))


def _split(value: Value, axis: int, trips: int, rows: int, rewriter: Rewriter) -> Value:
    """A view of the first trips * rows elements of dimension `axis`, which becomes two: trips and rows."""
    first = _slice(value, axis, 0, trips * rows, rewriter)
    return rewriter.reshape(first, (*value.shape[:axis], trips, rows, *value.shape[axis + 1 :]))


def _row(value: Value, axis: int, number: Value, rewriter: Rewriter) -> Value:
    """Element `number` of dimension `axis`, which the result does not have."""
    shape, zero = _with(value.shape, axis, 1), rewriter.full((), "s32", 0)
    begins = [number if d == axis else zero for d in range(len(shape))]
    row = rewriter.emit("dynamic_slice", (value, *begins), shape, value.dtype, {"slice_sizes": shape})
    return rewriter.reshape(row, (*shape[:axis], *shape[axis + 1 :]))
