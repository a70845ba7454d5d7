"""Parts of a small concatenation that are the same expression of other values become one expression of all of them.

Python loops such as `jnp.stack([jnp.sin(x * i) for i in range(32)])` make an op for every part, and an IPU a superstep.
Constants are joined to one, slices that follow each other to a larger one, and other values by a concatenation. The
expressions have elementwise ops, reductions, views and concatenations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jax_ipu.compiler.expression import is_elementwise, single_op
from jax_ipu.compiler.ir import Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.arithmetic.joined import SMALL
from jax_ipu.compiler.passes.arithmetic.simplify_views import literal_of
from jax_ipu.compiler.passes.cse import structure_key
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import Literal, Shape, num_elements

_FEWEST = 4
# Of longer chains of ops, the rest is not looked at.
_DEEPEST = 64


# What all parts need together, as reductions read more than they make.
_BYTES_PER_TILE = 1024


def run(module: Module) -> None:
    """Rewrites every block of main."""
    most_bytes = _BYTES_PER_TILE * module.num_tiles if module.num_tiles else SMALL
    rewrite(module.main.block, {"concatenate": lambda op, rewriter: _joined(op, rewriter, most_bytes)})


def _joined(op: Op, rewriter: Rewriter, most_bytes: int) -> Value | None:
    if size_in_bytes(op.result) > SMALL or len(op.operands) < _FEWEST or num_elements(op.result.shape) == 0:
        return None
    dim = op.attrs["dimension"]
    structures = _Structures(op)
    keys = [structures.key(value) for value in op.operands]
    parts: list[Value] = []
    first = 0
    while first < len(keys):
        end = first + 1
        while end < len(keys) and keys[end] == keys[first]:
            end += 1
        run = op.operands[first:end]
        stack = _Stacks(structures).of(run, dim) if len(run) >= _FEWEST and structures.is_inner(run[0]) else None
        if stack is None or stack.joins() + 1 >= len(run) or stack.most_bytes() > most_bytes:
            parts += run
        else:
            shape = run[0].shape
            merged = (*shape[:dim], len(run) * shape[dim], *shape[dim + 1 :])
            parts.append(rewriter.reshape(stack.build(rewriter, {}), merged))
            rewriter.location = op.location
        first = end
    if len(parts) == len(op.operands):
        return None
    if len(parts) == 1:
        return parts[0]
    return rewriter.emit("concatenate", parts, op.result.shape, op.result.dtype, {"dimension": dim})


class _Structures:
    """Which values only the parts of a concatenation use, and keys that are equal for values computed alike."""

    def __init__(self, op: Op) -> None:
        self._inner: set[Op] = set()
        self._keys: dict[Value, int] = {}
        self._numbers: dict[Any, int] = {}
        uses: dict[Op, int] = {}
        waiting = [(op, 0)]
        while waiting:
            user, depth = waiting.pop()
            for value in user.operands:
                maker = value.op
                if maker is None or not _is_joined(maker):
                    continue
                uses[maker] = uses.get(maker, 0) + 1
                if uses[maker] == len(value.users) and depth < _DEEPEST:
                    self._inner.add(maker)
                    waiting.append((maker, depth + 1))

    def is_inner(self, value: Value) -> bool:
        """Whether the value is computed and nothing else uses it."""
        return value.op in self._inner

    def key(self, value: Value) -> int:
        if value in self._keys:
            return self._keys[value]
        op = value.op
        key: Any = (value.shape, value.dtype)
        if op is not None and op.name == "constant":
            key = ("constant", *key)
        elif op is not None and op.name == "slice":
            key = ("slice", id(op.operands[0]), op.attrs["strides"], *key)
        elif op in self._inner and op is not None:
            key = (structure_key(op), *(self.key(operand) for operand in op.operands))
        self._keys[value] = self._numbers.setdefault(key, len(self._numbers))
        return self._keys[value]


def _is_joined(op: Op) -> bool:
    """Whether several ops like this can be one."""
    return is_elementwise(op) or _is_view(op) or op.name == "concatenate" or _is_reduction(op)


def _is_reduction(op: Op) -> bool:
    """Whether the op reduces one operand by an op on two scalars, from a constant on."""
    if op.name != "reduce" or len(op.operands) != 2 or set(op.attrs) != {"dimensions"}:
        return False
    literal = literal_of(op.operands[1])
    return literal is not None and literal.splat and single_op(op.regions[0]) is not None


def _is_view(op: Op) -> bool:
    if op.name == "broadcast_in_dim":
        dims = op.attrs["broadcast_dimensions"]
        return list(dims) == sorted(dims)
    return op.name == "reshape"


@dataclass(frozen=True, eq=False)
class _Stack:
    """Values of one shape, stacked along a new dimension at `position`."""

    values: tuple[Value, ...]
    position: int
    # How it is made: "same", "constants", "slices", "op", "reduction" and "view" of the sources, or "join".
    way: str
    sources: tuple[_Stack, ...] = ()

    @property
    def shape(self) -> Shape:
        shape = self.values[0].shape
        return (*shape[: self.position], len(self.values), *shape[self.position :])

    def joins(self) -> int:
        """How many stacks are copied together."""
        return sum(stack.way == "join" for stack in self._all())

    def most_bytes(self) -> int:
        """The size of the largest stack that is computed or copied."""
        computed = [stack for stack in self._all() if stack.way in ("op", "reduction", "join")]
        return max((size_in_bytes(stack.values[0]) * len(stack.values) for stack in computed), default=0)

    def _all(self) -> list[_Stack]:
        found: dict[int, _Stack] = {id(self): self}
        waiting = [self]
        while waiting:
            for source in waiting.pop().sources:
                if id(source) not in found:
                    found[id(source)] = source
                    waiting.append(source)
        return list(found.values())

    def build(self, rewriter: Rewriter, built: dict[int, Value]) -> Value:
        if id(self) not in built:
            built[id(self)] = self._build(rewriter, built)
        return built[id(self)]

    def _build(self, rewriter: Rewriter, built: dict[int, Value]) -> Value:
        first, shape, position = self.values[0], self.shape, self.position
        if self.way == "same":
            return rewriter.broadcast(first, shape, tuple(d for d in range(len(shape)) if d != position))
        if self.way == "constants":
            return self._constant(rewriter)
        if self.way == "slices":
            return self._slice(rewriter)
        op = first.op
        if self.way == "join" or op is None:
            units = (*first.shape[:position], 1, *first.shape[position:])
            parts = [rewriter.reshape(value, units) for value in self.values]
            return rewriter.emit("concatenate", parts, shape, first.dtype, {"dimension": position})
        sources = [source.build(rewriter, built) for source in self.sources]
        # It is where the user wrote the expression, not the list.
        rewriter.location = op.location
        if self.way == "op":
            attrs = dict(op.attrs)
            if op.name == "concatenate":
                attrs["dimension"] += position <= attrs["dimension"]
            return rewriter.emit(op.name, sources, shape, first.dtype, attrs)
        if self.way == "reduction":
            return self._reduce(sources[0], rewriter)
        if op.name == "reshape":
            return rewriter.reshape(sources[0], shape)
        dims = [d + (d >= position) for d in op.attrs["broadcast_dimensions"]]
        dims.insert(self.sources[0].position, position)
        return rewriter.broadcast(sources[0], shape, tuple(dims))

    def _reduce(self, source: Value, rewriter: Rewriter) -> Value:
        op, added = self.values[0].op, self.sources[0].position
        assert op is not None
        name, literal = single_op(op.regions[0]), literal_of(op.operands[1])
        assert name is not None and literal is not None
        dims = [d + (d >= added) for d in op.attrs["dimensions"]]
        return rewriter.reduce(name, source, dims, literal.scalar(), op.result.dtype)

    def _constant(self, rewriter: Rewriter) -> Value:
        literals = [value.op.attrs["value"] for value in self.values if value.op is not None]
        if all(literal.splat for literal in literals):
            column = rewriter.constant(
                Literal.from_numpy(literals[0].dtype, np.array([literal.element() for literal in literals]))
            )
            return rewriter.broadcast(column, self.shape, (self.position,))
        stacked = np.stack([literal.numpy() for literal in literals], self.position)
        return rewriter.constant(Literal.from_numpy(literals[0].dtype, stacked))

    def _slice(self, rewriter: Rewriter) -> Value:
        """One slice from the first to the last, whose dimension is divided and moved to its place."""
        first, dim = self.values[0], _following(self.values)
        assert first.op is not None and dim is not None
        begins, ends = list(first.op.attrs["start_indices"]), list(first.op.attrs["limit_indices"])
        ends[dim] = begins[dim] + len(self.values) * first.shape[dim]
        whole = rewriter.slice(first.op.operands[0], tuple(begins), tuple(ends))
        divided = (*first.shape[:dim], len(self.values), *first.shape[dim:])
        low, high = sorted((dim, self.position))
        if math.prod(first.shape[low:high]) == 1:
            return rewriter.reshape(whole, self.shape)
        order = [d for d in range(len(divided)) if d != dim]
        order.insert(self.position, dim)
        return rewriter.transpose(rewriter.reshape(whole, divided), tuple(order))


def _following(values: Sequence[Value]) -> int | None:
    """The dimension along which slices of one value, without strides, follow each other; None where they do not."""
    ops = [value.op for value in values if value.op is not None and value.op.name == "slice"]
    if len(ops) < len(values) or any(op.operands[0] is not ops[0].operands[0] for op in ops):
        return None
    if any(stride != 1 for op in ops for stride in op.attrs["strides"]):
        return None
    begins = np.array([op.attrs["start_indices"] for op in ops])
    moves = np.diff(begins, axis=0)
    dims = np.flatnonzero(moves.any(axis=0))
    if len(dims) != 1:
        return None
    dim = int(dims[0])
    return dim if (moves[:, dim] == values[0].shape[dim]).all() else None


class _Stacks:
    """Makes stacks of values that are computed alike; equal ones are one."""

    def __init__(self, structures: _Structures) -> None:
        self._structures = structures
        self._known: dict[tuple[int, ...], _Stack] = {}

    def of(self, values: Sequence[Value], position: int) -> _Stack:
        key = (position, *map(id, values))
        if key not in self._known:
            way, sources = self._sources(values, position)
            self._known[key] = _Stack(tuple(values), position, way, sources)
        return self._known[key]

    def _sources(self, values: Sequence[Value], position: int) -> tuple[str, tuple[_Stack, ...]]:
        first = values[0]
        if all(value is first for value in values):
            return "same", ()
        if all(value.op is not None and value.op.name == "constant" for value in values):
            return "constants", ()
        if _following(values) is not None:
            return "slices", ()
        op = first.op
        alike = len({self._structures.key(value) for value in values}) == 1
        if op is None or not alike or not all(self._structures.is_inner(value) for value in values):
            return "join", ()
        operands = list(zip(*(value.op.operands for value in values if value.op is not None), strict=True))
        if op.name == "reduce":
            kept = [d for d in range(len(op.operands[0].shape)) if d not in op.attrs["dimensions"]]
            added = kept[position] if position < len(kept) else len(op.operands[0].shape)
            return "reduction", (self.of(operands[0], added),)
        if not _is_view(op):
            return "op", tuple(self.of(column, position) for column in operands)
        before = _position_before(op, position)
        return ("join", ()) if before is None else ("view", (self.of(operands[0], before),))


def _position_before(op: Op, position: int) -> int | None:
    """Where a dimension before dimension `position` of a view's result is among the dimensions of its operand."""
    source = op.operands[0].shape
    if op.name == "broadcast_in_dim":
        dims: Shape = op.attrs["broadcast_dimensions"]
        return sum(d < position for d in dims)
    before = math.prod(op.result.shape[:position])
    return next((d for d in range(len(source) + 1) if math.prod(source[:d]) == before), None)
