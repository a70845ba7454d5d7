"""Options of a compilation: `jax.jit(f, compiler_options={"ipu_mapping": "linear"})`."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError

MAPPINGS = ("demand", "linear")
# Field of xla.CompileOptionsProto: map<string, OptionOverrideProto> env_option_overrides.
_OVERRIDES_FIELD = 7


class Options(NamedTuple):
    """`mapping`: "demand" gives every tensor the layout its consumers ask for, "linear" spreads all of them alike."""

    mapping: str = "demand"


def compile_options(serialized: bytes) -> Options:
    """Reads the options from a serialised xla.CompileOptionsProto; those of other compilers are ignored.

    Raises CompileError(INVALID_ARGUMENT) for an unknown value of an option of ours.
    """
    mapping = "demand"
    for field, value in _fields(serialized):
        if field != _OVERRIDES_FIELD or not isinstance(value, bytes):
            continue
        entry = dict(_fields(value))
        key, override = entry.get(1, b""), entry.get(2, b"")
        if key != b"ipu_mapping" or not isinstance(override, bytes):
            continue
        text = dict(_fields(override)).get(1, b"")
        mapping = text.decode() if isinstance(text, bytes) else str(text)
    if mapping not in MAPPINGS:
        raise CompileError(
            f"compiler option ipu_mapping={mapping!r} is not valid; use one of {', '.join(MAPPINGS)}", INVALID_ARGUMENT
        )
    return Options(mapping)


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: ints for varints, bytes for the rest."""
    fields: list[tuple[int, int | bytes]] = []
    position = 0
    try:
        while position < len(data):
            tag, position = _varint(data, position)
            number, wire = tag >> 3, tag & 7
            value: int | bytes
            if wire == 0:
                value, position = _varint(data, position)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                value, position = data[position : position + size], position + size
            elif wire == 2:
                size, position = _varint(data, position)
                value, position = data[position : position + size], position + size
            else:
                raise CompileError("the compile options are not a serialised CompileOptionsProto", INVALID_ARGUMENT)
            fields.append((number, value))
    except IndexError:
        raise CompileError("the compile options are truncated", INVALID_ARGUMENT) from None
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
