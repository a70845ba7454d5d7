"""Lookups and scatters of many indices are computed in parts of the indices, where memory comes first.

The parts of one operation each have code of their own, which does not fit where there are many; the trips of a loop
share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops, size_in_bytes
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

    def part(begin: Value | int, rows: int, state: Value, rewriter: Rewriter) -> Value:
        piece = _slice(indices, axis, begin, rows, rewriter)
        shape = _with(op.result.shape, place, rows)
        found = rewriter.emit("gather", (table, piece), shape, op.result.dtype, dict(op.attrs))
        return _write(state, found, place, begin, rewriter)

    return _loop(rewriter.full(op.result.shape, op.result.dtype, 0), indices.shape[axis], rows, part, rewriter)


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

    def part(begin: Value | int, rows: int, state: Value, rewriter: Rewriter) -> Value:
        operands = [
            state,
            _slice(indices, axis, begin, rows, rewriter),
            _slice(updates, place, begin, rows, rewriter),
        ]
        regions = []
        for region in op.regions:
            args = [Value(arg.shape, arg.dtype, None, arg.index) for arg in region.args]
            regions.append(Block(args, clone_ops(region, dict(zip(region.args, args, strict=True)))))
        return rewriter.emit("scatter", operands, state.shape, state.dtype, dict(op.attrs), regions)

    return _loop(state, indices.shape[axis], rows, part, rewriter)


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


def _loop(state: Value, extent: int, rows: int, part: Callable[..., Value], rewriter: Rewriter) -> Value:
    """`state` after parts of `rows` of the `extent` indices, and a last one with the rest."""
    trips = extent // rows
    start = (rewriter.full((), "s32", 0), state)
    args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate(start)]
    body = Rewriter()
    body.location = rewriter.location
    updated = part(args[0], rows, args[1], body)
    following = body.elementwise("add", args[0], body.full((), "s32", rows))
    body.ops.append(Op("return", [following, updated], [], None, (), rewriter.location))
    types = [(v.shape, v.dtype) for v in args]
    loop = Op("ipu.repeat", list(start), types, {"count": trips}, (Block(args, body.ops),), rewriter.location)
    rewriter.ops.append(loop)
    rest = extent - trips * rows
    return part(trips * rows, rest, loop.results[1], rewriter) if rest else loop.results[1]


def _with(shape: Shape, axis: int, rows: int) -> Shape:
    return (*shape[:axis], rows, *shape[axis + 1 :])


def _slice(value: Value, axis: int, begin: Value | int, rows: int, rewriter: Rewriter) -> Value:
    shape = _with(value.shape, axis, rows)
    if isinstance(begin, int):
        first = _with((0,) * len(shape), axis, begin)
        return rewriter.slice(value, first, tuple(b + n for b, n in zip(first, shape, strict=True)))
    zero = rewriter.full((), "s32", 0)
    begins = [begin if d == axis else zero for d in range(len(shape))]
    return rewriter.emit("dynamic_slice", (value, *begins), shape, value.dtype, {"slice_sizes": shape})


def _write(state: Value, rows: Value, axis: int, begin: Value | int, rewriter: Rewriter) -> Value:
    if isinstance(begin, int):
        return rewriter.update_slice(state, rows, _with((0,) * len(state.shape), axis, begin))
    zero = rewriter.full((), "s32", 0)
    begins = [begin if d == axis else zero for d in range(len(state.shape))]
    return rewriter.emit("dynamic_update_slice", (state, rows, *begins), state.shape, state.dtype)
