"""Several programs as one: they share an engine, and the variables in which their common arguments stay.

A device has one engine, so programs that take turns load each other's away, and their state crosses the host link.
Linked, they are one Poplar graph with a main program each. The program that takes the most cycles decides how what they
share is mapped to tiles; the others adapt. Programs of several IPUs have one graph for all these IPUs. What a program
reads and writes in host memory has streams and remote buffers of its own in the common graph.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass

from jax_ipu import _ipu
from jax_ipu.compiler import capacity
from jax_ipu.compiler.api import parse_target, reported
from jax_ipu.compiler.collector import collector_paused
from jax_ipu.compiler.contexts import inside
from jax_ipu.compiler.errors import RESOURCE_EXHAUSTED, UNIMPLEMENTED, CompileError
from jax_ipu.compiler.fit import map_program
from jax_ipu.compiler.frontend.hlo import HLO_FORMATS, parse_hlo
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.frontend.programs import ParsedProgram
from jax_ipu.compiler.lowering.program import LoweredProgram, SharedGraph, lower_into
from jax_ipu.compiler.mapping import MappedProgram
from jax_ipu.compiler.options import Options, compile_options
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.types import SIZE, num_elements


@dataclass(frozen=True)
class Part:
    """One of the programs.

    Attributes:
        program, format, options: as for `api.compile`.
        variables: of each argument that shares a variable with an argument of another part, or with one that is added
            later, the number of the variable; -1 for the others.
    """

    program: bytes
    format: str
    options: bytes
    variables: tuple[int, ...]


@inside(reported)
@inside(collector_paused)
def link(parts: Sequence[Part], target: str) -> _ipu.LinkedProgram:
    """Compiles the programs as one. Deterministic, and reads nothing but its arguments.

    Args:
        parts: the programs, all for one IPU or all for as many.
        target: as for `api.compile`.

    Raises:
        CompileError: programs that cannot be linked (UNIMPLEMENTED), or do not fit together (RESOURCE_EXHAUSTED).
        KeyboardInterrupt: Ctrl-C.
    """
    ipu = parse_target(target)
    settings = [compile_options(part.options) for part in parts]
    parsed = [_parsed(part, own) for part, own in zip(parts, settings, strict=True)]
    programs = [legalize(partition(program)) for program in parsed]
    names = [program.name for program in parsed]
    num_ipus = {program.num_replicas * program.num_partitions for program in programs}
    if len(num_ipus) > 1:
        raise CompileError(f"{', '.join(names)} are for {sorted(num_ipus)} IPUs, and are not linked", UNIMPLEMENTED)
    io_tiles = {one.io_tiles for one in settings}
    if len(io_tiles) > 1:
        raise CompileError(
            f"{', '.join(names)} have {sorted(io_tiles)} tiles for input and output, and are not linked", UNIMPLEMENTED
        )
    plans = _ipu.TilePlanCache(False)
    plans.limits_buffers = all(one.fit == "on" for one in settings)
    failure: Exception | None = None
    order: list[int] = []
    with Progress(" + ".join(names)) as progress:
        progress.stage("linking programs")
        for own in dict.fromkeys((tuple(settings), tuple(map(_frugal, settings)))):
            mapped = [map_program(program, one, ipu) for program, one in zip(programs, own, strict=True)]
            lowering = _Linker(mapped, own, ipu, plans, *_numbers(parts, mapped), *num_ipus)
            order = order or lowering.dearest_first()
            for keep in (True, False):
                try:
                    return lowering.linked(order, " + ".join(names), keep, progress)
                except (_ipu.OutOfMemory, capacity.TooLarge) as error:
                    failure = error
    raise CompileError(
        f"the programs {', '.join(names)} do not fit into the memory of an IPU together, so each call loads its program"
        f" and moves the state that they share over the host link: {failure}",
        RESOURCE_EXHAUSTED,
    ) from None


def _frugal(settings: Options) -> Options:
    """What makes most programs smaller that do not fit as they are: see fit.py."""
    if settings.fit == "off" or settings.outline != "memory":
        return settings
    return settings._replace(outline="always")


def _parsed(part: Part, settings: Options) -> ParsedProgram:
    if settings.executable or settings.poplibs:
        raise CompileError("a program that was loaded, or that uses PopLibs, is not linked", UNIMPLEMENTED)
    is_hlo = part.format in HLO_FORMATS
    return (parse_hlo if is_hlo else parse)(part.program, part.format, part.options)


def _numbers(parts: Sequence[Part], mapped: list[MappedProgram]) -> tuple[list[list[int]], frozenset[int]]:
    """The number of the variable of each argument, and the numbers that several arguments have."""
    types: dict[int, tuple[object, ...]] = {}
    counts: collections.Counter[int] = collections.Counter()
    free = 1 + max((number for part in parts for number in part.variables), default=0)
    numbers: list[list[int]] = []
    for part, program in zip(parts, mapped, strict=True):
        own: list[int] = []
        for argument in program.signature.arguments:
            number = part.variables[argument.index]
            if number < 0 or not argument.used or argument.read_where_used:
                number, free = free, free + 1
            else:
                value = argument.value
                described = (value.dtype, value.shape, argument.major_to_minor)
                if types.setdefault(number, described) != described:
                    raise CompileError(
                        f"{argument.name} of {program.module.name} has another type or layout than the array that it is"
                        " to share a variable with",
                        UNIMPLEMENTED,
                    )
                counts[number] += 1
            own.append(number)
        numbers.append(own)
    return numbers, frozenset(number for number, count in counts.items() if count > 1)


@dataclass(frozen=True)
class _Linker:
    """The programs, and what all attempts to link them share."""

    mapped: list[MappedProgram]
    settings: Sequence[Options]
    target: _ipu.Target
    plans: _ipu.TilePlanCache
    numbers: list[list[int]]
    common: frozenset[int]
    num_ipus: int

    def dearest_first(self) -> list[int]:
        """The order in which programs are lowered: the first decides the tile mapping of what is shared."""
        return sorted(range(len(self.mapped)), key=lambda part: -self._cycles(part))

    def _cycles(self, part: int) -> int:
        program = self.mapped[part]
        try:
            graph = SharedGraph(_ipu.Graph(self.target, self.num_ipus, self.settings[0].io_tiles))
            lowered = lower_into(graph, program, self.target, self.settings[part])
            return _ipu.compile_graph(lowered.graph, lowered.programs, program.module.name, self.plans).cost().cycles
        except (_ipu.OutOfMemory, capacity.TooLarge):  # it fits in another form only, so it is large
            return 1 << 62

    def linked(self, order: list[int], name: str, keep: bool, progress: Progress) -> _ipu.LinkedProgram:
        """The programs as one; `keep`: with arguments kept in SRAM that are only read."""
        shared = SharedGraph(_ipu.Graph(self.target, self.num_ipus, self.settings[0].io_tiles), self.common)
        lowered: dict[int, LoweredProgram] = {}
        mains: dict[int, int] = {}
        for part in order:
            mains[part] = len(shared.programs)
            lowered[part] = lower_into(
                shared, self.mapped[part], self.target, self.settings[part], keep, f"{part}.", self.numbers[part]
            )
            if lowered[part].host_callbacks or lowered[part].ffi_calls:
                raise CompileError("a program that calls functions of the host is not linked", UNIMPLEMENTED)
        further = [mains[part] for part in order[1:]]
        compiled = _ipu.compile_graph(shared.graph, shared.programs, name, self.plans, progress.step, further)
        position = {number: index for index, number in enumerate(shared.transfers)}
        entries = [
            _ipu.ImageEntry(
                prefix=f"{part}.",
                main_program=mains[part],
                variables=[
                    position[number] if index in lowered[part].state_programs else -1
                    for index, number in enumerate(self.numbers[part])
                ],
            )
            for part in range(len(self.mapped))
        ]
        target = f"{self.target.version}:{self.target.num_tiles}"
        return compiled.as_linked_program(name, target, self._variables(shared, position), entries)

    def _variables(self, shared: SharedGraph, position: dict[int, int]) -> list[_ipu.ImageVariable]:
        titles: dict[int, tuple[str, str]] = {}
        for program, numbers in zip(self.mapped, self.numbers, strict=True):
            signature = program.signature
            for argument in signature.arguments:
                number = numbers[argument.index]
                if number not in titles or argument.resident:
                    result = signature.result_names[argument.aliased_output] if argument.resident else argument.name
                    titles[number] = argument.name, result
        variables = []
        for number, (write, read, stream) in shared.transfers.items():
            tensor = shared.variables[number]
            first, swap = shared.swaps.get(number, (-1, -1))
            variables.append(
                _ipu.ImageVariable(
                    bytes=num_elements(tensor.shape) * SIZE[tensor.dtype],
                    stream=stream,
                    write_program=write,
                    read_program=read,
                    swap_with=position.get(first, -1),
                    swap_program=swap,
                    title=titles[number][0],
                    title_of_result=titles[number][1],
                )
            )
        return variables
