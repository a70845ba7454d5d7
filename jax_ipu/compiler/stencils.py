"""Stencils: elementwise ops that read an array at several places, each shifted against the others.

Neighbours of elements at the edges of a tile's part come from other tiles. The linear mapping gives tiles strips of
whole rows, whose edges are long; blocks of nearly equal extents have the shortest ones. Arithmetic over the grid says
which blocks are best; `lowering/stencils.py` compares them with the strips on the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.types import SIZE, Shape, num_elements

# Arrays of fewer elements do not fill the tiles.
_LEAST = 1 << 15
# The dimensions that are cut: the longest ones.
_CUT = 3


@dataclass(eq=False)
class Stencil:
    """What decides the blocks of all arrays of one shape.

    Attributes:
        op, operand: an op that reads such an array, and the number of that operand.
        offsets: the places that are read, against each other.
        work: the most operations for one element.
        blocks: the blocks of the program in which the ops are.
        parts: how many parts to cut each dimension into, once that has been chosen; None for strips.
    """

    op: Op
    offsets: set[Shape] = field(default_factory=set)
    work: int = 1
    blocks: dict[Block, None] = field(default_factory=dict)
    operand: int = 0
    parts: tuple[int, ...] | None = None

    @property
    def array(self) -> Value:
        return self.op.operands[self.operand]

    def source(self, op: Op, operand: int) -> Stencil:
        """The stencil of an operand that is most of such an array: its blocks are nearly the same."""
        return Stencil(op, set(self.offsets), self.work, dict(self.blocks), operand)

    def reach(self) -> tuple[int, ...]:
        """How many elements are read beyond a block in each dimension, on both sides together."""
        return tuple(max(along) - min(along) for along in zip(*self.offsets, strict=True))

    def choose(self, num_tiles: int, bytes_per_cycle: int) -> None:
        """Chooses the blocks that need the fewest cycles for arithmetic and neighbours, or strips."""
        self.parts, least = None, self._cost_of_strips(num_tiles, bytes_per_cycle)
        for parts in _grids(self.array.shape, num_tiles):
            cost = self._cost_of_blocks(parts, bytes_per_cycle)
            if cost < least:
                self.parts, least = parts, cost

    def _cost(self, elements: int, received: int, bytes_per_cycle: int) -> float:
        return elements * self.work / self._vector() + received * SIZE[self.array.dtype] / bytes_per_cycle

    def _vector(self) -> int:
        """Elements that a tile computes at once."""
        return max(1, 8 // SIZE[self.array.dtype])

    def _cost_of_strips(self, num_tiles: int, bytes_per_cycle: int) -> float:
        shape = self.array.shape
        length = -(-num_elements(shape) // num_tiles)
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        places = sorted(sum(o * s for o, s in zip(offset, strides, strict=True)) for offset in self.offsets)
        read = length + sum(min(length, b - a) for a, b in itertools.pairwise(places))
        return self._cost(length, read - length, bytes_per_cycle)

    def _cost_of_blocks(self, parts: Shape, bytes_per_cycle: int) -> float:
        extents = [-(-n // count) for n, count in zip(self.array.shape, parts, strict=True)]
        grain = self._vector()
        extents[-1] = min(self.array.shape[-1], -(-extents[-1] // grain) * grain)
        elements = math.prod(extents)
        # Nothing is received along a dimension that is not cut.
        reach = [r if count > 1 else 0 for r, count in zip(self.reach(), parts, strict=True)]
        lows = [min(along) for along in zip(*self.offsets, strict=True)]
        middle = [low + r // 2 for low, r in zip(lows, self.reach(), strict=True)]
        if all(sum(o != m for o, m in zip(offset, middle, strict=True)) <= 1 for offset in self.offsets):
            received = sum(elements // e * r for e, r in zip(extents, reach, strict=True))
        else:
            received = math.prod(e + r for e, r in zip(extents, reach, strict=True)) - elements
        return self._cost(elements, received, bytes_per_cycle)


def _grids(shape: Shape, num_tiles: int) -> Iterator[tuple[int, ...]]:
    """The grids of blocks to choose from: one takes all tiles along the last of the dimensions that are cut."""
    cut = sorted(sorted(range(len(shape)), key=lambda d: -shape[d])[:_CUT])

    def extend(parts: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        d = len(parts)
        if d == len(shape):
            yield parts
        elif d not in cut:
            yield from extend((*parts, 1), left)
        elif d == cut[-1]:
            yield from extend((*parts, min(left, shape[d])), left)
        else:
            for count in range(1, min(left, shape[d]) + 1):
                yield from extend((*parts, count), left // count)

    return extend((), num_tiles)


def find(block: Block) -> dict[Shape, Stencil]:
    """The stencils of the block and of the regions inside, by the shape of what they read."""
    found: dict[Shape, Stencil] = {}
    _find(block, found)
    return found


def _find(block: Block, found: dict[Shape, Stencil]) -> None:
    for op in block.ops:
        for region in op.regions:
            _find(region, found)
        if op.name == "ipu.map":
            for array, reads in _reads(op).items():
                _add(found, array, reads, block, op)


def _add(found: dict[Shape, Stencil], array: Value, reads: dict[Shape, Op], block: Block, op: Op) -> None:
    reader = next((read for read in reads.values() if read is not op), None)
    if reader is None or len(reads) < 2 or len(array.shape) < 2 or num_elements(array.shape) < _LEAST:
        return
    stencil = found.setdefault(array.shape, Stencil(reader))
    stencil.offsets.update(reads)
    stencil.work = max(stencil.work, len(op.attrs["program"].code))
    stencil.blocks[block] = None


def _reads(op: Op) -> dict[Value, dict[Shape, Op]]:
    """The arrays that a map reads, as a whole or a shifted part: the places, and the op that reads there."""
    reads: dict[Value, dict[Shape, Op]] = {}
    for operand in dict.fromkeys(op.operands):
        source = operand.op
        if source is not None and source.name == "slice" and all(s == 1 for s in source.attrs["strides"]):
            reads.setdefault(source.operands[0], {})[tuple(source.attrs["start_indices"])] = source
        else:
            reads.setdefault(operand, {})[(0,) * len(operand.shape)] = op
    return reads


def arrays(op: Op) -> Iterator[Value]:
    """The arrays that a map reads at several places."""
    for array, reads in _reads(op).items():
        if len(reads) > 1:
            yield array
