"""Order of execution: an op that frees more memory than it takes runs as soon as its operands exist.

JAX puts all parameter updates at the end, with every gradient alive until then. Here an update follows its gradient.
"""

from __future__ import annotations

from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.inplace import VIEWS
from jax_ipu.compiler.types import SIZE, num_elements


def run(module: Module, aliases: dict[int, int]) -> None:
    """`aliases`: result -> argument of main whose storage it takes."""
    args = module.main.block.args
    _run_block(module.main.block, {j: args[i] for j, i in aliases.items()})


def _run_block(block: Block, destinations: dict[int, Value]) -> None:
    for op in block.ops:
        if op.name in ("while", "ipu.repeat"):
            body = op.regions[-1]
            _run_block(body, dict(enumerate(body.args)))
        elif op.name in ("if", "case", "ipu.call"):
            for region in op.regions:
                _run_block(region, {})
    if len(block.ops) > 3:
        block.ops = _Schedule(block, destinations).order()


class _Schedule:
    def __init__(self, block: Block, destinations: dict[int, Value]) -> None:
        self.block = block
        self.waits: dict[Op, int] = {}  # operands that do not exist yet
        self.users: dict[Value, list[Op]] = {}
        self.uses_left: dict[Value, int] = {}  # of values with storage, also through views
        self.root: dict[Value, Value] = {}
        self.free = set(block.args)  # arguments: their storage exists anyway
        self.target = {block.results[j]: arg for j, arg in destinations.items()}
        self._count()

    def _count(self) -> None:
        for op in self.block.ops:
            used: dict[Value, None] = dict.fromkeys(op.operands)
            for region in op.regions:
                for inner in region.walk():
                    used.update(dict.fromkeys(inner.operands))
            for result in op.results:
                self.users[result] = []
                self.root[result] = (
                    self.root.get(op.operands[0], op.operands[0])
                    if op.name in VIEWS and len(op.operands) == 1
                    else result
                )
            waits = 0
            for value in used:
                users = self.users.get(value)
                if users is not None:
                    users.append(op)
                    waits += 1
                root = self.root.get(value, value)
                self.uses_left[root] = self.uses_left.get(root, 0) + 1
            self.waits[op] = waits

    def order(self) -> list[Op]:
        done: set[Op] = set()
        order: list[Op] = []
        terminator = self.block.terminator
        for op in self.block.ops:
            pending = [op] if op not in done else []
            while pending:
                current = pending.pop()
                if current in done:
                    continue
                done.add(current)
                order.append(current)
                self._use_operands(current)
                for result in current.results:
                    for user in self.users[result]:
                        self.waits[user] -= 1
                        if self.waits[user] == 0 and user is not terminator and self._gain(user) > 0:
                            pending.append(user)
        return order

    def _use_operands(self, op: Op) -> None:
        for value in self._used(op):
            root = self.root.get(value, value)
            self.uses_left[root] -= 1

    def _used(self, op: Op) -> dict[Value, None]:
        used = dict.fromkeys(op.operands)
        for region in op.regions:
            for inner in region.walk():
                used.update(dict.fromkeys(inner.operands))
        return used

    def _gain(self, op: Op) -> int:
        """Bytes that are free after `op` and were not before."""
        if op.name in VIEWS or op.name == "constant" or op.regions or op.attrs.get("has_side_effect"):
            return 0  # in its place
        freed = 0
        used = self._used(op)
        touched: dict[Value, int] = {}
        for value in used:
            root = self.root.get(value, value)
            touched[root] = touched.get(root, 0) + 1
        for root, uses in touched.items():
            if self.uses_left[root] == uses and root not in self.free and root in self.root:
                freed += _bytes(root)
        for result in op.results:
            target = self.target.get(result)
            # Written over its argument when nothing else reads that any more.
            if target is not None and self.uses_left.get(target, 0) == touched.get(target, 0):
                continue
            freed -= _bytes(result)
        return freed


def _bytes(value: Value) -> int:
    return num_elements(value.shape) * SIZE.get(value.dtype, 0)
