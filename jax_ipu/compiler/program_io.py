"""The signature of the compiled program: which arguments are streamed, stay in SRAM, or are results unchanged."""

from __future__ import annotations

from typing import Any

from jax_ipu.compiler.ir import (
    ARGUMENT_NAME,
    HOST_MEMORY,
    MAJOR_TO_MINOR,
    MEMORY_KIND,
    RESULT_NAME,
    Function,
    Op,
    Value,
)
from jax_ipu.compiler.types import Shape, num_elements

# Ops that read an argument in host memory, at once or for a later trip of a loop.
HOST_READS = frozenset(("ipu.host_read", "ipu.read_ahead"))


class Argument:
    """How one argument reaches the program.

    With `aliased_output` >= 0 it stays in SRAM between calls and becomes that result (it is "resident"). With `kept` it
    stays in SRAM and is only read. All others are streamed in by every call.
    """

    __slots__ = (
        "aliased_output",
        "donated",
        "in_host_memory",
        "index",
        "kept",
        "major_to_minor",
        "name",
        "read_where_used",
        "unchanged",
        "used",
        "value",
    )

    def __init__(self, index: int, value: Value, name: str = "") -> None:
        self.index = index
        self.name = name or f"argument {index}"  # in messages
        self.value = value
        self.donated = False
        self.in_host_memory = False
        self.major_to_minor: tuple[int, ...] = ()
        self.aliased_output = -1
        self.unchanged = False
        self.used = True
        self.kept = False
        # Ops "ipu.host_read" stream it in.
        self.read_where_used = False

    @property
    def resident(self) -> bool:
        return self.aliased_output >= 0


def in_host_memory(attrs: dict[str, Any]) -> bool:
    """Whether an argument or result with these attributes is in host memory between calls."""
    return attrs.get(MEMORY_KIND) == HOST_MEMORY


def _result_name(attrs: dict[str, Any], position: int) -> str:
    name = attrs.get(RESULT_NAME)
    return name if isinstance(name, str) and name else f"result {position}"


class Signature:
    """How all arguments and results reach the program, from the attributes of main and its optimised body."""

    __slots__ = (
        "_block",
        "aliased_inputs",
        "arguments",
        "forwarded",
        "host_results",
        "result_names",
        "result_orders",
        "results",
        "written_where_made",
    )

    def __init__(self, main: Function) -> None:
        block = self._block = main.block
        self.results = block.results
        self.arguments = [
            Argument(i, value, attrs.get(ARGUMENT_NAME, ""))
            for i, (value, attrs) in enumerate(zip(block.args, main.arg_attrs, strict=True))
        ]
        self.host_results = [in_host_memory(attrs) for attrs in main.result_attrs]
        self.result_names = [_result_name(attrs, position) for position, attrs in enumerate(main.result_attrs)]
        self.result_orders = [attrs.get(MAJOR_TO_MINOR, ()) for attrs in main.result_attrs]
        # Result -> resident argument; result -> argument that is the result unchanged, without a copy on the device.
        self.aliased_inputs: dict[int, int] = {}
        self.forwarded: dict[int, int] = {}
        # Results that ops "ipu.host_write" stream out.
        self.written_where_made: set[int] = set()
        for argument, attrs in zip(self.arguments, main.arg_attrs, strict=True):
            output = attrs.get("tf.aliasing_output")
            argument.donated = output is not None or bool(attrs.get("jax.buffer_donor", False))
            argument.in_host_memory = in_host_memory(attrs)
            argument.major_to_minor = attrs.get(MAJOR_TO_MINOR, ())
            # Arguments and results in host memory are streamed by every call, donated or not.
            if output is None or argument.in_host_memory or self.host_results[output]:
                continue
            if output not in self.aliased_inputs and num_elements(argument.value.shape):
                argument.aliased_output = output
                argument.unchanged = self.results[output] is argument.value
                self.aliased_inputs[output] = argument.index
        index_of = {value: i for i, value in enumerate(block.args)}
        for position, value in enumerate(self.results):
            if position in self.aliased_inputs:
                continue
            source = index_of.get(value)
            if source is not None and not self.arguments[source].resident:
                self.forwarded[position] = source
        terminator = block.terminator
        for argument in self.arguments:
            uses = [user for user in argument.value.users if user is not terminator]
            returned = any(
                value is argument.value and position not in self.forwarded
                for position, value in enumerate(self.results)
            )
            argument.read_where_used = any(user.name in HOST_READS for user in uses)
            argument.used = bool(uses or returned or argument.resident) and num_elements(argument.value.shape) > 0

    def readers(self) -> list[list[Op]]:
        """The ops that read each argument, in program order; those in regions among them."""
        position = {op: number for number, op in enumerate(self._block.walk())}
        return [sorted(a.value.users, key=lambda op: position.get(op, len(position))) for a in self.arguments]

    def keep(self, written: frozenset[int]) -> None:
        """Decides which arguments are kept: those that later calls may pass again and the program does not write."""
        for a in self.arguments:
            a.kept = a.used and not (a.resident or a.donated or a.in_host_memory or a.index in written)

    def aliases(self) -> dict[int, int]:
        """Result -> the argument whose storage it is written into, both by position."""
        return {j: i for j, i in self.aliased_inputs.items() if not self.arguments[i].unchanged}

    def read_only(self) -> frozenset[int]:
        return frozenset(a.index for a in self.arguments if a.unchanged)

    def swaps(self) -> dict[int, int]:
        """Resident argument -> the first one of its type: a later call may pass its state as another argument."""
        by_type: dict[tuple[str, Shape], list[int]] = {}
        for argument in self.arguments:
            if argument.resident:
                by_type.setdefault((argument.value.dtype, argument.value.shape), []).append(argument.index)
        return {index: group[0] for group in by_type.values() for index in group[1:]}

    def inputs(self, programs: dict[int, tuple[int, int]], swaps: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
        """The fields of each InputSpec, without its sharding.

        Args:
            programs: argument that stays in SRAM -> its write program, and its read program or -1.
            swaps: resident argument -> the argument that its state can be swapped with, and the program that does it.
        """
        fields = []
        for argument in self.arguments:
            write, read = programs.get(argument.index, (-1, -1))
            other, swap = swaps.get(argument.index, (-1, -1))
            fields.append(
                {
                    "dtype": argument.value.dtype,
                    "shape": argument.value.shape,
                    "major_to_minor": argument.major_to_minor,
                    "donated": argument.donated,
                    "aliased_output": argument.aliased_output,
                    "unchanged": argument.unchanged,
                    "used": argument.used,
                    "write_program": write,
                    "read_program": read,
                    "swap_with": other,
                    "swap_program": swap,
                    "name": argument.name,
                    "in_host_memory": argument.in_host_memory,
                }
            )
        return fields

    def outputs(self) -> list[dict[str, Any]]:
        """The fields of each OutputSpec, without its sharding."""
        return [
            {
                "dtype": value.dtype,
                "shape": value.shape,
                "major_to_minor": self.result_orders[position],
                "aliased_input": self.aliased_inputs.get(position, -1),
                "forwarded_input": self.forwarded.get(position, -1),
                "in_host_memory": self.host_results[position],
                "name": self.result_names[position],
            }
            for position, value in enumerate(self.results)
        ]
