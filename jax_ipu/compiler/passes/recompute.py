"""Computes cheap values a second time after the memory peak, rather than keep them in memory over it.

A training step keeps the values that its backward pass reads. For a batch normalisation in half precision these are the
operand in float32 and its difference from the mean; both can be computed elementwise from the half-precision operand.
The mask of a relu can be computed from its result, which the next layer keeps anyway.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import COST, is_elementwise, splat_of
from jax_ipu.compiler.ir import VIEWS, Block, Module, Op, Value, outside_operands, size_in_bytes

_MIN_BYTES = 256 * 1024  # over all tiles; for fewer bytes another op is not worth its code
_SMALL = 16  # an operand that is smaller by this factor may be kept instead of the value
_MAX_OPS = 12  # that may be computed again for one value
_MAX_COST = 4  # of an op, in instructions per element: excludes transcendental functions and divisions
_MAX_ROUNDS = 8  # each moves the memory peak


def run(module: Module) -> None:
    """Relieves the memory peak of each block of main, in several rounds."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    for op in block.ops:
        for region in op.regions if op.name in ("while", "if", "case", "ipu.repeat") else ():
            _run_block(region)
    _compare_results(block)
    for _ in range(_MAX_ROUNDS):
        if not _Peak(block).relieve():
            return


def _compare_results(block: Block) -> None:
    """Makes `maximum(x, c) > c` of `x > c` behind the maximum: equal for all x, and needs no x after the maximum."""
    maxima: dict[tuple[Value, bytes], Value] = {}
    for op in block.ops:
        if op.name not in ("maximum", "compare"):
            continue
        x, bound = op.operands
        literal = splat_of(bound)
        if literal is None:
            continue
        key = x, bytes(literal.data)
        if op.name == "maximum":
            maxima.setdefault(key, op.result)
        elif op.attrs["comparison_direction"] == "GT" and not _is_total(op) and key in maxima:
            op.set_operands([maxima[key], bound])


def _is_total(compare: Op) -> bool:
    return bool(compare.attrs.get("compare_type") == "TOTALORDER")


class _Peak:
    """The position in a block where its values take the most memory, and the values that exist there."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.positions = {op: i for i, op in enumerate(block.ops)}
        self.last: dict[Value, int] = {}  # value -> the position of its last use, also through views
        root: dict[Value, Value] = {}
        for i, op in enumerate(block.ops):
            for operand in outside_operands(op):
                self.last[root.get(operand, operand)] = i
            if op.name in VIEWS and len(op.operands) == 1:
                root[op.result] = root.get(op.operands[0], op.operands[0])
        changes = [0] * (len(block.ops) + 1)
        for value, last in self.last.items():
            first = self.positions.get(value.op) if value.op is not None else None
            if first is not None and splat_of(value) is None:
                changes[first] += size_in_bytes(value)
                changes[last] -= size_in_bytes(value)
        self.position, most, total = 0, 0, 0
        for i, change in enumerate(changes):
            total += change
            if total > most:
                self.position, most = i, total
        self.kept = {v for v, last in self.last.items() if last > self.position and self._before(v)}

    def _before(self, value: Value) -> bool:
        return value.op is None or self.positions.get(value.op, -1) <= self.position

    def relieve(self) -> bool:
        """Computes values again after the peak; returns whether there were any."""
        candidates = [
            v for v in self.kept if v.op in self.positions and size_in_bytes(v) >= _MIN_BYTES and splat_of(v) is None
        ]
        candidates.sort(key=lambda v: self.positions[v.op] if v.op is not None else 0)
        copies: dict[int, list[Op]] = {}
        for value in candidates:
            late = [u for u in value.users if self.positions.get(u, len(self.block.ops)) > self.position]
            chain = self._chain(value)
            if chain is None or any(u not in self.positions or u.name == "return" for u in late):
                continue
            ops, leaves = chain
            fresh = leaves - self.kept
            if not late or sum(map(size_in_bytes, fresh)) * 4 > size_in_bytes(value) * 3:
                continue
            self.kept |= fresh
            self.kept.discard(value)
            made = _copy(ops)
            for user in set(late):
                user.set_operands([made.get(o, o) if o is value else o for o in user.operands])
            first = min(self.positions[u] for u in late)
            copies.setdefault(first, []).extend(v.op for v in made.values() if v.op is not None)
        if not copies:
            return False
        self.block.ops = [o for i, op in enumerate(self.block.ops) for o in (*copies.get(i, ()), op)]
        return True

    def _chain(self, value: Value) -> tuple[list[Op], set[Value]] | None:
        """The ops that compute `value` from values that are kept anyway or small, in order, and those values."""
        ops: dict[Op, None] = {}
        leaves: set[Value] = set()
        limit = size_in_bytes(value) / _SMALL
        pending = [value]
        while pending:
            current = pending.pop()
            op = current.op
            if current is not value and (current in self.kept or op is None or size_in_bytes(current) <= limit):
                if splat_of(current) is None:
                    leaves.add(current)
                continue
            if op not in self.positions or splat_of(current) is not None:
                continue
            assert op is not None
            if not _is_cheap(op):
                if current is value:
                    return None
                leaves.add(current)
                continue
            ops[op] = None
            if len(ops) > _MAX_OPS:
                return None
            pending.extend(op.operands)
        return sorted(ops, key=self.positions.__getitem__), leaves


def _is_cheap(op: Op) -> bool:
    return op.name == "broadcast_in_dim" or (is_elementwise(op) and COST.get(op.name, 1) <= _MAX_COST)


def _copy(ops: list[Op]) -> dict[Value, Value]:
    made: dict[Value, Value] = {}
    for op in ops:
        operands = [made.get(o, o) for o in op.operands]
        types = [(r.shape, r.dtype) for r in op.results]
        # Fusion must not move the copy back to where its operands were computed.
        made[op.result] = Op(op.name, operands, types, {**op.attrs, "recomputed": True}, (), op.location).result
    return made
