"""Values that belong together: in groups, and what loops and conditionals carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jax_ipu.compiler.ir import LOOPS, Op, Value


class Groups:
    """Values in groups (a union-find); a value that was never joined is its own group."""

    def __init__(self) -> None:
        self._parents: dict[Value, Value] = {}

    def root(self, value: Value) -> Value:
        """The value that stands for the group."""
        root = value
        while (parent := self._parents.get(root, root)) is not root:
            root = parent
        while (parent := self._parents.get(value, value)) is not root:
            self._parents[value], value = root, parent
        return root

    def join(self, values: Iterable[Value]) -> None:
        """Makes one group of the groups of these values."""
        first: Value | None = None
        for value in values:
            root = self.root(value)
            if first is None:
                first = root
            elif root is not first:
                self._parents[root] = first


def carried(op: Op) -> Iterator[tuple[Value, ...]]:
    """The values of each place that a loop carries, or that a conditional takes as state or makes."""
    if op.name in LOOPS:
        ends = op.regions[-1].results
        yield from zip(op.operands, op.results, *(r.args for r in op.regions), ends, strict=True)
    elif op.name in ("if", "case"):
        for i, position in enumerate(op.attrs.get("state", ())):
            yield op.operands[1 + i], op.results[position], *(r.args[i] for r in op.regions)
        yield from zip(op.results, *(r.results for r in op.regions), strict=True)
