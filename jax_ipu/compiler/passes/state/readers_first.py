"""Moves readers of old state in front of the op that changes it, so that the change is in place.

A program may read an element of its state after it has made the new state. In program order the old state would have
to be kept, and the new one would be a copy. Where a reader must stay, because it reads the new state too, an op
"ipu.copy" saves the part of the old state that it reads.
"""

from __future__ import annotations

from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Module, Op, Value, clone_ops, has_effect, size_in_bytes
from jax_ipu.compiler.passes.state.branch_state import BRANCHES, UPDATES, captured, replace_uses

_WRITERS = UPDATES | LOOPS | BRANCHES
_NESTED = LOOPS | BRANCHES | {"ipu.call"}
# The most ops that move for one change of state.
_MAX_OPS = 64


def run(module: Module) -> None:
    """Orders every block of main."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    for op in block.ops:
        if op.name in _NESTED:
            for region in op.regions:
                _run_block(region)
    writers = [op for op in block.ops if op.name in _WRITERS]
    if writers:
        order = _Order(block)
        for writer in writers:
            order.move_readers(writer)
        block.ops = order.ops


class _Order:
    """The order of the ops of a block, with what each of them reads."""

    def __init__(self, block: Block) -> None:
        self.ops = block.ops
        self.terminator = block.terminator
        self.places: dict[Op, int] = {}
        self.readers: dict[Value, list[Op]] = {}
        self._number(0)
        for op in block.ops:
            self._add_reader(op)

    def _number(self, first: int) -> None:
        self.places.update((op, first + i) for i, op in enumerate(self.ops[first:]))

    def _add_reader(self, op: Op) -> None:
        for value in self._reads(op):
            self.readers.setdefault(value, []).append(op)

    def _reads(self, op: Op) -> list[Value]:
        return list(dict.fromkeys((*op.operands, *(captured(op) if op.regions else ()))))

    def move_readers(self, writer: Op) -> None:
        """Moves the later readers of what `writer` may write over in front of it, or saves what they read."""
        for state in self._states(writer):
            moving: set[Op] = set()
            staying = []
            for reader in self._late_readers(state, writer):
                more = self._movable(reader, moving, state, writer)
                if more is None:
                    staying.append(reader)
                else:
                    moving |= more
            parts = self._parts(staying, state)
            if parts is None:
                continue
            if moving:
                self._move(moving, writer)
            for part, chain in parts.items():
                self._save(part, [view.op for view in reversed(chain) if view.op is not None], writer)

    def _states(self, writer: Op) -> list[Value]:
        """The values that the writer may write over, before all views."""
        values = writer.operands[: len(writer.results)] if writer.name in UPDATES else self._reads(writer)
        types = {(result.shape, result.dtype) for result in writer.results}
        states: dict[Value, None] = {}
        for value in values:
            if (value.shape, value.dtype) not in types:
                continue
            while value.op is not None and value.op in self.places and _is_view(value.op):
                value = value.op.operands[0]
            if value.op is None or value.op.name != "constant":
                states[value] = None
        return list(states)

    def _late_readers(self, state: Value, writer: Op) -> list[Op]:
        """The ops that read the state, or views of it, after the writer."""
        late: list[Op] = []
        values = [state]
        while values:
            for reader in self.readers.get(values.pop(), ()):
                if _is_view(reader):
                    values += reader.results
                elif self.places[reader] > self.places[writer]:
                    late.append(reader)
        return late

    def _movable(self, reader: Op, moving: set[Op], state: Value, writer: Op) -> set[Op] | None:
        """A late reader and all that it needs from behind the writer, beside what moves; None where it must stay."""
        at = self.places[writer]
        more: set[Op] = set()
        pending = [reader]
        while pending:
            op = pending.pop()
            if op in moving or op in more:
                continue
            if op is writer or op is self.terminator or op.name in _WRITERS or has_effect(op):
                return None
            more.add(op)
            pending += [v.op for v in self._reads(op) if v.op is not None and self.places.get(v.op, -1) >= at]
        all_moving = moving | more
        made = sum(
            size_in_bytes(v) for op in all_moving if op.name not in VIEWS and op.name != "constant" for v in op.results
        )
        # Keeping what they make would be no better than keeping the state.
        return more if len(all_moving) <= _MAX_OPS and made <= size_in_bytes(state) else None

    def _move(self, moving: set[Op], writer: Op) -> None:
        at = self.places[writer]
        end = 1 + max(self.places[op] for op in moving)
        part = self.ops[at:end]
        self.ops[at:end] = [op for op in part if op in moving] + [op for op in part if op not in moving]
        self.places.update((op, at + i) for i, op in enumerate(self.ops[at:end]))

    def _parts(self, staying: list[Op], state: Value) -> dict[Value, list[Value]] | None:
        """The parts of the state that the readers see, each with its chain of views; None where these are not small."""
        parts: dict[Value, list[Value]] = {}
        for reader in staying:
            for value in self._reads(reader):
                chain = self._chain(value, state)
                if chain:
                    part = min(reversed(chain), key=size_in_bytes)
                    parts[part] = chain[chain.index(part) : -1]
        if state in parts or 2 * sum(map(size_in_bytes, parts)) > size_in_bytes(state):
            return None
        return parts

    def _chain(self, value: Value, state: Value) -> list[Value]:
        """The values from this one to the state, each a view of the next; empty where it is no view of the state."""
        chain = [value]
        while value is not state:
            if value.op is None or value.op not in self.places or not _is_view(value.op):
                return []
            value = value.op.operands[0]
            chain.append(value)
        return chain

    def _save(self, part: Value, views: list[Op], writer: Op) -> None:
        """Copies `part`, which `views` make of the state, in front of the writer, for the ops behind it."""
        at = self.places[writer]
        mapping: dict[Value, Value] = {}
        saved = clone_ops(Block([], views), mapping)
        saved.append(Op("ipu.copy", [mapping[part]], [(part.shape, part.dtype)], None, (), writer.location))
        behind = [op for op in self.readers[part] if self.places[op] > at]
        for op in behind:
            replace_uses(op, part, saved[-1].result)
        self.readers[saved[-1].result] = behind
        self.readers[part] = [op for op in self.readers[part] if op not in behind]
        self.ops[at:at] = saved
        for op in saved:
            self._add_reader(op)
        # A view that nothing reads any more would seem to read the state behind the writer.
        for view in reversed(views):
            if not view.result.users:
                self.readers[view.operands[0]].remove(view)
                self.ops.remove(view)
                del self.places[view]
                view.drop()
        self._number(0)


def _is_view(op: Op) -> bool:
    return op.name in VIEWS and len(op.operands) == 1
