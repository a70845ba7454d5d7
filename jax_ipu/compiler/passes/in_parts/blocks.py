"""Values that are far larger than what they are made of and reduced to are computed block by block, in a loop.

`((x[:, None] - y[None]) ** 2).sum(-1)` has differences that take many times the memory of x, y and the distances. Ops
between the broadcast and the reduction become a loop over blocks of one dimension, so that only a block of such values
exists at a time. Ops that also need results of these reductions, as gradients do, are in the same loop if they can be
cut along the same dimension; otherwise they compute the large values again in a loop of their own.

So are scores between products, as in `softmax(q @ k.T) @ v`, where they take most of the memory.

The cycles are those of the whole values, but for the supersteps of the trips: a block is large enough for all tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, depending, has_effect, size_in_bytes
from jax_ipu.compiler.passes.in_parts.block_axes import VIEWS, Axes, find_axes, is_blockable
from jax_ipu.compiler.passes.in_parts.block_lines import fold
from jax_ipu.compiler.passes.in_parts.block_loop import emit_loop
from jax_ipu.compiler.passes.rewriter import Rewriter

_LOOPS_AND_BRANCHES = frozenset(("while", "if", "case", "ipu.repeat"))
# Values are cut if they take a part of the memory, and so that a block takes less. Results of reductions cost more to
# compute again, so more of them are kept.
_LARGE, _LARGE_RESULT, _BLOCK = 1 / 8, 1 / 5, 1 / 16
# The same parts of less memory where memory comes first.
_FRUGAL = 4
# Products take more cycles in blocks, so operands and results of this part of the memory are cut: what hardly fits as a
# whole, or, where memory comes first, what is likely to be why the program does not fit.
_LARGE_PRODUCT, _LARGE_FRUGAL_PRODUCT = 1 / 2, 1 / 4
# Values of this part of the memory are computed in each block if they are made of smaller ones alone.
_PATTERN = 1 / 64
# Operands and results of a loop take at most this part of its largest value; more where memory comes first.
_MOST_KEPT, _MOST_FRUGAL = 1 / 2, 3 / 2
_MAX_OPS = 256
# Ops that make less of the results of a loop, by this factor, are computed in it.
_SHRINKING, _SMALLER = ("reduce", "chlo.top_k"), 8


def run(module: Module) -> None:
    """Rewrites main, and the regions of its control flow."""
    if module.memory:
        _run_block(module.main.block, module.memory, module.frugal)


def _run_block(block: Block, memory: int, frugal: bool) -> None:
    for op in block.ops:
        if op.name in _LOOPS_AND_BRANCHES:
            for region in op.regions:
                _run_block(region, memory, frugal)
    least = memory * _LARGE / (_FRUGAL if frugal else 1)
    if not any(size_in_bytes(r) >= least for op in block.ops for r in op.results):
        return
    finder = _Finder(block, memory, frugal)
    for group in finder.groups():
        _replace(block, group)


@dataclass
class _Group:
    """Ops that one loop computes; the results of `sinks` are all that other ops need."""

    ops: set[Op]
    sinks: list[Op]
    axes: Axes
    extent: int
    rows: int


class _Finder:
    def __init__(self, block: Block, memory: int, frugal: bool) -> None:
        self.block = block
        self.all_memory, self.memory = memory, memory // _FRUGAL if frugal else memory
        self.product = memory * (_LARGE_FRUGAL_PRODUCT if frugal else _LARGE_PRODUCT)
        self.frugal = frugal
        self.positions = {op: i for i, op in enumerate(block.ops)}
        # Ops that make patterns such as a diagonal of small values, which each block computes rather than slices.
        self.patterns: set[Op] = set()
        for op in block.ops:
            makes = op.name == "iota" or op.name in VIEWS or is_elementwise(op)
            if not makes or size_in_bytes(op.result) < memory * _PATTERN or not self._stays(op):
                continue
            operands = (o for o in op.operands if o.op not in self.patterns and splat_of(o) is None)
            if all(size_in_bytes(o) < memory * _PATTERN for o in operands):
                self.patterns.add(op)

    def groups(self) -> list[_Group]:
        """The loops that pay, in program order of their first results."""
        groups: list[_Group] = []
        for sink in self.block.ops:
            if not self._is_blockable(sink) or sink.name in VIEWS or self._is_passing(sink):
                continue
            cone = self._cone(sink)
            if not cone:
                if sink.name in _SHRINKING:
                    any(self._join(group, sink, cone) for group in reversed(groups))
            elif not any(self._join(group, sink, cone) for group in reversed(groups)):
                group = self._group({*cone, sink}, [sink])
                if group is not None:
                    groups.append(group)
        return groups

    def _is_passing(self, op: Op) -> bool:
        """Whether the results are large and only such ops read them that can be computed in the same loop."""
        part = _LARGE if op.name != "reduce" else _LARGE_RESULT
        return (
            op in self.positions
            and self._is_blockable(op)
            and all(size_in_bytes(r) >= self.memory * part for r in op.results)
            and self._stays(op)
        )

    def _stays(self, op: Op) -> bool:
        """Whether only ops that blocks can compute read the results."""
        return all(user in self.positions and self._is_blockable(user) for r in op.results for user in r.users)

    def _is_blockable(self, op: Op) -> bool:
        if op.name != "dot_general":
            return is_blockable(op)
        return any(size_in_bytes(v) >= self.product for v in (*op.operands, op.result))

    def _cone(self, sink: Op) -> set[Op]:
        """The ops that make the large values which the op reads, directly or not; empty if none takes memory."""
        cone: set[Op] = set()
        pending = list(sink.operands)
        while pending and len(cone) <= _MAX_OPS:
            op = pending.pop().op
            if op is None or op in cone or not (op in self.patterns or self._is_passing(op)):
                continue
            cone.add(op)
            pending.extend(op.operands)
        # A view of what stays whole is sliced like that; where a product reads all of it, it could not be cut.
        for op in sorted(cone, key=lambda op: self.positions[op]):
            if op.name in ("transpose", "reshape") and op.operands[0].op not in cone:
                cone.remove(op)
        large = any(op.name not in VIEWS and self._is_passing(op) for op in cone)
        return cone if large and len(cone) <= _MAX_OPS else set()

    def _group(self, ops: set[Op], sinks: list[Op]) -> _Group | None:
        """The ops with the dimension that is best to cut; None where none pays."""
        # Elementwise ops become one, which keeps what is in between in registers.
        if all(is_elementwise(op) for op in ops):
            return None
        # Smaller blocks of a product cost more: they are those of all the memory.
        products = any(op.name == "dot_general" for op in ops)
        memory = self.all_memory if products else self.memory
        inner = [r for op in ops if op.name not in VIEWS and op not in sinks for r in op.results]
        largest = max(inner, key=size_in_bytes)
        kept = {o for op in ops for o in op.operands if o.op not in ops and splat_of(o) is None}
        kept.update(r for op in sinks for r in op.results)
        most = _MOST_FRUGAL if self.frugal else _MOST_KEPT
        if sum(map(size_in_bytes, kept)) > size_in_bytes(largest) * most:
            return None
        best: tuple[int, _Group] | None = None
        for axis, extent in enumerate(largest.shape):
            rows = int(extent * memory * _BLOCK) // size_in_bytes(largest)
            if not 1 <= rows < extent:
                continue
            axes = find_axes(ops, largest, axis)
            if axes is None:
                continue
            # Partial results are read and written in each trip; few bytes do not matter.
            summed = sum(size_in_bytes(op.result) for op in axes.reduced) * -(-extent // rows)
            cost = summed // max(1, size_in_bytes(largest) // 64)
            if best is None or cost < best[0]:
                best = cost, _Group(ops, sinks, axes, extent, _even(extent, rows))
        return None if best is None else best[1]

    def _join(self, group: _Group, sink: Op, cone: set[Op]) -> bool:
        """Makes the op and its cone part of the group, if both have large values in common.

        An op without a cone reduces results of the group further, so that the loop need not store these.
        """
        if cone and not any(op in group.ops and op.name not in VIEWS for op in cone):
            return False
        dependents = self._dependents(group.sinks, self.positions[sink])
        path: set[Op] = set()
        pending = [*sink.operands, *(o for op in cone for o in op.operands)]
        while pending:
            op = pending.pop().op
            if op is None or op in path or op in group.ops or op not in dependents:
                continue
            if not self._is_blockable(op) or len(path) > _MAX_OPS:
                return False
            path.add(op)
            pending.extend(op.operands)
        if any(has_effect(op) for op in dependents):
            return False
        if not cone:
            inside = {*path, *group.ops, sink}
            stored = max((size_in_bytes(r) for s in group.sinks for r in s.results), default=0)
            reads = any(o.op in group.sinks for op in (*path, sink) for o in op.operands)
            # Nothing is computed twice, and the results are much smaller.
            if not reads or any(user not in inside for op in path for r in op.results for user in r.users):
                return False
            if sum(map(size_in_bytes, sink.results)) * _SMALLER > stored:
                return False
        joined = self._group(group.ops | cone | path | {sink}, [*group.sinks, sink])
        if joined is None:
            return False
        group.ops, group.sinks, group.axes = joined.ops, joined.sinks, joined.axes
        group.extent, group.rows = joined.extent, joined.rows
        return True

    def _dependents(self, sinks: list[Op], end: int) -> set[Op]:
        """The ops before position `end` that read results of the sinks, directly or not."""
        return depending(self.block.ops[min(self.positions[s] for s in sinks) : end], sinks)


def _even(extent: int, rows: int) -> int:
    """At most `rows`, such that blocks of as many elements make up `extent`, or nearly so."""
    trips = math.ceil(extent / rows)
    exact = next((n for n in range(trips, 2 * trips) if extent % n == 0), None)
    return extent // exact if exact is not None else math.ceil(extent / trips)


def _emit(ops: list[Op], group: _Group, rewriter: Rewriter) -> list[Value]:
    """The results of the group's sinks from a loop."""
    sinks = [op for op in ops if op in group.sinks]
    lines = fold(ops, sinks, group.axes, group.extent, rewriter)
    axes = None if lines is None else find_axes(set(lines.ops), *lines.anchor)
    if lines is None or axes is None:
        return emit_loop(ops, group.sinks, group.axes, group.extent, group.rows, rewriter)
    columns = group.extent // lines.rows
    made = emit_loop(lines.ops, lines.sinks, axes, columns, _even(columns, max(1, group.rows // lines.rows)), rewriter)
    lines.drop()
    values = dict(zip((r for op in sinks for r in op.results), made, strict=True))
    return [rewriter.reshape(values[r], r.shape) for op in group.sinks for r in op.results]


def _replace(block: Block, group: _Group) -> None:
    """Puts the loop at the place of the last sink; what needs its results and came earlier follows it."""
    positions = {op: i for i, op in enumerate(block.ops)}
    first, last = (choose(positions[s] for s in group.sinks) for choose in (min, max))
    late = depending(block.ops[first:last], group.sinks)
    ops = [op for op in block.ops if op in group.ops]
    rewriter = Rewriter()
    rewriter.location = group.sinks[-1].location
    values = iter(_emit(ops, group, rewriter))
    for sink in group.sinks:
        for result in sink.results:
            result.replace_with(next(values))
    before = [op for op in block.ops[first:last] if op not in late and op not in group.sinks]
    after = [op for op in block.ops[first:last] if op in late]
    block.ops[first : last + 1] = [*before, *rewriter.ops, *after]
    for sink in group.sinks:
        sink.drop()
