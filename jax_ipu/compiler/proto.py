"""The wire format of protobuf messages, as far as compile options need it."""

from __future__ import annotations

import functools

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError

# Field of xla.CompileOptionsProto: ExecutableBuildOptionsProto executable_build_options.
BUILD_OPTIONS_FIELD = 3


def proto_fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: ints for varints, bytes for the rest.

    Raises:
        CompileError: `data` is no such message, or ends within a field (INVALID_ARGUMENT).
    """
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


def message(field: int, data: bytes) -> bytes:
    """A field of bytes: its tag, its length, and `data`."""
    size, length = bytearray(), len(data)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([field << 3 | 2]) + bytes([*size, length]) + data


@functools.lru_cache(maxsize=64)
def build_options(serialized_options: bytes) -> bytes:
    """The ExecutableBuildOptionsProto in a CompileOptionsProto; b"" where there is none."""
    build = dict(proto_fields(serialized_options)).get(BUILD_OPTIONS_FIELD, b"")
    return build if isinstance(build, bytes) else b""
