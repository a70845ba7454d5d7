"""Lowers an optimised module to a Poplar graph with its programs: main, and those that move what stays in SRAM."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler import capacity
from jax_ipu.compiler.ir import Block, Module, Value
from jax_ipu.compiler.lowering.callbacks import callback_specs
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.lowering.control_flow import write_results
from jax_ipu.compiler.lowering.table import LOWERINGS, unsupported
from jax_ipu.compiler.mapping import MappingPlan
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.program_io import Argument, Signature
from jax_ipu.compiler.types import num_elements


class Built(NamedTuple):
    """`programs[0]` is main; `state_programs`: argument that stays in SRAM -> its write program, and its read program,
    or -1 where main only reads it; `exchanges`: resident argument -> an argument of its type, and the program that
    makes their states change places; these come last."""

    graph: _ipu.Graph
    programs: list[_ipu.Sequence]
    state_programs: dict[int, tuple[int, int]]
    exchanges: dict[int, tuple[int, int]]
    tensors: dict[Value, _ipu.Tensor]
    host_callbacks: list[dict[str, object]]
    ffi_calls: list[dict[str, object]]

    def without_exchanges(self) -> Built:
        """The same without the programs of `exchanges`."""
        return self._replace(programs=self.programs[: len(self.programs) - len(self.exchanges)], exchanges={})


def check_supported(block: Block) -> None:
    """Raises CompileError for the first op without a lowering, before any of the program is built."""
    for op in block.ops:
        name = op.name
        if name not in LOWERINGS and name != "constant" and name != "return":
            raise unsupported(op)
        if name in ("while", "ipu.repeat", "if", "case", "ipu.call"):
            for region in op.regions:
                check_supported(region)


def build(
    module: Module,
    signature: Signature,
    mapping: MappingPlan,
    target: _ipu.Target,
    settings: Options,
    keep: bool = True,
) -> Built:
    """`keep`: whether the arguments that the signature would keep in SRAM are kept there.

    Raises CompileError for what has no lowering.
    """
    block = module.main.block
    check_supported(block)
    capacity.check(block, signature, target)
    graph = _ipu.Graph(target, module.num_replicas * module.num_partitions)
    context = Context(graph, LOWERINGS, mapping, settings.planning(), module.num_partitions, module.num_replicas)
    if any(op.name == "ipu.random_bits" for op in block.walk()):
        context.start_random_state()
    programs = [context.sequence]
    state_programs: dict[int, tuple[int, int]] = {}
    for argument in signature.arguments:
        value, i = argument.value, argument.index
        if not argument.used:
            if num_elements(value.shape) == 0:
                context.tensors[value] = context.variable(value.dtype, value.shape, argument.name)
            continue
        tensor = context.allocate(value, argument.name)
        context.tensors[value] = tensor
        count = num_elements(value.shape)
        if not argument.resident:
            tensor = context.tensors[value] = _in_order_of_array(graph, tensor, argument)
            stays = keep and argument.kept
            stream = graph.add_host_to_device_fifo(f"state{i}" if stays else f"in{i}", value.dtype, count)
            sequence = context.sequence
            if stays:
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
    context.lower_block(block)
    # Results leave before the resident arguments take their new values: they may be views of the old ones.
    for position, value in enumerate(block.results):
        if position in signature.aliased_inputs or position in signature.forwarded or not num_elements(value.shape):
            continue
        stream = graph.add_device_to_host_fifo(f"out{position}", value.dtype, num_elements(value.shape))
        context.sequence.stream_out(context.tensor(value), stream, f"result {position}")
    destinations = {j: context.tensors[block.args[i]] for j, i in signature.aliases().items()}
    write_results(context, block, destinations, "result")
    exchanges: dict[int, tuple[int, int]] = {}
    asides: dict[int, _ipu.Tensor] = {}
    for i, first in signature.exchanges().items():
        state = context.tensors[block.args[first]]
        if first not in asides:
            asides[first] = graph.clone(state, "state aside")
        exchanges[i] = (first, len(programs))
        programs.append(_exchange(state, context.tensors[block.args[i]], asides[first]))
    return Built(
        graph, programs, state_programs, exchanges, context.tensors, callback_specs(context), context.ffi_calls
    )


def _in_order_of_array(graph: _ipu.Graph, tensor: _ipu.Tensor, argument: Argument) -> _ipu.Tensor:
    """Mapped as `tensor`, and in memory in the order of the array, which then needs no copy that rearranges."""
    order = argument.major_to_minor or range(len(tensor.shape))
    ordered = tensor.dim_shuffle(order)
    if ordered.is_row_major:
        return tensor
    clone = graph.clone_as(tensor.dtype, ordered, argument.name, new_order=True)
    return clone.dim_shuffle([order.index(d) for d in range(len(order))])


def _exchange(a: _ipu.Tensor, b: _ipu.Tensor, aside: _ipu.Tensor) -> _ipu.Sequence:
    sequence = _ipu.Sequence("exchange states")
    sequence.copy(a, aside, "state")
    sequence.copy(b, a, "state")
    sequence.copy(aside, b, "state")
    return sequence
