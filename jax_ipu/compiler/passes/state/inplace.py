"""Decides which ops write over storage that nothing reads afterwards, so that state is updated in place.

Sets attributes of ops: `in_place` (updates of slices, scatter, large sorts: operand storage becomes the result; a stack
of parts that are written over, see `stacks.py`),
`write_over` (ipu.map: result index -> block argument, part of one, or value read from host memory, whose storage takes
that result),
`own` (loops and conditionals: which initial values give their storage), `state` (conditionals, see `branch_state.py`),
and on terminators `through_copy` (results that must be copied to a temporary before any state is written).

Adds ops "ipu.store": a result that cannot be computed in the storage of its state is copied there as soon as the old
contents are dead. Copies at the end of the program would keep all such results alive until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.state import branch_state
from jax_ipu.compiler.passes.state.branch_state import BRANCHES, UPDATES
from jax_ipu.compiler.passes.state.stacks import Stack, parts_of, stacks_of
from jax_ipu.compiler.tile_calls import ATTRIBUTE, VertexCall
from jax_ipu.compiler.types import num_elements

# Ops whose results lie in memory that programs do not write.
_CONSTANTS = frozenset(("constant", "partition_id", "replica_id"))

# Sorts of operands of this part of the memory are in place: these are then mapped as they are sorted.
_SORTS = frozenset(("sort", "ipu.sort_with_positions"))
_LARGE_SORT = 1 / 4

_NOTHING: frozenset[Value] = frozenset()


def run(module: Module, aliases: dict[int, int], read_only: frozenset[int]) -> frozenset[int]:
    """Sets the attributes of all ops of main.

    Args:
        module: the program, after `schedule`.
        aliases: result -> argument of main whose storage it takes, both by position.
        read_only: the positions of arguments that must not be written.

    Returns:
        The positions of the arguments whose storage the program writes over before its results have left.
    """
    for op in module.main.block.walk():
        if op.name in _SORTS and sum(map(size_in_bytes, op.operands)) > module.memory * _LARGE_SORT > 0:
            op.attrs["large"] = True
    args = module.main.block.args
    writeable = {arg for i, arg in enumerate(args) if i not in read_only}
    analysis = _Analysis(module.main.block, {j: args[i] for j, i in aliases.items()}, writeable)
    analysis.run()
    return frozenset(i for i, arg in enumerate(args) if arg in analysis.written)


class _Analysis:
    """The analysis of one block. A root is a value with storage of its own; every value lies in a set of roots."""

    def __init__(self, block: Block, destinations: dict[int, Value], writeable: set[Value]) -> None:
        self.block = block
        self.destinations = destinations
        self.writeable = writeable
        self.roots: dict[Value, frozenset[Value]] = {}
        self.last_use: dict[Value, int] = {}
        # Root -> the root whose storage it takes by an update in place.
        self.storage: dict[Value, Value] = {}
        # Result of an update in place -> the operand, the same elements in the same order.
        self.updated: dict[Value, Value] = {}
        self.repeats: set[Value] = set()  # values with elements that share storage (broadcasts)
        self.written: set[Value] = set()  # roots that an op writes over
        # Stacks of which each part is written over, by concatenation; each part is a root; part of a result -> that.
        self.stacks: dict[Op, Stack] = stacks_of(block)
        self.parts: dict[Value, Value] = {}
        self.part_targets: dict[Value, Value] = {}

    def roots_of(self, value: Value) -> frozenset[Value]:
        known = self.roots.get(value)
        # Values of outer blocks are their own roots; this block must not write over them.
        return known if known is not None else frozenset((value,))

    def run(self) -> None:
        block = self.block
        self._find_roots()
        while late := [op for op, stack in self.stacks.items() if not self._is_in_place(op, stack)]:
            for op in late:
                del self.stacks[op]
            self._find_roots()
        for op, stack in self.stacks.items():
            op.attrs["in_place"] = True
            self.part_targets.update(zip(op.operands, stack.parts, strict=True))
        outputs = self._outputs()
        for index, op in enumerate(block.ops):
            if op.name in UPDATES:
                self._update(op, index, len(op.results))
            elif op.attrs.get("large"):
                self._update(op, index, len(op.operands))
            elif op.name == "ipu.map":
                self._map(op, index, outputs)
            elif op in self.stacks:
                state = self.stacks[op].state
                self.written.add(state)
                self.storage[op.result] = self.updated[op.result] = state
            elif op.name == "ipu.tile_map":
                self._vertices(op, index)
            elif op.name in LOOPS:
                self._loop(op, index)
            elif op.name == "ipu.call":
                for region in op.regions:
                    _Analysis(region, {}, set(region.args)).run()
            elif op.name in BRANCHES:
                self._branches(op)
        self._store()
        self._terminate()

    def _find_roots(self) -> None:
        """Finds the roots of all values, and their last uses."""
        block = self.block
        self.parts = parts_of(self.stacks)
        self.roots = {arg: frozenset((arg,)) for arg in block.args}
        for op in block.ops:
            # What has repeated elements never lies on tiles as a put asks.
            if op.name == "ipu.tile_put" and any(o in self.repeats for o in op.operands):
                op.attrs["copy"] = True
            if op.name == "slice" and op.result in self.parts:
                part = self.parts[op.result]
                self.roots[op.result] = frozenset((part,))
                self.writeable.add(part)
            elif op.name in VIEWS and not op.attrs.get("copy"):
                shared = _NOTHING.union(*(self.roots_of(o) for o in op.operands))
                for result in op.results:
                    self.roots[result] = shared
                if op.name == "broadcast_in_dim" or any(o in self.repeats for o in op.operands):
                    self.repeats.update(op.results)
            else:
                for result in op.results:
                    self.roots[result] = frozenset((result,))
                    if op.name not in _CONSTANTS:
                        self.writeable.add(result)
        self.last_use = {}
        for index, op in enumerate(block.ops):
            for value in _uses(op):
                for root in self.roots_of(value):
                    self.last_use[root] = index

    def _is_in_place(self, concatenation: Op, stack: Stack) -> bool:
        """Whether each new part can be computed in its place: its op is the last to read the old part."""
        if stack.state not in self.writeable or stack.state not in self.destinations.values():
            return False
        return all(self._is_last_reader(o, part) for o, part in zip(concatenation.operands, stack.parts, strict=True))

    def _is_last_reader(self, result: Value, part: Value) -> bool:
        op = result.op
        assert op is not None
        if any(part in self.roots_of(o) and o is not part for o in op.operands):
            return False
        last = self.last_use.get(part, -1)
        return last >= 0 and self.block.ops[last] is op

    def _outputs(self) -> dict[Value, int]:
        """Value -> the position of the result that it becomes, as the result itself or by updates in place.

        Conditionals get their state on the way, because it depends on what their results become.
        """
        outputs: dict[Value, int] = {}
        for position, value in enumerate(self.block.results):
            if position in self.destinations:
                outputs.setdefault(value, position)
        for index, op in reversed(list(enumerate(self.block.ops))):
            pairs: Iterable[tuple[Value, Value]]
            if op.name == "ipu.tile_map":
                pairs = [(op.operands[operand], op.results[result]) for result, operand in _aliases(op)]
            elif op.name in UPDATES or op.name in LOOPS:
                pairs = zip(op.operands, op.results, strict=False)
            elif op.name in BRANCHES:
                self._give_state(op, index, outputs)
                pairs = [(state, op.results[position]) for state, position, own in self._states(op) if own]
            else:
                continue
            for operand, result in pairs:
                if result in outputs and self.last_use.get(operand) == index and op.operands.count(operand) == 1:
                    outputs.setdefault(operand, outputs[result])
        return outputs

    def _dead_after(self, value: Value, index: int) -> bool:
        """Whether the storage of `value` may be written by op `index`."""
        return all(r in self.writeable and self.last_use.get(r, -1) <= index for r in self.roots_of(value))

    def _update(self, op: Op, index: int, count: int) -> None:
        targets, others = op.operands[:count], op.operands[count:]
        touched = _NOTHING.union(*(self.roots_of(t) for t in targets))
        if any(self.roots_of(o) & touched for o in others) or len(set(targets)) < count:
            return
        if any(t in self.repeats or not self._dead_after(t, index) for t in targets):
            return
        if any(self.roots_of(a) & self.roots_of(b) for a in targets for b in targets if a is not b):
            return
        op.attrs["in_place"] = True
        self.written |= touched
        for target, result in zip(targets, op.results, strict=False):
            self._take_storage(target, result)

    def _vertices(self, op: Op, index: int) -> None:
        in_place = []
        for result, operand in _aliases(op):
            target = op.operands[operand]
            touched = self.roots_of(target)
            others = (o for i, o in enumerate(op.operands) if i != operand)
            if target in self.repeats or not self._dead_after(target, index):
                continue
            if any(self.roots_of(o) & touched for o in others):
                continue
            in_place.append(result)
            self.written |= touched
            self._take_storage(target, op.results[result])
        op.attrs["in_place"] = tuple(in_place)

    def _map(self, op: Op, index: int, outputs: dict[Value, int]) -> None:
        over: dict[int, Value] = {}
        taken: set[Value] = set()
        for i, result in enumerate(op.results):
            if result in self.part_targets:
                target = self.part_targets[result]
            elif result in outputs:
                target = self.destinations[outputs[result]]
            else:
                continue
            if target in taken or not self._dead_after(target, index):
                continue
            # The op may read the target itself, element by element, but no other view of it.
            if any(target in self.roots_of(o) and o is not target for o in op.operands):
                continue
            if target in self.storage.values():
                continue
            over[i] = target
            taken.add(target)
            self.storage[result] = target
            self.updated[result] = target
        self.written |= taken
        for i, result in enumerate(op.results):
            operand = None if i in over else self._read_for(op, result, index)
            if operand is not None and operand not in over.values():
                over[i] = operand
                self._take_storage(operand, result)
        if over:
            op.attrs["write_over"] = over

    def _read_for(self, op: Op, result: Value, index: int) -> Value | None:
        """What the op alone uses of host memory, and the result can lie in; it may be larger than all else."""
        for operand in op.operands:
            (root, *others) = self.roots_of(operand)
            if others or root.op is None or root.op.name != "ipu.host_read" or root in self.storage.values():
                continue
            same = operand.shape == result.shape and operand.dtype == result.dtype
            alone = sum(root in self.roots_of(o) for o in op.operands) == 1 and operand not in self.repeats
            if same and alone and self._dead_after(operand, index):
                return operand
        return None

    def _loop(self, op: Op, index: int) -> None:
        body = op.regions[-1]
        if op.name == "while":
            _Analysis(op.regions[0], {}, set()).run()
        _Analysis(body, dict(enumerate(body.args)), set(body.args)).run()
        own = []
        given: set[Value] = set()
        captured = {v for region in op.regions for inner in region.walk() for v in inner.operands}
        captured_roots = _NOTHING.union(*(self.roots_of(v) for v in captured)) if captured else _NOTHING
        for operand in op.operands:
            roots = self.roots_of(operand)
            fits = (
                operand not in self.repeats
                and self._dead_after(operand, index)
                and not roots & given
                and not roots & captured_roots
                and sum(1 for o in op.operands if self.roots_of(o) & roots) == 1
            )
            own.append(fits)
            if fits:
                given |= roots
        op.attrs["own"] = tuple(own)
        self.written |= given
        for operand, result, mine in zip(op.operands, op.results, own, strict=True):
            if mine:
                self._take_storage(operand, result)

    def _give_state(self, op: Op, index: int, outputs: dict[Value, int]) -> None:
        """Chooses the state of a conditional, for each result at most one value, so that most is in place."""
        outside = branch_state.captured(op)
        wishes: list[tuple[int, int, Value, bool]] = []
        for position, result in enumerate(op.results):
            if not num_elements(result.shape):
                continue
            target = self.destinations.get(outputs.get(result, -1))
            for value, (suits, changed) in branch_state.candidates(op, position, outside).items():
                in_place = target is not None and self.roots_of(value) == {target}
                wishes.append((2 * suits + 3 * in_place, position, value, changed))
        wishes.sort(key=lambda wish: (-wish[0], wish[1]))
        states: dict[int, tuple[Value, bool]] = {}
        taken: set[Value] = set()
        for _, position, value, changed in wishes:
            if position in states or value in taken:
                continue
            if branch_state.sink_views(op, value, outside):
                outside = branch_state.captured(op)
            fits = self._fits(op, index, value, outside)
            # What is changed in every branch is copied before them, where it cannot be written over.
            if fits or changed:
                states[position] = (value, fits)
                taken.add(value)
        if states:
            values, own = zip(*states.values(), strict=True)
            branch_state.give(op, values, tuple(states), own)

    def _fits(self, op: Op, index: int, value: Value, outside: Set[Value]) -> bool:
        """Whether the conditional may write over the storage of a value that it captures."""
        if value in self.repeats or not self._dead_after(value, index):
            return False
        roots = self.roots_of(value)
        others = (*op.operands, *(o for o in outside if o is not value))
        return not any(self.roots_of(o) & roots for o in others)

    def _states(self, op: Op) -> list[tuple[Value, int, bool]]:
        """Each state of a conditional, the position of the result that takes it, and whether it gives its storage."""
        if "state" not in op.attrs:
            return []
        return list(zip(op.operands[1:], op.attrs["state"], op.attrs["own"], strict=True))

    def _branches(self, op: Op) -> None:
        states = self._states(op)
        for region in op.regions:
            targets = {position: arg for (_, position, _), arg in zip(states, region.args, strict=True)}
            _Analysis(region, targets, set(region.args)).run()
        for state, position, own in states:
            if own:
                self.written |= self.roots_of(state)
                self._take_storage(state, op.results[position])

    def _take_storage(self, operand: Value, result: Value) -> None:
        """Notes that the result lies in the storage of the operand."""
        self.updated[result] = operand
        roots = self.roots_of(operand)
        if len(roots) == 1:
            (root,) = roots
            self.storage[result] = self.storage.get(root, root)

    def _store(self) -> None:
        block, terminator = self.block, self.block.terminator
        end = len(block.ops) - 1
        made_at: dict[Op | None, int] = {op: index for index, op in enumerate(block.ops)}
        stores: dict[int, list[Op]] = {}
        for position, target in self.destinations.items():
            value = terminator.operands[position]
            (root, *others) = self.roots_of(value)
            if others or root.op not in made_at or root in self.storage or root not in self.writeable:
                continue
            if target in self.storage.values() or target not in self.writeable or not num_elements(value.shape):
                continue
            last_read = self.last_use.get(target, -1)
            if value.op is None or value.op not in made_at or last_read >= end:
                continue
            type_ = (value.shape, value.dtype)
            store = Op("ipu.store", [value], [type_], {"write_over": {0: target}}, (), value.op.location)
            self.storage[store.result] = target
            self.updated[store.result] = target
            self.written.add(target)
            self.roots[store.result] = frozenset((store.result,))
            stores.setdefault(max(last_read, made_at[value.op]), []).append(store)
            results = [*terminator.operands]
            results[position] = store.result
            terminator.set_operands(results)
        if stores:
            block.ops = [new for index, op in enumerate(block.ops) for new in (op, *stores.get(index, ()))]

    def _terminate(self) -> None:
        terminator = self.block.terminator
        written = {
            target for position, target in self.destinations.items() if terminator.operands[position] is not target
        }
        aside = set()
        for position, value in enumerate(terminator.operands):
            target = self.destinations.get(position)
            if target is None or value is target:
                continue
            places = {self.storage.get(r, r) for r in self.roots_of(value)}
            in_its_place = places == {target} and self._is_same_array(value, target)
            if not in_its_place and places & written:
                aside.add(position)
        if aside:
            terminator.attrs["through_copy"] = frozenset(aside)

    def _is_same_array(self, value: Value, target: Value) -> bool:
        """Whether the value is the storage of `target`, with every element in its place.

        Between them are updates in place, and transposes and reshapes of which later ones undo earlier ones.
        """
        views: list[Op] = []  # from the value back to the storage
        while value is not target:
            if value in self.updated:
                value = self.updated[value]
            elif value.op is not None and value.op.name in ("reshape", "transpose"):
                views.append(value.op)
                value = value.op.operands[0]
            else:
                return False
        done: list[Op] = []  # from the storage on, without what was undone
        for view in reversed(views):
            if done and _undoes(view, done[-1]):
                done.pop()
            else:
                done.append(view)
        return not done


def _undoes(later: Op, earlier: Op) -> bool:
    if later.name != earlier.name or later.result.shape != earlier.operands[0].shape:
        return False
    if later.name == "reshape":
        return True
    forth, back = earlier.attrs["permutation"], later.attrs["permutation"]
    return [forth[p] for p in back] == list(range(len(back)))


def _aliases(op: Op) -> tuple[tuple[int, int], ...]:
    call: VertexCall = op.attrs[ATTRIBUTE]
    return call.aliases


def _uses(op: Op) -> set[Value]:
    values = set(op.operands)
    for region in op.regions:
        for inner in region.walk():
            values.update(inner.operands)
    return values
