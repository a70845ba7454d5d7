"""Counts of arithmetic for PJRT's cost analysis, over the optimised program.

A product of M x K and K x N counts 2 M N K flops, a convolution two for every product of an input and a kernel element,
an elementwise op or a reduction one per element. Transcendental functions are counted apart, as XLA does. Bytes are
those that each op reads and writes. Loops with a known trip count multiply, others count once.
"""

from __future__ import annotations

import math

from jax_ipu.compiler.expression import TRANSCENDENTAL
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.lowering.convolution import ConvShape
from jax_ipu.compiler.lowering.dot import DotShape
from jax_ipu.compiler.passes.inplace import VIEWS
from jax_ipu.compiler.types import SIZE, num_elements


class Cost:
    """Totals of a block."""

    __slots__ = ("bytes_accessed", "flops", "transcendentals")

    def __init__(self) -> None:
        self.flops = 0.0
        self.bytes_accessed = 0.0
        self.transcendentals = 0.0

    def add(self, other: Cost, times: float = 1) -> None:
        self.flops += other.flops * times
        self.bytes_accessed += other.bytes_accessed * times
        self.transcendentals += other.transcendentals * times


def size_in_bytes(value: Value) -> int:
    return num_elements(value.shape) * SIZE.get(value.dtype, 0)


def of_block(block: Block) -> Cost:
    total = Cost()
    for op in block.ops:
        name = op.name
        if name in ("constant", "return") or name in VIEWS:
            continue
        if name in ("while", "ipu.repeat", "if", "case"):
            times = op.attrs.get("count", 1)
            regions = [of_block(region) for region in op.regions]
            if name in ("if", "case"):
                regions = [max(regions, key=lambda c: c.flops)] if regions else []
            for region in regions:
                total.add(region, times)
            continue
        if name == "ipu.call":
            total.add(of_block((op.attrs.get("of") or op).regions[0]))
            continue
        total.bytes_accessed += sum(map(size_in_bytes, op.operands)) + sum(map(size_in_bytes, op.results))
        _count(op, total)
    return total


def _count(op: Op, total: Cost) -> None:
    name = op.name
    if name == "ipu.map":
        elements = num_elements(op.results[0].shape)
        heavy = sum(1 for n in op.attrs["names"] if n in TRANSCENDENTAL)
        total.transcendentals += heavy * elements
        total.flops += (len(op.attrs["names"]) - heavy) * elements
    elif name == "dot_general":
        shape = DotShape(op)
        total.flops += 2.0 * shape.batch * shape.m * shape.n * shape.k
    elif name == "convolution":
        kernel = [op.operands[1].shape[d] for d in ConvShape(op).rhs_permutation]
        total.flops += 2.0 * num_elements(op.result.shape) * math.prod(kernel[1:])
    elif name == "reduce":
        total.flops += num_elements(op.operands[0].shape) * max(1, len(op.regions[0].ops) - 1)
    elif name == "reduce_window":
        # A window as long as the dimension it slides over by single steps is a running result: one per element.
        window = math.prod(
            1 if size > 1 and size >= extent and extent == length else size
            for size, extent, length in zip(
                op.attrs["window_dimensions"], op.operands[0].shape, op.results[0].shape, strict=True
            )
        )
        total.flops += num_elements(op.results[0].shape) * window
    elif name == "select_and_scatter":
        total.flops += 2.0 * num_elements(op.operands[0].shape)
    elif name == "scatter":
        total.flops += num_elements(op.operands[-1].shape)
    elif name == "sort":
        elements = num_elements(op.results[0].shape)
        total.flops += elements * max(1, math.ceil(math.log2(max(elements, 2))))
