"""Custom calls that place arrays on tiles and run vertices there: their configurations, as plain data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.types import SIZE, Shape

# The attribute of an op that holds one of the classes below.
ATTRIBUTE = "ipu.tile_call"
# Target of the custom call -> the op that it becomes.
OPS = {
    "ipu_tile_put": "ipu.tile_put",
    "ipu_tile_gather": "ipu.tile_gather",
    "ipu_tile_map": "ipu.tile_map",
    "ipu_cycle_count": "ipu.cycle_count",
}

_UNARY = """abs cbrt ceil clz convert cos erf exp expm1 floor inverse is_finite log log1p logistic negate not popcnt
    round_nearest_afz round_nearest_even rsqrt sign sin sqrt square tan tanh"""
_BINARY = """add and atan2 divide eq ge gt le lt maximum minimum multiply ne or power remainder shift_left
    shift_right_arithmetic shift_right_logical subtract xor"""
# Operations of which a vertex may have the cycles: their numbers of operands.
OPERATIONS = {
    "fill": 0,
    **dict.fromkeys(_UNARY.split(), 1),
    **dict.fromkeys(_BINARY.split(), 2),
    "scaled_add": 3,
    "scaled_subtract": 3,
    "select": 3,
}


@dataclass(frozen=True)
class OnTiles:
    """Part [i] of the result is on tiles[i]. A gather takes part indices[i] of its operand.

    `sync`: all tiles meet before a cycle count.
    """

    tiles: tuple[int, ...]
    indices: tuple[int, ...] = ()
    sync: bool = False


@dataclass(frozen=True)
class Codelets:
    """C++ source of codelets; `name` is for messages, `flags` for the compiler."""

    text: str
    name: str
    flags: str


@dataclass(frozen=True)
class Temporary:
    """A field for which the compiler makes memory that has no value before and after."""

    field: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class VertexCall:
    """One vertex of a class on each tile, all in one superstep.

    Attributes:
        primitive: for messages.
        vertex: name of the class, with template arguments.
        codelets: its source; None for a class that the graph has.
        tiles: the tile of each vertex.
        inputs: the fields of the operands; vertex i takes part [i] of each.
        constants: the fields of the operands after these, which all vertices take whole.
        outputs: the fields of the results.
        aliases: (result, operand) for each field that is read and written.
        temporaries: fields for which the compiler makes memory.
        values: fields that are numbers in the vertex.
        cycles: those of one vertex; None for the model's own estimate.
        operation: one of OPERATIONS, which gives the cycles where `cycles` does not; "" for none.
    """

    primitive: str
    vertex: str
    codelets: Codelets | None
    tiles: tuple[int, ...]
    inputs: tuple[str, ...]
    constants: tuple[str, ...]
    outputs: tuple[str, ...]
    aliases: tuple[tuple[int, int], ...]
    temporaries: tuple[Temporary, ...]
    values: tuple[tuple[str, bool | int | float], ...]
    cycles: int | None
    operation: str


TileCall = OnTiles | VertexCall


def read(target: str, configuration: Any, operands: int, results: int) -> TileCall:
    """The call that a custom call describes, whose configuration is JSON.

    Raises:
        CompileError: the configuration is damaged (INVALID_ARGUMENT).
    """
    try:
        data = json.loads(str(configuration))
        if target != "ipu_tile_map":
            indices = data.get("indices", ())
            tiles = tuple(map(_index, data["tiles"]))
            call: TileCall = OnTiles(tiles, tuple(map(_index, indices)), bool(data.get("sync", False)))
        else:
            call = _vertex_call(data, operands, results)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CompileError(f"{target} has a damaged configuration: {error!r}", INVALID_ARGUMENT) from None
    return call


def _vertex_call(data: dict[str, Any], operands: int, results: int) -> VertexCall:
    source = data["codelets"]
    call = VertexCall(
        primitive=str(data["primitive"]),
        vertex=str(data["vertex"]),
        codelets=None if source is None else Codelets(*map(str, source)),
        tiles=tuple(map(_index, data["tiles"])),
        inputs=tuple(map(str, data["inputs"])),
        constants=tuple(map(str, data["constants"])),
        outputs=tuple(map(str, data["outputs"])),
        aliases=tuple((_index(result), _index(operand)) for result, operand in data["aliases"]),
        temporaries=tuple(
            Temporary(str(field), tuple(map(_index, shape)), _dtype(dtype))
            for field, shape, dtype in data["temporaries"]
        ),
        values=tuple((str(field), _number(value)) for field, value in data["values"]),
        cycles=None if data["cycles"] is None else _index(data["cycles"]),
        operation=_operation(data.get("operation", "")),
    )
    if len(call.inputs) + len(call.constants) != operands or len(call.outputs) != results:
        raise ValueError("other operands or results than fields")
    if call.operation and (OPERATIONS[call.operation] != operands or results != 1):
        raise ValueError(f"{operands} operands and {results} results of the operation '{call.operation}'")
    if any(result >= results or operand >= len(call.inputs) for result, operand in call.aliases):
        raise ValueError("an alias of an operand or result that there is not")
    return call


def _index(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value >= 2**31:
        raise ValueError(f"{value!r} where a number from 0 on is expected")
    return value


def _operation(value: Any) -> str:
    if value not in ("", *OPERATIONS):
        raise ValueError(f"the operation {value!r}")
    return str(value)


def _number(value: Any) -> bool | int | float:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r} where a number is expected")
    return value


def _dtype(value: Any) -> str:
    if value not in SIZE:
        raise ValueError(f"the element type {value!r}")
    return str(value)
