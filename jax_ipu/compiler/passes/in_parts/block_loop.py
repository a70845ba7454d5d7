"""Emits ops as a loop over blocks of one dimension: each trip slices the operands and writes a part of the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jax_ipu.compiler.expression import identity_of, splat_of
from jax_ipu.compiler.ir import Block, Op, Value, clone_block
from jax_ipu.compiler.passes.in_parts.block_axes import Axes, combiner
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import FLOAT, SIZE, Shape


def emit_loop(
    ops: Sequence[Op], outputs: Sequence[Op], axes: Axes, extent: int, rows: int, rewriter: Rewriter
) -> list[Value]:
    """The results of `outputs`, computed in blocks of `rows` of the `extent` elements of the dimension.

    Args:
        ops: the ops of a block, in order; their operands from elsewhere exist.
        outputs: those of them whose results are needed.
        axes: the dimension of each value that is cut.
        extent: its elements.
        rows: the elements of a block; a last, smaller block follows the loop.
        rewriter: gets the loop.
    """
    states = [_initial(op, result, axes, rewriter) for op in outputs for result in op.results]
    trips = extent // rows
    if trips > 1:
        start = rewriter.full((), "s32", 0)
        args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate((start, *states))]
        body = Rewriter()
        body.location = rewriter.location
        updated = _emit_block(ops, outputs, axes, args[0], rows, args[1:], body)
        following = body.elementwise("add", args[0], body.full((), "s32", rows))
        body.ops.append(Op("return", [following, *updated], [], None, (), rewriter.location))
        types = [(v.shape, v.dtype) for v in args]
        block = Block(args, body.ops)
        loop = Op("ipu.repeat", [start, *states], types, {"count": trips}, (block,), rewriter.location)
        rewriter.ops.append(loop)
        states = loop.results[1:]
    else:
        states = _emit_block(ops, outputs, axes, 0, rows, states, rewriter)
    if trips * rows < extent:
        states = _emit_block(ops, outputs, axes, trips * rows, extent - trips * rows, states, rewriter)
    made = [result for op in outputs for result in op.results]
    return [rewriter.convert(state, result.dtype) for state, result in zip(states, made, strict=True)]


def _accumulator(op: Op, dtype: str) -> str:
    """The type of partial results: f32 where sums and products of narrow floats would be rounded at each block."""
    narrow = dtype in FLOAT and SIZE[dtype] < SIZE["f32"]
    return "f32" if narrow and combiner(op) in ("add", "multiply") else dtype


def _initial(op: Op, result: Value, axes: Axes, rewriter: Rewriter) -> Value:
    if op not in axes.reduced:
        return rewriter.full(result.shape, result.dtype, 0)
    if op.name == "dot_general":
        return rewriter.full(result.shape, _accumulator(op, result.dtype), 0)
    first = rewriter.convert(op.operands[1], _accumulator(op, result.dtype))
    return rewriter.spread(first, result.shape)


def _emit_block(
    ops: Sequence[Op],
    outputs: Sequence[Op],
    axes: Axes,
    start: Value | int,
    rows: int,
    states: Sequence[Value],
    rewriter: Rewriter,
) -> list[Value]:
    """The states with the block from `start` on."""
    block = _Block(axes, start, rows, rewriter)
    for op in ops:
        rewriter.location = op.location
        block.emit(op)
    updated: list[Value] = []
    left = iter(states)
    for op in outputs:
        for result in op.results:
            state, made = next(left), block.made[result]
            if op in axes.reduced:
                updated.append(rewriter.elementwise(str(combiner(op)), state, made))
            else:
                updated.append(block.write(state, made, axes.of[result]))
    return updated


class _Block:
    """The ops on one block. `made`: a value of the whole program -> the block of it."""

    def __init__(self, axes: Axes, start: Value | int, rows: int, rewriter: Rewriter) -> None:
        self.axes, self.start, self.rows, self.rewriter = axes, start, rows, rewriter
        self.made: dict[Value, Value] = {}
        self.pieces: dict[tuple[Value, int], Value] = {}

    def emit(self, op: Op) -> None:
        if op.name == "iota":
            self.made[op.result] = self._iota(op)
            return
        operands = [self._operand(op, i) for i in range(len(op.operands))]
        if op in self.axes.reduced:
            name, dtype = str(combiner(op)), _accumulator(op, op.result.dtype)
            if op.name == "dot_general":
                self.made[op.result] = self.rewriter.emit(op.name, operands, op.result.shape, dtype, dict(op.attrs))
                return
            value, dims, neutral = operands[0], op.attrs["dimensions"], cast("Any", identity_of(name, dtype))
            if (value.dtype, dtype) != ("f16", "f32"):  # else no block of f32 values exists
                value = self.rewriter.convert(value, dtype)
            self.made[op.result] = self.rewriter.reduce(name, value, dims, neutral, dtype)
            return
        regions = [clone_block(region) for region in op.regions]
        types = [(self._shape(r.shape, self.axes.of[r]), r.dtype) for r in op.results]
        copy = Op(op.name, operands, types, dict(op.attrs), regions, op.location)
        self.rewriter.ops.append(copy)
        self.made.update(zip(op.results, copy.results, strict=True))

    def write(self, state: Value, update: Value, axis: int) -> Value:
        begins = self._begins(state, axis)
        if begins is None:
            return update
        if isinstance(self.start, int):
            first = tuple(self.start if d == axis else 0 for d in range(len(state.shape)))
            return self.rewriter.update_slice(state, update, first)
        return self.rewriter.emit("dynamic_update_slice", (state, update, *begins), state.shape, state.dtype)

    def _shape(self, shape: Shape, axis: int) -> Shape:
        return (*shape[:axis], self.rows, *shape[axis + 1 :])

    def _operand(self, op: Op, i: int) -> Value:
        operand = op.operands[i]
        if operand in self.made:
            return self.made[operand]
        axis = self.axes.of_operand(op, i)
        if axis is None:
            return operand
        shape = self._shape(operand.shape, axis)
        literal = splat_of(operand)
        if literal is not None:
            return self.rewriter.constant(literal.reshaped(shape))
        piece = self.pieces.get((operand, axis))
        if piece is None:
            piece = self.pieces[operand, axis] = self._piece(operand, axis, shape)
        return piece

    def _piece(self, value: Value, axis: int, shape: Shape) -> Value:
        begins = self._begins(value, axis)
        if begins is None:
            return value
        if isinstance(self.start, int):
            first = tuple(self.start if d == axis else 0 for d in range(len(shape)))
            return self.rewriter.slice(value, first, tuple(b + n for b, n in zip(first, shape, strict=True)))
        return self.rewriter.emit("dynamic_slice", (value, *begins), shape, value.dtype, {"slice_sizes": shape})

    def _begins(self, value: Value, axis: int) -> list[Value] | None:
        """The position of the block as scalars; None where it is all of the value."""
        if value.shape[axis] == self.rows:
            return None
        if isinstance(self.start, int):
            return []
        zero = self.rewriter.full((), "s32", 0)
        return [self.start if d == axis else zero for d in range(len(value.shape))]

    def _iota(self, op: Op) -> Value:
        axis = self.axes.of[op.result]
        shape = self._shape(op.result.shape, axis)
        if op.attrs["iota_dimension"] != axis:
            return self.rewriter.emit("iota", (), shape, op.result.dtype, dict(op.attrs))
        # Counted as integers: a sum of narrow floats would be rounded otherwise than the whole row of numbers.
        first = self.start if isinstance(self.start, Value) else self.rewriter.full((), "s32", self.start)
        count = self.rewriter.emit("iota", (), (self.rows,), "s32", {"iota_dimension": 0})
        count = self.rewriter.elementwise("add", count, self.rewriter.spread(first, count.shape))
        return self.rewriter.broadcast(self.rewriter.convert(count, op.result.dtype), shape, (axis,))
