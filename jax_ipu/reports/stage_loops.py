"""Loops over the trips of a pipeline, in a program whose IPUs hand values on to the next one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import VIEWS, Module, Op, Value, outside_operands
from jax_ipu.compiler.passes.loops import trip_count
from jax_ipu.compiler.replica_groups import sources_of

# The number that a scalar is on each IPU.
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class StageLoop:
    """A loop in each trip of which every stage computes a micro-batch and hands it to the next stage.

    Stage `s` has micro-batch `m` in trip `s + m`. In trips before and after, it computes what nobody uses.

    Attributes:
        trips: of the loop.
        chains: the IPUs of each pipeline in the order of its stages; several where the program is also data parallel.
    """

    trips: int
    chains: tuple[tuple[int, ...], ...]

    @property
    def stages(self) -> int:
        return len(self.chains[0])

    @property
    def batches(self) -> int:
        return self.trips - self.stages + 1


def stage_loops(module: Module) -> list[StageLoop]:
    """The loops of pipelines, in program order. The module has no calls.

    Such a loop carries a value that each trip sends on by one collective permutation, and that stays on no IPU: what an
    IPU computes depends on what it received alone, but on the first stage, which takes another value by its number.
    The value starts as a constant, and what it is after the last trip is not used.
    """
    numbers = _numbers(module)
    found = []
    for op in module.main.block.walk():
        if op.name == "while" and (trips := trip_count(op)) and (chains := _chains(op, module, numbers)):
            loop = StageLoop(trips, chains)
            if loop.batches > 0:
                found.append(loop)
    return found


def _chains(loop: Op, module: Module, numbers: dict[Value, Numbers]) -> tuple[tuple[int, ...], ...]:
    """The IPUs of each pipeline by stage; nothing where the loop is none."""
    for permutation in loop.regions[-1].ops:
        if permutation.name == "collective_permute":
            ring = _Ring(loop, permutation)
            if ring.path and not ring.stays() and ring.begins_and_ends():
                sources = sources_of(permutation, module.num_partitions, module.num_replicas)
                chains = _ordered(sources, ring.first_stages(sources, numbers))
                if chains and len(chains[0]) > 1:
                    return chains
    return ()


class _Ring:
    """What goes from a permutation's result back to its operand, in the body of a loop and over its trips.

    `path`: these values, the result among them.
    """

    def __init__(self, loop: Op, permutation: Op) -> None:
        self._loop, self._body, self._permutation = loop, loop.regions[-1], permutation
        self._outermost = {inner: op for op in self._body.ops for region in op.regions for inner in region.walk()}
        received, sent = permutation.result, permutation.operands[0]
        after = self._reached([received], self._forward)
        self.path = after & self._reached([sent], self._backward)
        if self.path:
            self.path.add(received)

    def _forward(self, value: Value) -> Iterable[Value]:
        """The results of the ops that read a value, or what the next trip has of it."""
        for user in value.users:
            if user is self._body.terminator:
                pairs = zip(self._body.args, self._body.results, strict=True)
                yield from (argument for argument, result in pairs if result is value)
            else:
                yield from self._outermost.get(user, user).results

    def _backward(self, value: Value) -> Iterable[Value]:
        """What a value is computed from, in this trip or in the one before."""
        if value.op is not None:
            yield from outside_operands(value.op)
        elif value in self._body.args:
            yield self._body.results[value.index]

    def _reached(self, start: Sequence[Value], step: Callable[[Value], Iterable[Value]]) -> set[Value]:
        """The values that `step` leads to, with those of `start`, but not through the permutation."""
        found, pending = set(start), list(start)
        while pending:
            for value in step(pending.pop()):
                if value not in found and value is not self._permutation.result:
                    found.add(value)
                    pending.append(value)
        return found

    def stays(self) -> bool:
        """Whether what an IPU sends depends on what it had itself in the trip before."""
        carried = [value for value in self.path if value in self._body.args]
        for value in carried:
            after = [v for v in self._forward(value) if v is not self._permutation.result]
            if value in self._reached(after, self._forward):
                return True
        return False

    def begins_and_ends(self) -> bool:
        """Whether what is carried is constant before the first trip, and not used after the last."""
        carried = [i for i, argument in enumerate(self._body.args) if argument in self.path]
        return bool(carried) and all(
            _is_constant(self._loop.operands[i]) and not self._loop.results[i].users for i in carried
        )

    def first_stages(self, sources: Sequence[int], numbers: dict[Value, Numbers]) -> set[int]:
        """The IPUs whose value is not what they received."""
        first = {ipu for ipu, source in enumerate(sources) if source < 0}
        for value in self.path:
            op = value.op
            if op is None or op.name != "select" or op.operands[0] not in numbers:
                continue
            taken = [op.operands[1 if test else 2] in self.path for test in numbers[op.operands[0]]]
            if any(taken) and not all(taken):
                others = {ipu for ipu, received in enumerate(taken) if not received}
                after = self._reached([value], self._forward) & self.path
                # Gradients go the other way: the stage that masks what it sends is the last.
                works = any(v.op is not None and v.op is not op and v.op.name not in _NO_WORK for v in after)
                first |= others if works else {t for t, source in enumerate(sources) if source in others}
        return first


def _is_constant(value: Value) -> bool:
    pending, seen = [value], {value}
    while pending:
        op = pending.pop().op
        if op is None or op.regions or (not op.operands and op.name not in ("constant", "iota")):
            return False
        pending += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return True


_NO_WORK = VIEWS | {"select", "convert", "compare"}


def _ordered(sources: Sequence[int], first: set[int]) -> tuple[tuple[int, ...], ...]:
    """The chains that begin with `first`; nothing where these have different lengths or leave IPUs out."""
    target = {source: ipu for ipu, source in enumerate(sources) if source >= 0 and ipu not in first}
    chains = []
    for ipu in sorted(first):
        chain = [ipu]
        while (following := target.get(chain[-1])) is not None:
            chain.append(following)
        chains.append(tuple(chain))
    whole = sorted(ipu for chain in chains for ipu in chain) == list(range(len(sources)))
    return tuple(chains) if whole and len({len(chain) for chain in chains}) == 1 else ()


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    **{"EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge}
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "and": operator.and_},
    **{"or": operator.or_, "minimum": min, "maximum": max},
    "divide": lambda a, b: int(a / b) if b else 0,
    "remainder": lambda a, b: a - b * int(a / b) if b else 0,
}


def _numbers(module: Module) -> dict[Value, Numbers]:
    """The small integers and predicates that follow from the number of the IPU alone."""
    count = module.num_partitions * module.num_replicas
    found: dict[Value, Numbers] = {}
    for op in module.main.block.walk():
        if op.name == "while":
            for region in op.regions:
                for argument, operand in zip(region.args, op.operands, strict=True):
                    if (
                        operand in found
                        and op.regions[-1].results[argument.index] is op.regions[-1].args[argument.index]
                    ):
                        found[argument] = found[operand]
        elif len(op.results) == 1 and not op.regions and (values := _evaluated(op, found, module, count)) is not None:
            found[op.result] = values
    return found


def _evaluated(op: Op, known: dict[Value, Numbers], module: Module, count: int) -> Numbers | None:
    name, dtype = op.name, op.result.dtype
    if name in ("partition_id", "replica_id"):
        parts = module.num_partitions
        return tuple(ipu % parts if name == "partition_id" else ipu // parts for ipu in range(count))
    if dtype[0] not in "sup":
        return None
    if name == "constant":
        literal = splat_of(op.result)
        return None if literal is None else (int(literal.scalar()),) * count
    if not op.operands or any(operand not in known for operand in op.operands):
        return None
    given = [known[operand] for operand in op.operands]
    if name in ("convert", "reshape", "broadcast_in_dim"):
        return given[0]
    if name == "compare":
        test = _COMPARISONS[op.attrs["comparison_direction"]]
        return tuple(int(test(a, b)) for a, b in zip(*given, strict=True))
    if name == "not" and dtype == "pred":
        return tuple(1 - a for a in given[0])
    if name == "select":
        return tuple(a if p else b for p, a, b in zip(*given, strict=True))
    if name in _ARITHMETIC:
        return tuple(_ARITHMETIC[name](a, b) for a, b in zip(*given, strict=True))
    return None
