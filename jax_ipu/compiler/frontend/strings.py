"""Refuses names that are not UTF-8, for some of which MLIR's Python bindings end the process.

Names of attributes, symbols and locations must be UTF-8. Values may hold any bytes, for handlers of foreign functions.
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.frontend.bytecode import ALIGNED, MAGIC, STRINGS, read_number

# MLIR prints bytes beyond ASCII as a backslash and two hexadecimal digits.
_ESCAPED = re.compile(rb"\\[89A-Fa-f][0-9A-Fa-f]")
# A value follows "= "; other quoted texts are names, symbols or locations.
_QUOTED = re.compile(rb'(?P<value>= )?"(?P<text>(?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")


def may_be_bytes(program: bytes, is_bytecode: bool) -> bool:
    """Whether the program may have a string that is not UTF-8; where this is False, it has none."""
    if not is_bytecode:
        return _ESCAPED.search(program) is not None
    try:
        _string_section(program).decode()
    except (UnicodeDecodeError, IndexError):
        return True
    return False


def check_names(module: mlir.Module) -> None:
    """Raises CompileError (INVALID_ARGUMENT) for a name, symbol or location that is not UTF-8."""
    assembly: Any = module.operation.get_asm(binary=True, enable_debug_info=True)
    for found in _QUOTED.finditer(assembly):
        if found["value"]:
            continue
        text = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), found["text"])
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise CompileError(
                f"the program has the name {text!r}, which is not UTF-8 ({error.reason}); names of attributes, "
                "functions and locations must be UTF-8",
                INVALID_ARGUMENT,
            ) from error


def _string_section(program: bytes) -> bytes:
    """All strings in MLIR bytecode, each ended by a zero (https://mlir.llvm.org/docs/BytecodeFormat).

    Raises IndexError where there are none.
    """
    _, position = read_number(program, len(MAGIC))
    position = program.find(b"\0", position) + 1
    while position:
        kind = program[position]
        length, position = read_number(program, position + 1)
        if kind & ALIGNED:
            alignment, position = read_number(program, position)
            if not alignment:
                raise IndexError
            position = -(-position // alignment) * alignment
        if kind & ~ALIGNED == STRINGS:
            count, begin = read_number(program, position)
            for _ in range(count):
                # Most lengths take one byte.
                begin = begin + 1 if program[begin] & 1 else read_number(program, begin)[1]
            return program[begin : position + length]
        position += length
    raise IndexError
