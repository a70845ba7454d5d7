"""Combines independent all-reduces into one with several operands: each costs a sync of all IPUs.

The operands of a combined all-reduce are copied into one buffer first. Small tensors are sent to all replicas in one
step, large ones around a ring in many steps, so a large tensor that joins only small ones costs more for its copy than
it saves. Ops between the all-reduces that need one of their results move behind the last of them.
"""

from __future__ import annotations

from typing import Any

from jax_ipu.compiler.ir import Block, Module, Op, Value, has_effect, size_in_bytes
from jax_ipu.compiler.passes.cse import structure_key
from jax_ipu.compiler.replica_groups import channel_of, groups_of

# Tensors up to this size are small; docs/multi_ipu.md has the measurements.
SMALL_BYTES = 64 * 1024
# Two IPUs send tensors of any size in one step, so combining saves less.
MAX_BYTES_OF_PAIRS = 256 * 1024
# The most bytes of one combined all-reduce: its operands are in memory twice.
MAX_BYTES = 8 * 1024 * 1024


def run(module: Module) -> None:
    """Combines the all-reduces of every block of main; a program for one IPU has none."""
    if module.num_replicas * module.num_partitions > 1:
        _run_block(module.main.block, module)


def _run_block(block: Block, module: Module) -> None:
    for op in block.ops:
        if op.name != "all_reduce":
            for region in op.regions:
                _run_block(region, module)
    done: set[Op] = set()
    start = 0
    while (found := _next(block, start, done, module)) is not None:
        together, start = found
        if all(op in module.origins for op in together):
            module.combined.append([module.origins[op] for op in together])
        done.add(_combine(block, together))


def _next(block: Block, start: int, done: set[Op], module: Module) -> tuple[list[Op], int] | None:
    """The first two or more all-reduces from position `start` on that can be combined, in program order.

    Also where the next search starts: combining changes no op before the lists that are open. None where there are no
    more.
    """
    open_lists: dict[Any, _Open] = {}

    def combined(ended: _Open) -> tuple[list[Op], int] | None:
        together = _worth_it(ended.ops)
        if len(together) < 2:
            return None
        return together, min([ended.begin, *(waiting.begin for waiting in open_lists.values())])

    for position in range(start, len(block.ops)):
        op = block.ops[position]
        values = _values(op)
        for key in [k for k, waiting in open_lists.items() if waiting.needs(values, op)]:
            if (found := combined(open_lists.pop(key))) is not None:
                return found
        if op.name != "all_reduce" or op in done or not _may_join(op, module):
            continue
        key = combination_key(op)
        waiting = open_lists.setdefault(key, _Open(position))
        if waiting.depends(values) or waiting.bytes + _bytes(op) > MAX_BYTES:
            if (found := combined(waiting)) is not None:
                return found
            waiting = open_lists[key] = _Open(position)
        waiting.add(op)
    for waiting in open_lists.values():
        if (found := combined(waiting)) is not None:
            return found
    return None


def _may_join(op: Op, module: Module) -> bool:
    if _bytes(op) <= MAX_BYTES_OF_PAIRS:
        return True
    return any(len(group) > 2 for group in groups_of(op, module.num_partitions, module.num_replicas))


def _worth_it(ops: list[Op]) -> list[Op]:
    small = [op for op in ops if _bytes(op) <= SMALL_BYTES]
    return small if len(small) + 1 == len(ops) else ops


class _Open:
    """All-reduces that may be combined, and the values that depend on them."""

    def __init__(self, begin: int) -> None:
        self.begin = begin  # position of the first of them
        self.ops: list[Op] = []
        self.bytes = 0
        self._dependent: set[Value] = set()

    def add(self, op: Op) -> None:
        self.ops.append(op)
        self.bytes += _bytes(op)
        self._dependent.update(op.results)

    def depends(self, values: list[Value]) -> bool:
        return not self._dependent.isdisjoint(values)

    def needs(self, values: list[Value], op: Op) -> bool:
        """Whether `op` depends on the all-reduces and cannot move behind a later one, so that the list ends here."""
        if not self.depends(values):
            return False
        self._dependent.update(op.results)
        return has_effect(op)


def _combine(block: Block, together: list[Op]) -> Op:
    last = together[-1]
    combined = Op(
        "all_reduce",
        [operand for op in together for operand in op.operands],
        [(r.shape, r.dtype) for op in together for r in op.results],
        dict(last.attrs),
        last.regions,
        last.location,
    )
    dependent = {result for op in together for result in op.results}
    before: list[Op] = []
    after: list[Op] = []
    position = block.ops.index(last)
    for op in block.ops[:position]:
        if op in together:
            continue
        if dependent.isdisjoint(_values(op)):
            before.append(op)
        else:
            dependent.update(op.results)
            after.append(op)
    block.ops = [*before, combined, *after, *block.ops[position + 1 :]]
    results = iter(combined.results)
    last.regions = []
    for op in together:
        for result in op.results:
            result.replace_with(next(results))
        op.drop()
    return combined


def _values(op: Op) -> list[Value]:
    """The values that `op` and the ops in its regions read."""
    return [*op.operands, *(v for region in op.regions for inner in region.walk() for v in inner.operands)]


def _bytes(op: Op) -> int:
    return sum(map(size_in_bytes, op.operands))


def combination_key(op: Op) -> Any:
    """Equal for all-reduces that can be combined: of one element type, with the same groups and body."""
    name, (operands, _), attrs, regions = structure_key(op)
    kept = tuple((k, v) for k, v in attrs if k != "channel_handle")
    return (name, frozenset(dtype for _, dtype in operands), kept, channel_of(op) > 0, regions)
