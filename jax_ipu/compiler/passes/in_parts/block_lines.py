"""Long dimensions in two, so that each tile has a piece of each block.

A block of consecutive elements of a line lies on a few tiles, and a loop over blocks would move each of them to all
tiles. A line of `n` elements is also a matrix of `rows` lines of `n / rows`, and blocks of its columns stay on their
tiles. The same holds for a dimension of an array whose other dimensions have few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jax_ipu.compiler.expression import is_elementwise
from jax_ipu.compiler.ir import Op, Value, clone_block
from jax_ipu.compiler.passes.in_parts.block_axes import Axes
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import Shape, num_elements

# Limits of the rows, times the elements of the other dimensions: all tiles of any chip have about equally many, and
# rows are long. Beside other dimensions of more than _FEW elements nothing is cut.
_LEAST_ROWS, _MOST_ROWS, _FEW = 1 << 13, 1 << 15, 1 << 10


@dataclass
class Lines:
    """Copies of a group's ops, outside of any block, whose dimension that is cut is in two: rows and columns.

    Attributes:
        ops: the copies, in order.
        sinks: the copies of the group's sinks, in order of `ops`.
        anchor: a result, and its dimension of columns.
        rows: the extent of the dimension before.
    """

    ops: list[Op]
    sinks: list[Op]
    anchor: tuple[Value, int]
    rows: int

    def drop(self) -> None:
        """Removes the ops' uses of other values."""
        for op in reversed(self.ops):
            op.drop()


def fold(ops: Sequence[Op], sinks: Sequence[Op], axes: Axes, extent: int, rewriter: Rewriter) -> Lines | None:
    """The ops with their dimension that is cut in two; None where that is not needed, or cannot be.

    Args:
        ops: in order. The values that others make get the two dimensions by ops that the rewriter gets.
        sinks: those of them whose results are needed.
        axes: the dimension of each value that is cut.
        extent: its elements.
        rewriter: gets the reshapes of operands.
    """
    others = max(num_elements(v.shape) // extent for v in axes.of)
    if others > _FEW or not all(_allows(op, axes) for op in ops):
        return None
    rows = next((n for n in range(_MOST_ROWS // others, _LEAST_ROWS // others - 1, -1) if extent % n == 0), None)
    if rows is None:
        return None

    def folded(shape: Shape, axis: int | None) -> Shape:
        return shape if axis is None else (*shape[:axis], rows, extent // rows, *shape[axis + 1 :])

    made: dict[Value, Value] = {}
    views: dict[tuple[Value, int], Value] = {}
    copies, copied_sinks = [], []
    for op in ops:
        operands = []
        for i, operand in enumerate(op.operands):
            axis = axes.of_operand(op, i)
            if axis is not None and operand not in made and (operand, axis) not in views:
                views[operand, axis] = rewriter.reshape(operand, folded(operand.shape, axis))
            operands.append(operand if axis is None else made.get(operand) or views[operand, axis])
        types = [(folded(r.shape, axes.of.get(r)), r.dtype) for r in op.results]
        regions = [clone_block(region) for region in op.regions]
        copy = Op(op.name, operands, types, _attributes(op, axes), regions, op.location)
        made.update(zip(op.results, copy.results, strict=True))
        copies.append(copy)
        if op in sinks:
            copied_sinks.append(copy)
    anchor = next(v for v in axes.of if v in made)
    return Lines(copies, copied_sinks, (made[anchor], axes.of[anchor] + 1), rows)


def _allows(op: Op, axes: Axes) -> bool:
    """Whether the op is one of those whose dimensions `_attributes` knows."""
    if op.name == "iota":
        return bool(op.attrs["iota_dimension"] != axes.of[op.result])
    if op.name == "broadcast_in_dim":  # one element of the operand may become the whole dimension
        return axes.of[op.result] not in op.attrs["broadcast_dimensions"] or axes.of_operand(op, 0) is not None
    return op.name == "reduce" or is_elementwise(op)


def _attributes(op: Op, axes: Axes) -> dict[str, object]:
    attrs = dict(op.attrs)
    if op.name == "iota":
        attrs["iota_dimension"] = _places((attrs["iota_dimension"],), axes.of[op.result])[0]
    elif op.name == "reduce":
        attrs["dimensions"] = _places(attrs["dimensions"], axes.of_operand(op, 0))
    elif op.name == "broadcast_in_dim":
        attrs["broadcast_dimensions"] = _places(attrs["broadcast_dimensions"], axes.of[op.result])
    return attrs


def _places(dims: Sequence[int], axis: int | None) -> Shape:
    """Dimensions of a value, where dimension `axis` has become two."""
    if axis is None:
        return tuple(dims)
    return tuple(p for d in dims for p in ((axis, axis + 1) if d == axis else (d + (d > axis),)))
