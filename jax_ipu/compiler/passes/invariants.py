"""Moves small values that are the same in every trip of a loop in front of it: masks, identities, coefficients.

Values that are large stay: they would take memory for the whole loop.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import is_elementwise
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.types import num_elements

# What costs nothing where it is.
_FREE = frozenset(("constant", "reshape", "transpose", "broadcast_in_dim", "slice", "reverse"))
_COMPUTED = frozenset(("iota", "concatenate", "pad"))
# The most bytes of one value, and of all values that one loop gives away.
_SMALL, _ALL = 4096, 32768


def run(module: Module) -> None:
    """Moves values out of the loops of main, inner loops first."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        if op.name in LOOPS:
            ops += _invariants(op.regions[-1])
        ops.append(op)
    block.ops = ops


def _invariants(body: Block) -> list[Op]:
    """Takes from a body what does not depend on its arguments."""
    inside = {*body.args, *(result for op in body.ops for result in op.results)}
    outside: list[Op] = []
    total = 0
    for op in body.ops:
        if not _may_move(op) or any(o in inside for o in op.operands):
            continue
        size = sum(size_in_bytes(r) for r in op.results)
        if op.name not in _FREE:
            if total + size > _ALL:
                continue
            total += size
        inside.difference_update(op.results)
        outside.append(op)
    needed = _needed(outside)
    body.ops = [op for op in body.ops if op not in needed]
    return [op for op in outside if op in needed]


def _may_move(op: Op) -> bool:
    if op.regions or any(not num_elements(r.shape) or size_in_bytes(r) > _SMALL for r in op.results):
        return False
    return op.name in _FREE or op.name in _COMPUTED or is_elementwise(op)


def _needed(moved: list[Op]) -> set[Op]:
    """What computes, and what of the rest it reads."""
    needed: set[Op] = set()
    read: set[Value] = set()
    for op in reversed(moved):
        if op.name not in _FREE or any(r in read for r in op.results):
            needed.add(op)
            read.update(op.operands)
    return needed
