"""Expands ragged_all_to_all, in which each member of a group sends slices of any length to each other member.

A collective moves a number of bytes that is fixed at compile time, but the lengths of the slices are known only at run
time. A member may send all its rows to one other member. So each member gathers the rows of all members and picks those
that are sent to it: a padded all_to_all would move as many bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ffi_calls import ATTRIBUTE, FfiCall
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.replica_groups import Groups
from jax_ipu.compiler.types import Literal, num_elements

TARGET = "ragged_all_to_all"
_INDEX = "s32"


def _custom_call(op: Op, rewriter: Rewriter) -> Value | None:
    if op.attrs.get("call_target_name") != TARGET:
        return None
    operand, output, *numbers = op.operands
    begins, _, destinations, sizes = (rewriter.convert(value, _INDEX) for value in numbers)
    if not num_elements(output.shape) or not num_elements(operand.shape):
        return output
    groups = _groups(op)
    members, slices, rows = len(groups[0]), begins.shape[0], operand.shape[0]
    if slices % members:
        raise _invalid(op, f"has {slices} slices, which {members} members cannot share alike")
    begins, destinations = _received(rewriter, (begins, destinations), groups)
    if members > 1:
        shape = (members * rows, *operand.shape[1:])
        operand = rewriter.emit("all_gather", (operand,), shape, operand.dtype, _over(groups) | {"all_gather_dim": 0})
    # Slice s goes from row begins[s] of the operand of its sender to row destinations[s] of the result.
    senders = rewriter.constant(Literal.from_numpy(_INDEX, np.arange(slices) // (slices // members) * rows))
    shift = rewriter.elementwise("subtract", rewriter.elementwise("add", begins, senders), destinations)
    row, chosen = _chosen_rows(rewriter, output.shape[0], shift, destinations, sizes)
    return rewriter.elementwise(
        "select",
        rewriter.broadcast(chosen, output.shape, (0,)),
        _gathered(rewriter, operand, row),
        output,
        dtype=output.dtype,
    )


def _chosen_rows(rewriter: Rewriter, rows: int, shift: Value, begins: Value, sizes: Value) -> tuple[Value, Value]:
    """For each row of the result its row in the gathered operand, and whether a slice covers it; the last counts."""
    shape = (rows, *shift.shape)
    numbers = [rewriter.emit("iota", (), shape, _INDEX, {"iota_dimension": d}) for d in range(2)]
    begin = rewriter.broadcast(begins, shape, (1,))
    end = rewriter.elementwise("add", begin, rewriter.broadcast(sizes, shape, (1,)))
    covers = rewriter.elementwise(
        "and", _compare(rewriter, "GE", numbers[0], begin), _compare(rewriter, "LT", numbers[0], end)
    )
    none = rewriter.full(shape, _INDEX, -1)
    last = rewriter.reduce("maximum", rewriter.elementwise("select", covers, numbers[1], none, dtype=_INDEX), (1,), -1)
    is_last = _compare(rewriter, "EQ", numbers[1], rewriter.broadcast(last, shape, (0,)))
    source = rewriter.elementwise("add", rewriter.broadcast(shift, shape, (1,)), numbers[0])
    zero = rewriter.full(shape, _INDEX, 0)
    row = rewriter.sum(rewriter.elementwise("select", is_last, source, zero, dtype=_INDEX), (1,))
    return row, _compare(rewriter, "GE", last, rewriter.full(last.shape, _INDEX, 0))


def _gathered(rewriter: Rewriter, operand: Value, row: Value) -> Value:
    numbers = {
        "offset_dims": tuple(range(1, len(operand.shape))),
        "collapsed_slice_dims": (0,),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "start_index_map": (0,),
        "index_vector_dim": 1,
    }
    attrs = {"dimension_numbers": numbers, "slice_sizes": (1, *operand.shape[1:])}
    return rewriter.emit("gather", (operand, row), (*row.shape, *operand.shape[1:]), operand.dtype, attrs)


def _received(rewriter: Rewriter, values: tuple[Value, ...], groups: Groups) -> list[Value]:
    """The parts of `values` about slices that are sent to this member, in the order of senders, by one all_to_all."""
    members, count = len(groups[0]), values[0].shape[0]
    if members == 1:
        return list(values)
    parts = [rewriter.reshape(value, (members, 1, count // members)) for value in values]
    shape = (members, len(parts), count // members)
    together = rewriter.emit("concatenate", parts, shape, _INDEX, {"dimension": 1})
    attrs = {"split_dimension": 0, "concat_dimension": 0, "split_count": members}
    received = rewriter.emit("all_to_all", (together,), shape, _INDEX, _over(groups) | attrs)
    return [
        rewriter.reshape(rewriter.slice(received, (0, i, 0), (members, i + 1, shape[2])), (count,))
        for i in range(len(parts))
    ]


def _compare(rewriter: Rewriter, direction: str, a: Value, b: Value) -> Value:
    return rewriter.elementwise("compare", a, b, dtype="pred", comparison_direction=direction)


def _over(groups: Groups) -> dict[str, Any]:
    """The attributes of a collective over these groups of devices, for programs with only replicas or partitions."""
    groups_attr = tuple(map(tuple, groups))
    handle = "#stablehlo.channel_handle<handle = 1, type = 1>"
    return {"replica_groups": groups_attr, "use_global_device_ids": True, "channel_handle": handle}


def _groups(op: Op) -> Groups:
    call = op.attrs.get(ATTRIBUTE)
    members = call.attributes.members if isinstance(call, FfiCall) else ()
    listed = next((member for member in members if member.name == "replica_groups"), None)
    if len(op.operands) != 6 or listed is None or len(listed.shape) != 2 or 0 in listed.shape:
        raise _invalid(op, "has not six operands, or no replica groups of one size")
    groups: Groups = np.frombuffer(listed.data, np.int64).reshape(listed.shape).tolist()
    return groups


def _invalid(op: Op, what: str) -> CompileError:
    return CompileError(f"{TARGET} at {source_line(op.location) or 'an unknown source line'} {what}", INVALID_ARGUMENT)


def _refuse(op: Op, rewriter: Rewriter) -> None:
    if op.attrs.get("call_target_name") == TARGET:
        raise _invalid(
            op, "is in a program with both replicas and partitions; use shard_map, which has partitions only"
        )


RULES: dict[str, Rule] = {"custom_call": _custom_call}
RULES_OF_REPLICATED_PARTITIONS: dict[str, Rule] = {"custom_call": _refuse}
