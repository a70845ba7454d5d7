"""Orders the ops of a block: one that frees more memory than it needs runs as soon as its operands exist.

JAX puts all parameter updates at the end, which keeps every gradient alive until then. Here an update follows its
gradient and the last reader of the old parameter. An op with a large result and small operands runs just before the
first reader of the result. Example: of the two gradients of tied weights, one could run at the start of the backward
pass, but is needed only at the end of it. An update that reads nothing but state, such as that of a loop counter, waits
for the last reader of the old value, so that it is in place.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.state.stacks import parts_of, stacks_of

# Ops that wait for a value to be freed are looked at again when it has at most this many uses left.
_FEW_USES = 2
# Smaller results (bytes) do not wait for their reader.
_LARGE = 1 << 20
# Values of at most this many bytes are made early, by these ops.
_SMALL = 64
_EARLY = frozenset((*VIEWS, "ipu.host_read", "ipu.map"))
_MAY_WAIT = frozenset(("dot_general", "convolution", "ipu.map", "ipu.threefry2x32"))
_WRITERS = frozenset(("dynamic_update_slice", "ipu.update_slice", "scatter", "while", "ipu.repeat", "ipu.tile_map"))


def run(module: Module, aliases: dict[int, int], host_results: Sequence[bool] = ()) -> None:
    """Orders every block of main.

    Args:
        module: the module.
        aliases: result -> argument of main whose storage it takes, by position.
        host_results: whether each result is in host memory, so that it leaves the IPU where it is made.
    """
    block = module.main.block
    leaving = {block.results[j] for j, leaves in enumerate(host_results) if leaves}
    _run_block(block, {j: block.args[i] for j, i in aliases.items()}, leaving)


def _run_block(block: Block, destinations: dict[int, Value], leaving: Set[Value] = frozenset()) -> None:
    for op in block.ops:
        if op.name in LOOPS:
            body = op.regions[-1]
            _run_block(body, dict(enumerate(body.args)))
        elif op.name in ("if", "case", "ipu.call"):
            for region in op.regions:
                _run_block(region, {})
    if len(block.ops) > 3:
        block.ops = _Schedule(block, destinations, leaving).order()


def _is_whole_argument(read: Op) -> bool:
    return len(read.operands) == 1 and read.operands[0].op is None


class _Schedule:
    def __init__(self, block: Block, destinations: dict[int, Value], leaving: Set[Value]) -> None:
        self.block = block
        self.leaving = leaving
        self.waits: dict[Op, int] = {}  # the number of operands that do not exist yet
        self.users: dict[Value, list[Op]] = {}
        self.uses_left: dict[Value, int] = {}  # of each value with storage, also through views
        self.root: dict[Value, Value] = {}
        self.free = set(block.args)  # arguments, whose storage exists all the time
        self.target = {block.results[j]: arg for j, arg in destinations.items()}
        # Slice of a state that is changed part by part -> its part, which takes the part of the result.
        stacks = stacks_of(block)
        self.parts = parts_of(stacks)
        self.free.update(self.parts.values())
        for op, stack in stacks.items():
            self.target.update(zip(op.operands, stack.parts, strict=True))
        # Root -> ops that could run, and free memory once other ops have used the root.
        self.delayed: dict[Value, list[Op]] = {}
        # Roots that an op may write over: readers of the old contents must not wait.
        self.overwritten: set[Value] = set(self.target.values())
        # Reads of whole arguments in host memory: they wait for the first reader, which does not wait for them.
        self.reads = {op for op in block.ops if op.name == "ipu.host_read" and _is_whole_argument(op)}
        # Ops that wait for the first reader of their results.
        self.postponed = set(self.reads)
        self._count()

    def _count(self) -> None:
        for op in self.block.ops:
            used: dict[Value, None] = dict.fromkeys(op.operands)
            for region in op.regions:
                for inner in region.walk():
                    used.update(dict.fromkeys(inner.operands))
            for result in op.results:
                self.users[result] = []
                if result in self.parts:
                    self.root[result] = self.parts[result]
                elif op.name in VIEWS and len(op.operands) == 1:
                    self.root[result] = self.root.get(op.operands[0], op.operands[0])
                else:
                    self.root[result] = result
            waits = 0
            for value in used:
                users = self.users.get(value)
                if users is not None:
                    users.append(op)
                    waits += value.op not in self.reads
                root = self.root.get(value, value)
                self.uses_left[root] = self.uses_left.get(root, 0) + 1
            self.waits[op] = waits
            if op.name in _WRITERS:
                self.overwritten.update(self.root.get(value, value) for value in used)

    def order(self) -> list[Op]:
        done: set[Op] = set()
        order: list[Op] = []
        terminator = self.block.terminator
        early = self._early()
        for op in (*early, *self.block.ops):
            if op in self.postponed and op not in early:
                continue
            if op not in done and (self._may_wait(op) or self._must_wait(op)):
                self.postponed.add(op)
                continue
            pending = [op]
            while pending:
                current = pending[-1]
                missing = [v.op for v in self._used(current) if v.op in self.postponed]
                if current not in done and missing:
                    pending += missing
                    continue
                pending.pop()
                if current in done:
                    continue
                done.add(current)
                self.postponed.discard(current)
                order.append(current)
                ready = self._use_operands(current)
                for result in current.results if current not in self.reads else ():
                    for user in self.users[result]:
                        self.waits[user] -= 1
                        if self.waits[user] == 0 and user is not terminator:
                            ready.append(user)
                for user in ready:
                    if user not in done and self._gain(user) > 0:
                        pending.append(user)
                    elif user not in done:
                        self._delay(user)
        return order

    def _early(self) -> dict[Op, None]:
        """Small values that are made of arguments alone, such as the step of an optimiser: updates wait for them."""
        early: dict[Op, None] = {}
        for op in self.block.ops:
            if op.name not in _EARLY or max(map(size_in_bytes, op.operands), default=0) > _SMALL:
                continue
            if op.name not in VIEWS and (max(map(size_in_bytes, op.results)) > _SMALL or self._must_wait(op)):
                continue
            producers = [value.op for value in op.operands]
            if all(p is None or p in early or p.name == "constant" or p not in self.waits for p in producers):
                early[op] = None
        return early

    def _may_wait(self, op: Op) -> bool:
        if op.name in VIEWS:
            return any(operand.op in self.postponed for operand in op.operands)
        if (
            op.name not in _MAY_WAIT
            or not op.results
            or max(map(size_in_bytes, op.results)) < _LARGE
            or self._gain(op) >= 0
        ):
            return False
        if any(self.root.get(value, value) in self.overwritten for value in op.operands):
            return False
        return bool(self.users[op.results[0]]) and not self._completes_update(op)

    def _must_wait(self, op: Op) -> bool:
        """Whether `op` only updates state from state, and other ops still read the old value.

        It runs just before the terminator; two that read each other's old values run in program order.
        """
        if op.name != "ipu.map" or not all(result in self.target for result in op.results):
            return False
        if any(user is not self.block.terminator for result in op.results for user in self.users[result]):
            return False
        used = self._used(op)
        if not used.keys() <= self.free:
            return False
        return any(
            self.uses_left.get(target, 0) > (1 if target in used else 0)
            for target in (self.target[result] for result in op.results)
        )

    def _completes_update(self, op: Op) -> bool:
        """Whether `op` is all that the update of an argument still waits for."""
        pending = [user for result in op.results for user in self.users[result]]
        while pending:
            user = pending.pop()
            if self.waits[user] == 1:
                if any(result in self.target for result in user.results):
                    return True
                if user.name in VIEWS:
                    pending += [after for result in user.results for after in self.users[result]]
        return False

    def _use_operands(self, op: Op) -> list[Op]:
        """Counts the uses by `op`; returns the delayed ops that may free memory now."""
        ready: list[Op] = []
        for value in self._used(op):
            root = self.root.get(value, value)
            self.uses_left[root] -= 1
            if self.uses_left[root] <= _FEW_USES:
                ready += self.delayed.pop(root, ())
        return ready

    def _delay(self, op: Op) -> None:
        roots = {self.root.get(value, value) for value in self._used(op)}
        roots.update(self.target[result] for result in op.results if result in self.target)
        for root in roots:
            if self.uses_left.get(root, 0) > 1:
                self.delayed.setdefault(root, []).append(op)

    def _used(self, op: Op) -> dict[Value, None]:
        used = dict.fromkeys(op.operands)
        for region in op.regions:
            for inner in region.walk():
                used.update(dict.fromkeys(inner.operands))
        return used

    def _gain(self, op: Op) -> int:
        """The bytes that `op` frees, less those that it needs for its results."""
        if op.name in VIEWS or op.name == "constant" or op.regions or op.attrs.get("has_side_effect"):
            return 0  # stays in program order
        freed = 0
        used = self._used(op)
        touched: dict[Value, int] = {}
        for value in used:
            root = self.root.get(value, value)
            touched[root] = touched.get(root, 0) + 1
        for root, uses in touched.items():
            if (
                self.uses_left[root] == uses
                and root not in self.free
                and root in self.root
                and root.op not in self.reads
            ):
                freed += size_in_bytes(root)
        for result in op.results:
            if result in self.leaving and self.users[result] == [self.block.terminator]:
                continue
            target = self.target.get(result)
            # The result takes the storage of its argument, which no other op reads any more.
            if target is not None and self.uses_left.get(target, 0) == touched.get(target, 0):
                continue
            freed -= size_in_bytes(result)
        return freed
