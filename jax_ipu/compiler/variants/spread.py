"""Follows a dimension of an argument through a program, and gives it another size everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.types import Shape, num_elements
from jax_ipu.compiler.variants.links import Dimension, groups_of


class Factor(NamedTuple):
    """A dimension of ``outer * size * inner`` elements, where `size` is that of the dimension that is followed."""

    outer: int
    inner: int


class Fixed(Exception):
    """The size of the dimension cannot change: an op depends on it, or the program has no single form for it."""


# Value -> the dimensions of it that are, or contain, the dimension that is followed.
Marks = dict[Value, dict[int, Factor]]


class Spread:
    """Finds the dimensions that are one with a dimension of an argument.

    For a program without calls. What one search finds fixed is fixed for all others.
    """

    def __init__(self, module: Module) -> None:
        block = module.main.block
        # A donated argument <-> the result that replaces it.
        self._replaces: dict[Value, Value] = {}
        for argument, attrs in zip(block.args, module.main.arg_attrs, strict=True):
            if (output := attrs.get("tf.aliasing_output")) is not None:
                result = block.results[output]
                self._replaces |= {argument: result, result: argument}
        # The op that an argument of a block, or the end of it, belongs to.
        self._owners: dict[Value | Op, Op] = {}
        for op in module.main.block.walk():
            for region in op.regions:
                self._owners.update(dict.fromkeys(region.args, op))
                self._owners[region.terminator] = op
        self._groups: dict[Op, dict[Dimension, list[Dimension]]] = {}
        self._fixed: set[Dimension] = set()

    def of(self, start: Value, dimension: int) -> Marks:
        """Every dimension that is one with `dimension` of `start`.

        Raises:
            Fixed: the size cannot change.
        """
        size = start.shape[dimension]
        marks: Marks = {start: {dimension: Factor(1, 1)}}
        pending: list[Dimension] = [(start, dimension)]
        try:
            while pending:
                at = pending.pop()
                if at in self._fixed:
                    raise Fixed
                for other, factor in self._neighbours(at, marks[at[0]][at[1]], size):
                    value, d = other
                    found = marks.setdefault(value, {})
                    if d not in found:
                        found[d] = factor
                        pending.append(other)
                    elif found[d] != factor:
                        raise Fixed
        except Fixed:
            self._fixed.update((value, d) for value, found in marks.items() for d in found)
            raise
        return marks

    def _neighbours(self, at: Dimension, factor: Factor, size: int) -> Iterator[tuple[Dimension, Factor]]:
        value = at[0]
        own = value.op or self._owners.get(value)
        users = [self._owners.get(user, user) if user.name == "return" else user for user in value.users]
        for op in dict.fromkeys([*([own] if own else []), *users]):
            if op.name == "reshape":
                yield _through_reshape(op, at, factor, size)
                continue
            if op.name == "return":
                continue  # of main
            members = self._members(op).get(at)
            if members is None:
                raise Fixed
            for other in members:
                yield other, factor
        if value in self._replaces:
            yield (self._replaces[value], at[1]), factor

    def _members(self, op: Op) -> dict[Dimension, list[Dimension]]:
        table = self._groups.get(op)
        if table is None:
            table = self._groups[op] = {}
            for group in groups_of(op):
                for member in group:
                    table.setdefault(member, []).extend(group)
        return table


def _through_reshape(op: Op, at: Dimension, factor: Factor, size: int) -> tuple[Dimension, Factor]:
    """The dimension on the other side of a reshape that contains the one that is followed.

    Raises Fixed: the reshape cuts it.
    """
    value, d = at
    other = op.result if value is op.operands[0] else op.operands[0]
    outer = num_elements(value.shape[:d]) * factor.outer
    inner = factor.inner * num_elements(value.shape[d + 1 :])
    for place, n in enumerate(other.shape):
        before, after = num_elements(other.shape[:place]), num_elements(other.shape[place + 1 :])
        if n >= size and before and after and outer % before == 0 and inner % after == 0:
            return (other, place), Factor(outer // before, inner // after)
    raise Fixed


def resize(marks: Marks, size: int, other: int) -> None:
    """Gives the dimensions in `marks` the sizes for `other` in place of `size`."""

    def resized(shape: Shape, of: Value) -> Shape:
        """`shape` with the sizes of the marked dimensions of `of`."""
        found = marks[of]
        return tuple(f.outer * other * f.inner if (f := found.get(d)) else n for d, n in enumerate(shape))

    for value in marks:
        value.shape = resized(value.shape, value)
    for op in _ops_at(marks):
        attrs = op.attrs
        if op.name == "constant":
            attrs["value"] = attrs["value"].reshaped(op.result.shape)
        elif op.name == "slice" and op.result in marks:
            attrs["limit_indices"] = resized(attrs["limit_indices"], op.result)
        elif op.name == "dynamic_slice" and op.result in marks:
            attrs["slice_sizes"] = resized(attrs["slice_sizes"], op.result)
        elif op.name == "gather" and (table := op.operands[0]) in marks:
            # Where the slice has the size of the table; other slices of it have one element.
            whole = tuple(
                f.outer * size * f.inner if (f := marks[table].get(d)) else 0 for d in range(len(table.shape))
            )
            attrs["slice_sizes"] = tuple(
                new if old == n else old for old, new, n in zip(attrs["slice_sizes"], table.shape, whole, strict=True)
            )


def _ops_at(values: Iterable[Value]) -> Iterable[Op]:
    ops: dict[Op, None] = {}
    for value in values:
        if value.op is not None:
            ops[value.op] = None
        ops.update(dict.fromkeys(value.users))
    return ops
