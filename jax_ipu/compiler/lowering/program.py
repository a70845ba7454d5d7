"""Stage "lower": a mapped program to a Poplar graph with its programs: main, and those that move state in SRAM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jax_ipu import _ipu
from jax_ipu.compiler import capacity
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.lowering import rivals, spread
from jax_ipu.compiler.lowering.callbacks import callback_specs
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.lowering.control_flow import write_results
from jax_ipu.compiler.lowering.host_memory import in_order_of_array, input_stream, write_result
from jax_ipu.compiler.lowering.poplibs import Choice, PopLibs
from jax_ipu.compiler.lowering.table import CREATORS, LOWERINGS, unsupported
from jax_ipu.compiler.mapping import MappedProgram, MappingPlan
from jax_ipu.compiler.options import Options
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
    module, signature = program.module, program.signature
    block = module.main.block
    check_supported(block)
    capacity.check(block, signature, target)

    plans = _ipu.PlanningCache()
    poplibs = PopLibs(settings.poplibs) if settings.poplibs else None
    lowerings, creators = (poplibs.lowerings(), poplibs.creators()) if poplibs else (LOWERINGS, CREATORS)

    def context_for(mapping: MappingPlan) -> Context:
        graph = _ipu.Graph(target, module.num_replicas * module.num_partitions)
        replicas = module.num_partitions, module.num_replicas
        planning = settings.planning()
        made = Context(graph, lowerings, creators, mapping, planning, plans, *replicas, target.num_tiles)
        made.strided_only = poplibs is None
        return made

    def trial() -> Context:
        return context_for(MappingPlan({}, {}, {}, {}, []))

    rivals.settle(program.mapping, target, trial)
    spread.settle(program.mapping, trial)
    if poplibs:
        poplibs.choices.clear()  # those of trials
    context = context_for(program.mapping)
    graph = context.graph
    if any(op.name == "ipu.random_bits" for op in block.walk()):
        context.start_random_state()
    programs = [context.sequence]
    state_programs: dict[int, tuple[int, int]] = {}
    for argument in signature.arguments:
        value, i = argument.value, argument.index
        context.arguments[i] = argument
        if not argument.used or argument.read_where_used:
            if num_elements(value.shape) == 0:
                context.tensors[value] = context.variable(value.dtype, value.shape, argument.name)
            continue
        tensor = context.allocate(value, argument.name)
        context.tensors[value] = tensor
        count = num_elements(value.shape)
        if not argument.resident:
            tensor = context.tensors[value] = in_order_of_array(graph, tensor, argument)
            if not (keep and argument.kept):
                context.sequence.stream_in(input_stream(context, argument), tensor, argument.name)
                continue
            stream = graph.add_host_to_device_fifo(f"state{i}", value.dtype, count)
            sequence = _ipu.Sequence(f"write {argument.name}")
            state_programs[i] = (len(programs), -1)
            programs.append(sequence)
            sequence.stream_in(stream, tensor, argument.name)
            continue
        write, read = _ipu.Sequence(f"write {argument.name}"), _ipu.Sequence(f"read {argument.name}")
        write.stream_in(graph.add_host_to_device_fifo(f"state{i}", value.dtype, count), tensor, argument.name)
        read.stream_out(tensor, graph.add_device_to_host_fifo(f"state{i}.out", value.dtype, count), argument.name)
        state_programs[i] = (len(programs), len(programs) + 1)
        programs += [write, read]
    context.result_names = signature.result_names
    context.lower_block(block)
    # Results are streamed out before resident arguments get new values: they may be views of the old ones.
    for position, value in enumerate(block.results):
        moved = position in signature.aliased_inputs or position in signature.forwarded
        if not moved and position not in signature.written_where_made and num_elements(value.shape):
            write_result(context, value, position)
    destinations = {j: context.tensors[block.args[i]] for j, i in signature.aliases().items()}
    write_results(context, block, destinations, "result")
    swaps: dict[int, tuple[int, int]] = {}
    asides: dict[int, _ipu.Tensor] = {}
    for i, first in signature.swaps().items():
        state = context.tensors[block.args[first]]
        if first not in asides:
            asides[first] = graph.clone(state, "state aside")
        swaps[i] = (first, len(programs))
        programs.append(_swap(state, context.tensors[block.args[i]], asides[first]))
    if poplibs:
        poplibs.tell(module.name)
    return LoweredProgram(
        graph,
        programs,
        state_programs,
        swaps,
        context.tensors,
        callback_specs(context),
        context.ffi_calls,
        context.origins,
        poplibs.choices if poplibs else None,
    )


def _swap(a: _ipu.Tensor, b: _ipu.Tensor, aside: _ipu.Tensor) -> _ipu.Sequence:
    sequence = _ipu.Sequence("swap states")
    sequence.copy(a, aside, "state")
    sequence.copy(b, a, "state")
    sequence.copy(aside, b, "state")
    return sequence
