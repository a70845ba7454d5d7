"""Lets what is concatenated be computed in its place in the result, so that it is not copied there.

Sets `inside` of an op: result index -> its `Place`. Lowering makes the variable of the concatenation for the first of
these ops. A value qualifies if only the concatenation reads it, perhaps through reshapes, and if the op that makes it
has not found a place for it before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jax_ipu.compiler.ir import Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.types import num_elements

# The ops that can compute in a given place.
_MAKERS = frozenset(("ipu.map", "concatenate"))
# Results of so many bytes lie in memory from their first part on. Of a larger one, at least half must be computed in
# its place, so that little memory is unused until then, and on as many tiles as alone.
SMALL = 1 << 18


@dataclass(frozen=True)
class Place:
    """The operand `position` of the op `concatenation`, behind `views`, the first of which reads the value."""

    concatenation: Op
    position: int
    views: tuple[Op, ...]


def run(module: Module) -> None:
    """Gives places in every block of main."""
    _run_block(module.main.block, module.num_tiles)


def _run_block(block: Block, num_tiles: int) -> None:
    for op in block.ops:
        for region in op.regions:
            _run_block(region, num_tiles)
    index = {op: i for i, op in enumerate(block.ops)}
    # How many ops up to each one have regions: memory that is written in parts is written between jumps.
    jumps, count = [], 0
    for op in block.ops:
        count += bool(op.regions)
        jumps.append(count)
    for op in block.ops:
        if op.name != "concatenate" or num_elements(op.result.shape) == 0:
            continue
        parts = [part for position in range(len(op.operands)) if (part := _maker(op, position)) is not None]
        found = [
            (value, place)
            for value, place in parts
            if (maker := value.op) in index
            and jumps[index[maker]] == jumps[index[op]]
            and _is_spread(value, op, num_tiles)
        ]
        whole, inside = size_in_bytes(op.result), sum(size_in_bytes(value) for value, _ in found)
        if whole <= SMALL or 2 * inside >= whole:
            for value, place in found:
                assert value.op is not None
                value.op.attrs.setdefault("inside", {})[value.index] = place


def _maker(op: Op, position: int) -> tuple[Value, Place] | None:
    """The value that an op makes for this operand alone, and its place; None if there is none."""
    value = op.operands[position]
    views: list[Op] = []
    while value.users and len(value.users) == 1:
        maker = value.op
        if maker is None:
            return None
        if maker.name in _MAKERS:
            taken = value.index in maker.attrs.get("write_over", {})
            return None if taken or num_elements(value.shape) == 0 else (value, Place(op, position, tuple(views)))
        if not keeps_order(maker):
            return None
        source = maker.operands[0]
        views.insert(0, maker)
        value = source
    return None


def keeps_order(op: Op) -> bool:
    """Whether the op is a view with the elements of its operand in row-major order."""
    if op.name == "reshape":
        return True
    if op.name != "broadcast_in_dim" or num_elements(op.operands[0].shape) != num_elements(op.result.shape):
        return False
    return list(op.attrs["broadcast_dimensions"]) == sorted(op.attrs["broadcast_dimensions"])


def _is_spread(value: Value, op: Op, num_tiles: int) -> bool:
    """Whether the part of the result lies on about as many tiles as the result: it is small, or the part half of it, or
    every tile has whole lines, each with its part."""
    whole = size_in_bytes(op.result)
    lines = math.prod(op.result.shape[: op.attrs["dimension"]])
    return whole <= SMALL or 2 * size_in_bytes(value) >= whole or 0 < num_tiles <= lines
