"""State that is a stack of parts is changed part by part, where what changes it is made part by part.

Where each layer reads its own weights of a stack (`w[i]`), the gradient of the stack is a concatenation, for which the
gradients of all layers wait, and with them the elementwise ops that make the new weights of it. Here each of these ops
becomes one op for each part, which reads slices of state and the part's own gradient, and "concatenate" of the new
parts is the new state. It gets the attribute `STACK`: `schedule.py` then runs a part's ops as soon as its gradient is
there and its old contents were read, and `inplace.py` lets them write over these.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.state.branch_state import BRANCHES
from jax_ipu.compiler.types import Shape

# Parts of fewer bytes do not wait long for each other: ops for each would cost more cycles than one for all.
_SMALL = 1 << 18
STACK = "stack"


class Stack(NamedTuple):
    """Of a concatenation that is the new value of a state: the state, and the slice of it for each operand."""

    state: Value
    parts: tuple[Value, ...]


def run(module: Module, aliases: dict[int, int]) -> None:
    """Changes every block of main.

    Args:
        module: the module, before `schedule`.
        aliases: result -> argument of main whose storage it takes, by position.
    """
    block = module.main.block
    _run_block(block, {j: block.args[i] for j, i in aliases.items()})


def parts_of(stacks: Mapping[Op, Stack]) -> dict[Value, Value]:
    """By slice of a state, the part of a stack in which it lies: the slice of the whole part."""
    found: dict[Value, Value] = {}
    for op, stack in stacks.items():
        dim = op.attrs["dimension"]
        begins = [part.op.attrs["start_indices"][dim] for part in stack.parts if part.op is not None]
        ends = _ends(op)
        for user in stack.state.users:
            if user.name == "slice":
                number = _part_with(user, dim, begins, ends)
                assert number is not None
                found[user.result] = stack.parts[number]
    return found


def stacks_of(block: Block) -> dict[Op, Stack]:
    """The stacks of a block, by concatenation."""
    return {op: op.attrs[STACK] for op in block.ops if STACK in op.attrs}


def _run_block(block: Block, destinations: Mapping[int, Value]) -> None:
    for op in block.ops:
        if op.name in LOOPS:
            body = op.regions[-1]
            _run_block(body, dict(enumerate(body.args)))
        elif op.name in BRANCHES or op.name == "ipu.call":
            for region in op.regions:
                _run_block(region, {})
    if destinations and any(_is_stacked(op) for op in block.ops):
        _Stacks(block, destinations).run()


def _is_stacked(op: Op) -> bool:
    return op.name == "concatenate" and len(op.operands) > 1 and min(map(size_in_bytes, op.operands)) >= _SMALL


def _ends(concatenation: Op) -> list[int]:
    """Where each operand ends in the result."""
    dim = concatenation.attrs["dimension"]
    return list(itertools.accumulate(value.shape[dim] for value in concatenation.operands))


def _part_with(view: Op, dim: int, begins: list[int], ends: list[int]) -> int | None:
    """The part in which all of a slice lies."""
    first, end = view.attrs["start_indices"][dim], view.attrs["limit_indices"][dim]
    bounds = enumerate(zip(begins, ends, strict=True))
    return next((number for number, (low, high) in bounds if low <= first < end <= high), None)


class _Stacks:
    """The changes to one block."""

    def __init__(self, block: Block, destinations: Mapping[int, Value]) -> None:
        self.block = block
        self.destinations = destinations
        self.places = {op: i for i, op in enumerate(block.ops)}
        self.args = frozenset(block.args)
        self.first: list[Op] = []  # new ops at the start of the block
        self.instead: dict[Op, list[Op]] = {}

    def run(self) -> None:
        for op in list(self.block.ops):
            if _is_stacked(op) and op.result.users:
                members = self._members(op)
                states = self._states(op, members)
                if states:
                    _Parts(self, op, self.places[members[0]]).split(members, states)
        if self.instead:
            self.block.ops = [*self.first, *(new for op in self.block.ops for new in self.instead.get(op, [op]))]

    def _members(self, concatenation: Op) -> list[Op]:
        """The ops that depend on the concatenation, in order, if all are elementwise and of its shape; else none."""
        members: dict[Op, None] = {}
        waiting = [concatenation]
        while waiting:
            op = waiting.pop()
            for user in dict.fromkeys(user for result in op.results for user in result.users):
                if user in members or (user is self.block.terminator and op is not concatenation):
                    continue
                is_like = user.name == "ipu.map" and user.results[0].shape == concatenation.result.shape
                if not is_like or user not in self.places or user in self.instead:
                    return []
                members[user] = None
                waiting.append(user)
        return sorted(members, key=self.places.__getitem__)

    def _states(self, concatenation: Op, members: list[Op]) -> dict[Value, Value]:
        """By result, the state that it becomes; none where something else is made, or reads more than a part."""
        states: dict[Value, Value] = {}
        for member in members:
            for result in member.results:
                positions = [i for i, value in enumerate(self.block.results) if value is result]
                if not positions:
                    continue
                state = self.destinations.get(positions[0])
                if len(positions) > 1 or state is None or state in states.values() or state not in member.operands:
                    return {}
                if (state.shape, state.dtype) != (result.shape, result.dtype):
                    return {}
                states[result] = state
        dim, ends = concatenation.attrs["dimension"], _ends(concatenation)
        begins = [0, *ends[:-1]]
        for state in states.values():
            for user in state.users:
                is_slice = user.name == "slice" and user in self.places
                if user not in members and not (is_slice and _part_with(user, dim, begins, ends) is not None):
                    return {}
        return states


class _Parts:
    """The parts of what one concatenation changes, and of all that is read with it."""

    def __init__(self, stacks: _Stacks, concatenation: Op, before: int) -> None:
        self.stacks = stacks
        self.concatenation = concatenation
        self.before = before  # the place of the first op that is split
        self.dim = concatenation.attrs["dimension"]
        self.ends = _ends(concatenation)
        self.bounds = list(zip([0, *self.ends[:-1]], self.ends, strict=True))
        self.known: dict[Value, list[Value]] = {concatenation.result: list(concatenation.operands)}

    def split(self, members: list[Op], states: Mapping[Value, Value]) -> None:
        """Replaces each of the members by ops for the parts."""
        for member in members:
            made: list[Op] = []
            operands = [self._of(o, made) for o in member.operands]
            copies = []
            for number, (begin, end) in enumerate(self.bounds):
                types = [(_with(r.shape, self.dim, end - begin), r.dtype) for r in member.results]
                given = [parts[number] for parts in operands]
                copies.append(Op("ipu.map", given, types, dict(member.attrs), (), member.location))
            made += copies
            for index, result in enumerate(member.results):
                parts = self.known[result] = [copy.results[index] for copy in copies]
                if result in states:
                    stack = Stack(states[result], tuple(self._of(states[result], made)))
                    attrs = {"dimension": self.dim, STACK: stack}
                    types = [(result.shape, result.dtype)]
                    made.append(Op("concatenate", parts, types, attrs, (), member.location))
                    result.replace_with(made[-1].result)
            self.stacks.instead[member] = made
        for member in reversed(members):
            member.drop()
        for value in self.known:
            op = value.op
            if op is not None and op.name == "concatenate" and op in self.stacks.places and not value.users:
                self.stacks.instead[op] = []
                op.drop()

    def _of(self, value: Value, made: list[Op]) -> list[Value]:
        """The parts of an operand; new views go to `made`, but those of arguments to the start of the block."""
        if not value.shape:
            return [value] * len(self.bounds)
        if value not in self.known:
            self.known[value] = self._views(value, made)
        return self.known[value]

    def _views(self, value: Value, made: list[Op]) -> list[Value]:
        op = value.op
        shapes = [_with(value.shape, self.dim, end - begin) for begin, end in self.bounds]
        if op is not None and op.name == "concatenate" and op.attrs["dimension"] == self.dim and _ends(op) == self.ends:
            return list(op.operands)
        if op is not None and op.name == "broadcast_in_dim" and self.dim not in op.attrs["broadcast_dimensions"]:
            views = {
                shape: Op(op.name, op.operands, [(shape, value.dtype)], dict(op.attrs), (), op.location)
                for shape in dict.fromkeys(shapes)
            }
            made += views.values()
            return [views[shape].result for shape in shapes]
        return [self._slice(value, b, shape, made) for b, shape in zip(self.bounds, shapes, strict=True)]

    def _slice(self, value: Value, bounds: tuple[int, int], shape: Shape, made: list[Op]) -> Value:
        attrs = {
            "start_indices": _with((0,) * len(shape), self.dim, bounds[0]),
            "limit_indices": _with(value.shape, self.dim, bounds[1]),
            "strides": (1,) * len(shape),
        }
        for user in value.users:
            # What reads a part for other ops has the mapping that these want.
            same = user.name == "slice" and all(tuple(user.attrs[name]) == wanted for name, wanted in attrs.items())
            if same and self.stacks.places.get(user, self.before) < self.before:
                return user.result
        location = self.concatenation.location if value.op is None else value.op.location
        view = Op("slice", [value], [(shape, value.dtype)], attrs, (), location)
        (self.stacks.first if value in self.stacks.args else made).append(view)
        return view.result


def _with(shape: Shape, dim: int, extent: int) -> Shape:
    return tuple(extent if d == dim else n for d, n in enumerate(shape))
