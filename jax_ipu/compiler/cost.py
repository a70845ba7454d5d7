"""Counts for PJRT's cost analysis over the optimised program: bytes accessed and transcendental functions.

Arithmetic operations and cycles are counted by the IPU model (`Operation::flops`), whose operations know what they
compute. Bytes are those that each op reads and writes: of a slice, a lookup and their updates the rows that they touch,
as in XLA's analysis. Loops with a known trip count multiply; others count once, and
of several branches the one that accesses the most bytes counts.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import TRANSCENDENTAL
from jax_ipu.compiler.ir import VIEWS, Block, Op, body_of, size_in_bytes
from jax_ipu.compiler.types import num_elements


class Cost:
    """Totals of a block: bytes, and applications of a transcendental function to one element."""

    __slots__ = ("bytes_accessed", "transcendentals")

    def __init__(self) -> None:
        self.bytes_accessed = 0.0
        self.transcendentals = 0.0

    def add(self, other: Cost, times: float = 1) -> None:
        """Adds `times` executions of what `other` counts."""
        self.bytes_accessed += other.bytes_accessed * times
        self.transcendentals += other.transcendentals * times


def _bytes(op: Op) -> int:
    """The bytes that `op` reads and writes."""
    results = sum(map(size_in_bytes, op.results))
    if op.name in ("dynamic_slice", "gather"):
        return 2 * results + sum(map(size_in_bytes, op.operands[1:]))
    if op.name in ("dynamic_update_slice", "ipu.update_slice"):
        return size_in_bytes(op.operands[1]) + sum(map(size_in_bytes, op.operands[1:]))
    if op.name == "scatter":
        given = op.operands[len(op.results) :]  # the indices, then the updates
        return sum(map(size_in_bytes, given)) + 2 * sum(map(size_in_bytes, given[1:]))
    return results + sum(map(size_in_bytes, op.operands))


def of_block(block: Block) -> Cost:
    """The cost of one execution of the block, with the loops, branches and calls in it."""
    total = Cost()
    for op in block.ops:
        name = op.name
        if name in ("constant", "return") or name in VIEWS:
            continue
        if name in ("while", "ipu.repeat", "if", "case"):
            regions = [of_block(region) for region in op.regions]
            if name in ("if", "case"):
                regions = [max(regions, key=lambda c: c.bytes_accessed)] if regions else []
            for region in regions:
                total.add(region, op.attrs.get("count", 1))
            continue
        if name == "ipu.call":
            total.add(of_block(body_of(op)))
            continue
        total.bytes_accessed += _bytes(op)
        if name == "ipu.map":
            functions = sum(1 for n in op.attrs["names"] if n in TRANSCENDENTAL)
            total.transcendentals += functions * num_elements(op.results[0].shape)
    return total
