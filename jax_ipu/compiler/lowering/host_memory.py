"""Transfers between arguments and results in host memory and tiles, where the program needs or makes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.program_io import HOST_READS, Argument
from jax_ipu.compiler.types import Literal, Shape, num_elements


def in_order_of_array(context: Context, tensor: _ipu.Tensor, argument: Argument) -> _ipu.Tensor:
    """A variable mapped like `tensor`, with elements in the order of the array: the stream rearranges nothing.

    PopLibs' operations rearrange what is not in the order of their plan, so theirs stays in it.
    """
    if not tensor.is_strided and not context.strided_only:
        return tensor
    order = argument.major_to_minor or range(len(tensor.shape))
    ordered = tensor.dim_shuffle(order)
    if ordered.is_row_major:
        return tensor
    clone = context.graph.clone_as(tensor.dtype, ordered, argument.name, new_order=True)
    return clone.dim_shuffle([order.index(d) for d in range(len(order))])


def input_stream(context: Context, argument: Argument) -> _ipu.DataStream:
    """The stream of an argument that every call streams in; several reads of it read the same elements."""
    stream = context.input_streams.get(argument.index)
    if stream is None:
        value = argument.value
        name = f"{context.stream_prefix}in{argument.index}"
        stream = context.graph.add_host_to_device_fifo(name, value.dtype, num_elements(value.shape))
        context.input_streams[argument.index] = stream
    return stream


def lower_host_read(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Streams an argument in, or copies rows from a remote buffer."""
    source, *rows = op.operands
    argument = context.arguments[source.index] if source.op is None else None
    name = argument.name if argument is not None else context.name(op)
    tensor = context.allocate(op.result, name)
    if argument is not None:
        tensor = in_order_of_array(context, tensor, argument)
        if not _is_read_by_rows(source):
            context.sequence.stream_in(input_stream(context, argument), tensor, name)
            return [tensor]
    buffer = _remote_buffer(context, op, source)
    context.sequence.remote_read(buffer, tensor, _rows(context, source, rows), name)
    return [tensor]


def lower_read_ahead(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Starts the transfer of rows to the tiles for input and output; nothing waits for it but `lower_take_ahead`."""
    source, *rows = op.operands
    argument = context.arguments[source.index] if source.op is None else None
    name = argument.name if argument is not None else context.name(op)
    slot = context.ahead.get(op.attrs["slot"])
    if slot is None:
        shape = (*rows[0].shape, *source.shape[1:]) if rows else source.shape
        slot = context.ahead[op.attrs["slot"]] = _on_io_tiles(context, source.dtype, shape, name)
    if argument is not None and not _is_read_by_rows(source):
        context.sequence.stream_in(input_stream(context, argument), slot, name)
        return []
    numbers = _rows(context, source, rows)
    there = _on_io_tiles(context, numbers.dtype, numbers.shape, name)
    context.sequence.copy(numbers, there, name)
    context.transfers.append((_remote_buffer(context, op, source), slot, there, name))
    return []


def lower_take_ahead(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Copies what was read ahead to the tiles that compute."""
    tensor = context.allocate(op.result, context.name(op))
    context.sequence.copy(context.ahead[op.attrs["slot"]], tensor, context.name(op))
    return [tensor]


def _on_io_tiles(context: Context, dtype: str, shape: Shape, name: str) -> _ipu.Tensor:
    tensor = context.graph.add_variable(dtype, shape, name)
    context.graph.map_to_io_tiles(tensor, context.io_tiles)
    return tensor


def lower_host_write(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Streams a result out, or copies rows to a remote buffer; with a slot, in the next trip of the loop."""
    value, *rest = op.operands
    if "result" in op.attrs:
        write_result(context, value, op.attrs["result"])
        return []
    target, *rows = rest
    buffer, source, numbers = _remote_buffer(context, op, target), context.tensor(value), _rows(context, target, rows)
    name = context.name(op)
    if "slot" not in op.attrs:
        context.sequence.remote_write(source, buffer, numbers, name)
        return []
    slot, there = (_on_io_tiles(context, t.dtype, t.shape, name) for t in (source, numbers))
    context.sequence.copy(source, slot, name)
    context.sequence.copy(numbers, there, name)
    context.writes_behind.remote_write(slot, buffer, there, name)
    return []


def lower_host_buffer(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A value in a remote buffer: the program has no elements of it in SRAM."""
    return [context.graph.add_variable(op.result.dtype, (0,), context.name(op))]


def _remote_buffer(context: Context, op: Op, value: Value) -> _ipu.RemoteBuffer:
    """The remote buffer of a value in host memory: its rows are those of the first dimension, or the whole is one."""
    name = context.stream_prefix + op.attrs["buffer"]
    buffer = context.remote_buffers.get(name)
    if buffer is None:
        rows = _num_rows(value)
        buffer = context.graph.add_remote_buffer(name, value.dtype, num_elements(value.shape) // rows, rows)
        context.remote_buffers[name] = buffer
    return buffer


def _is_read_by_rows(value: Value) -> bool:
    return any(user.name in HOST_READS and len(user.operands) > 1 for user in value.users)


def _rows(context: Context, value: Value, rows: list[Value]) -> _ipu.Tensor:
    """The numbers of the rows that an op reads or writes; without an operand for them, of all."""
    if rows:
        return context.tensor(rows[0])
    return context.constant(Literal.from_numpy("s32", np.arange(_num_rows(value), dtype=np.int32)))


def _num_rows(value: Value) -> int:
    return 1 if value.op is not None and value.op.attrs.get("whole") else value.shape[0]


def write_result(context: Context, value: Value, position: int) -> None:
    """Streams `value` out, which is the result of this position."""
    name = f"{context.stream_prefix}out{position}"
    stream = context.graph.add_device_to_host_fifo(name, value.dtype, num_elements(value.shape))
    context.sequence.stream_out(context.tensor(value), stream, context.result_names[position])


LOWERINGS = {
    "ipu.host_buffer": lower_host_buffer,
    "ipu.host_read": lower_host_read,
    "ipu.host_write": lower_host_write,
    "ipu.read_ahead": lower_read_ahead,
    "ipu.take_ahead": lower_take_ahead,
}
