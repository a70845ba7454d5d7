"""Stage "lower": a mapped program to a Poplar graph with its programs: main, and those that move state in SRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jax_ipu import _ipu
from jax_ipu.compiler import capacity
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.lowering import rivals, sort, spread, starts, stencils
from jax_ipu.compiler.lowering.callbacks import callback_specs
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.lowering.control_flow import write_results
from jax_ipu.compiler.lowering.host_memory import in_order_of_array, input_stream, write_result
from jax_ipu.compiler.lowering.poplibs import Choice, PopLibs
from jax_ipu.compiler.lowering.table import CREATORS, LOWERINGS, unsupported
from jax_ipu.compiler.mapping import MappedProgram, MappingPlan
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.stages import staged
from jax_ipu.compiler.types import num_elements


@dataclass(frozen=True)
class LoweredProgram:
    """A Poplar graph and its programs.

    Attributes:
        graph: the graph that all programs belong to.
        programs: main, the programs that write and read state, and the programs that swap two states.
        state_programs: argument that stays in SRAM -> its write program, and its read program, or -1 where main only
            reads it.
        swaps: resident argument -> an argument of the same type, and the program that swaps their states.
        tensors: the tensor of every value.
        host_callbacks: each Python callback, as `_ipu.Executable` takes it.
        ffi_calls: each call of a foreign function, as `_ipu.Executable` takes it.
        origins: the ops that the operations of the graph come from: see `Context.origins`.
        choices: which library each op came from; None where PopLibs was not asked for.
    """

    graph: _ipu.Graph
    programs: list[_ipu.Sequence]
    state_programs: dict[int, tuple[int, int]]
    swaps: dict[int, tuple[int, int]]
    tensors: dict[Value, _ipu.Tensor]
    host_callbacks: list[_ipu.HostCallbackSpec]
    ffi_calls: list[_ipu.FfiCallSpec]
    origins: list[Op]
    choices: list[Choice] | None = None

    def without_swaps(self) -> LoweredProgram:
        """The same without the programs that swap states."""
        return replace(self, programs=self.programs[: len(self.programs) - len(self.swaps)], swaps={})


def check_supported(block: Block) -> None:
    """Raises CompileError for the first op without a lowering, before any of the program is lowered."""
    for op in block.ops:
        name = op.name
        if name not in LOWERINGS and name != "constant" and name != "return":
            raise unsupported(op)
        if name in ("while", "ipu.repeat", "if", "case", "ipu.call"):
            for region in op.regions:
                check_supported(region)


@staged("lower")
def lower(program: MappedProgram, target: _ipu.Target, settings: Options, keep: bool = True) -> LoweredProgram:
    """Adds the operations of the program to a new graph.

    Args:
        program: the mapped program.
        target: the IPU.
        settings: the options of the compilation.
        keep: whether arguments that the program only reads stay in SRAM between calls; otherwise every call streams
            them in.

    Raises:
        CompileError: an op has no lowering (UNIMPLEMENTED).
        capacity.TooLarge: one op alone needs more memory than there is (RESOURCE_EXHAUSTED).
    """
    return lower_into(SharedGraph(graph_for(program, target, settings)), program, target, settings, keep)


def graph_for(program: MappedProgram, target: _ipu.Target, settings: Options) -> _ipu.Graph:
    """An empty graph for all replicas of the program."""
    return _ipu.Graph(target, program.module.num_replicas * program.module.num_partitions, settings.io_tiles)


class SharedGraph:
    """A graph to which programs are added, one after the other, and the variables that they share.

    Attributes:
        graph: the graph.
        programs: the programs of all that was added.
        variables: the variables in which arguments stay between calls, by their number.
        common: numbers of the variables that several programs use.
        transfers: number of a variable -> its write program, its read program or -1, and its stream.
        swaps: number of a variable -> the first one of its type, and the program that swaps the two.
    """

    def __init__(self, graph: _ipu.Graph, common: frozenset[int] = frozenset()) -> None:
        self.graph = graph
        self.common = common
        self.programs: list[_ipu.Sequence] = []
        self.variables: dict[int, _ipu.Tensor] = {}
        self.transfers: dict[int, tuple[int, int, str]] = {}
        self.swaps: dict[int, tuple[int, int]] = {}

    def add_variable(self, number: int, tensor: _ipu.Tensor, name: str, stream: str, resident: bool) -> None:
        """Adds a variable, with the programs that move it from and to the host."""
        count = num_elements(tensor.shape)
        write = _ipu.Sequence(f"write {name}")
        write.stream_in(self.graph.add_host_to_device_fifo(stream, tensor.dtype, count), tensor, name)
        self.variables[number] = tensor
        self.transfers[number] = (len(self.programs), -1, stream)
        self.programs.append(write)
        if resident or number in self.common:
            read = _ipu.Sequence(f"read {name}")
            read.stream_out(tensor, self.graph.add_device_to_host_fifo(f"{stream}.out", tensor.dtype, count), name)
            self.transfers[number] = (len(self.programs) - 1, len(self.programs), stream)
            self.programs.append(read)

    def add_swaps(self, pairs: dict[int, int]) -> None:
        """Adds the programs that swap a variable with the first one of its type; each variable has one first."""
        firsts = {first for first, _ in self.swaps.values()}
        asides: dict[int, _ipu.Tensor] = {}
        for number, first in pairs.items():
            if number in self.swaps or number in firsts or first in self.swaps or number == first:
                continue
            state = self.variables[first]
            if first not in asides:
                asides[first] = self.graph.clone(state, "state aside")
                firsts.add(first)
            self.swaps[number] = (first, len(self.programs))
            self.programs.append(_swap(state, self.variables[number], asides[first]))


def lower_into(
    shared: SharedGraph,
    program: MappedProgram,
    target: _ipu.Target,
    settings: Options,
    keep: bool = True,
    prefix: str = "",
    numbers: Sequence[int] | None = None,
) -> LoweredProgram:
    """Adds the operations of the program to a graph that may have other programs.

    Args:
        shared: the graph, and what its programs share.
        program, target, settings, keep: as for `lower`.
        prefix: of the names of the program's streams.
        numbers: of each argument, the number of its variable; an argument whose number has a variable already uses
            that. None: the position of each argument.

    Returns:
        The program. Its list of programs is that of all programs in the graph.

    Raises:
        As `lower`.
    """
    module, signature = program.module, program.signature
    block = module.main.block
    check_supported(block)
    capacity.check(block, signature, target)

    plans = _ipu.PlanningCache()
    poplibs = PopLibs(settings.poplibs) if settings.poplibs else None
    lowerings, creators = (poplibs.lowerings(), poplibs.creators()) if poplibs else (LOWERINGS, CREATORS)

    def context_for(graph: _ipu.Graph, mapping: MappingPlan) -> Context:
        replicas = module.num_partitions, module.num_replicas
        planning = settings.planning()
        tiles = target.num_tiles - settings.io_tiles
        made = Context(graph, lowerings, creators, mapping, planning, plans, *replicas, tiles)
        made.strided_only = poplibs is None
        made.io_tiles = settings.io_tiles
        return made

    def trial() -> Context:
        return context_for(graph_for(program, target, settings), MappingPlan({}, {}, {}, {}, []))

    stencils.settle(program.mapping, target, trial, block)
    rivals.settle(program.mapping, target, trial)
    spread.settle(program.mapping, trial)
    starts.settle(program.mapping, trial, block)
    if poplibs:
        poplibs.choices.clear()  # those of trials
    graph, programs = shared.graph, shared.programs
    context = context_for(graph, program.mapping)
    context.stream_prefix = prefix
    if module.frugal:
        context.alike = sort.alike(block)
    if any(op.name == "ipu.random_bits" for op in block.walk()):
        context.start_random_state()
    programs.append(context.sequence)
    numbers = range(len(signature.arguments)) if numbers is None else numbers
    in_variables = _place_arguments(shared, context, signature, keep, prefix, numbers)
    context.result_names = signature.result_names
    context.lower_ops(block.ops)
    _write_results(context, block, signature)
    swapped = signature.swaps()
    shared.add_swaps({numbers[i]: numbers[first] for i, first in swapped.items()})
    if poplibs:
        poplibs.tell(module.name)
    return LoweredProgram(
        graph,
        programs,
        {i: shared.transfers[numbers[i]][:2] for i in in_variables},
        {i: (first, shared.swaps[numbers[i]][1]) for i, first in swapped.items() if numbers[i] in shared.swaps},
        context.tensors,
        callback_specs(context),
        context.ffi_calls,
        context.origins,
        poplibs.choices if poplibs else None,
    )


def _place_arguments(
    shared: SharedGraph, context: Context, signature: Signature, keep: bool, prefix: str, numbers: Sequence[int]
) -> list[int]:
    """Gives each argument its tensor: a variable of the graph, or what the main program streams in.

    Returns:
        The positions of the arguments that are in variables of the graph.
    """
    in_variables: list[int] = []
    for argument in signature.arguments:
        value, i = argument.value, argument.index
        context.arguments[i] = argument
        if not argument.used or argument.read_where_used:
            if num_elements(value.shape) == 0:
                context.tensors[value] = context.variable(value.dtype, value.shape, argument.name)
            continue
        number = numbers[i]
        if number not in shared.variables:
            tensor = context.allocate(value, argument.name)
            if not argument.resident:
                tensor = in_order_of_array(context, tensor, argument)
                if not (keep and argument.kept) and number not in shared.common:
                    context.tensors[value] = tensor
                    context.sequence.stream_in(input_stream(context, argument), tensor, argument.name)
                    continue
            shared.add_variable(number, tensor, argument.name, f"{prefix}state{i}", argument.resident)
        in_variables.append(i)
        context.tensors[value] = tensor = shared.variables[number]
        if not (argument.resident or argument.kept):  # the program overwrites its argument
            context.tensors[value] = own = context.allocate(value, argument.name)
            context.sequence.copy(tensor, own, argument.name)
    return in_variables


def _write_results(context: Context, block: Block, signature: Signature) -> None:
    # Results are streamed out before resident arguments get new values: they may be views of the old ones.
    for position, value in enumerate(block.results):
        moved = position in signature.aliased_inputs or position in signature.forwarded
        if not moved and position not in signature.written_where_made and num_elements(value.shape):
            write_result(context, value, position)
    destinations = {j: context.tensors[block.args[i]] for j, i in signature.aliases().items()}
    write_results(context, block, destinations, "result")


def _swap(a: _ipu.Tensor, b: _ipu.Tensor, aside: _ipu.Tensor) -> _ipu.Sequence:
    sequence = _ipu.Sequence("swap states")
    sequence.copy(a, aside, "state")
    sequence.copy(b, a, "state")
    sequence.copy(aside, b, "state")
    return sequence
