"""Stage "parse": the bytes of a program to an MLIR module, and for how many IPUs it is."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import sdy, stablehlo

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.frontend.attributes import read
from jax_ipu.compiler.frontend.depth import check_text_depth
from jax_ipu.compiler.frontend.large_constants import only_in_constants, set_aside
from jax_ipu.compiler.frontend.legalize import computes_no_constants
from jax_ipu.compiler.frontend.programs import ParsedProgram
from jax_ipu.compiler.frontend.quantized import load_quantized_types
from jax_ipu.compiler.frontend.strings import check_names, may_be_bytes
from jax_ipu.compiler.proto import build_options, proto_fields
from jax_ipu.compiler.stages import staged

# First bytes of MLIR bytecode.
_BYTECODE_MAGIC = b"ML\xefR"
# The version of the encoding and the name of the producer follow.
_VERSION_BYTES = bytes(range(32))
_PORTABLE_PRODUCER = b"StableHLO_v"
# The IPUs of the largest system, Bow Pod1024: each replica costs the model a thread, each partition the partitioner.
MAX_IPUS = 1024
# Contexts of portable artifacts that wait for the next one, and how many artifacts each has read.
_idle: list[mlir.Context] = []
_uses: weakref.WeakKeyDictionary[mlir.Context, int] = weakref.WeakKeyDictionary()
_SMALL_PROGRAM, _MOST_USES, _MOST_IDLE = 1 << 16, 32, 4
# Fields of xla.ExecutableBuildOptionsProto.
_NUM_REPLICAS_FIELD, _NUM_PARTITIONS_FIELD = 4, 5


@staged("parse")
def parse(program: bytes | memoryview, program_format: str, options: bytes = b"") -> ParsedProgram:
    """Parses a StableHLO portable artifact, MLIR bytecode or MLIR text.

    Args:
        program: the bytes of the program, which must stay as long as it is compiled.
        program_format: "mlir".
        options: a serialised xla.CompileOptionsProto; its build options, where there are any, say how many replicas and
            partitions the program has, otherwise its own attributes do.

    Raises:
        CompileError: the format is another one, the program cannot be read, or it is for more IPUs than any system has
            (INVALID_ARGUMENT).
    """
    if program_format != "mlir":
        raise CompileError(f'program format "{program_format}" is not supported; use "mlir" or "hlo"', INVALID_ARGUMENT)
    return _with_stand_ins(program, options) or parsed_program(parse_module(bytes(program)), options)


def _with_stand_ins(program: bytes | memoryview, options: bytes) -> ParsedProgram | None:
    """The program without the elements of its large constants; None where that could change what it computes."""
    found = set_aside(program)
    if found is None:
        return None
    artifact, constants = found
    try:
        parsed = parsed_program(parse_module(artifact), options)
    except CompileError:  # of the program, which says so when it is parsed as it is, or of what was made of it
        return None
    module = parsed.source
    if parsed.num_partitions > 1 or not computes_no_constants(module, constants.are_unusual):
        return None
    uses = constants.uses_in(module)
    if uses.keys() != constants.elements.keys() or not only_in_constants(module):
        return None
    constants = replace(constants, uses=uses, parse_whole=lambda: parse_module(bytes(program)))
    return replace(parsed, constants=constants)


def whole_module(program: ParsedProgram) -> mlir.Module:
    """The module of a program with all its constants."""
    return program.source if program.constants.parse_whole is None else program.constants.parse_whole()


def parsed_program(module: mlir.Module, options: bytes) -> ParsedProgram:
    """The program of a module; raises as `parse` does for the number of IPUs."""
    replicas, partitions = _counts(module, options)
    return ParsedProgram(module, _name(module), options, replicas, partitions)


def parse_module(program: bytes) -> mlir.Module:
    """The MLIR module of a program: portable artifact, bytecode or text, in which all of XLA's dialects may occur.

    Raises:
        CompileError: it is none of these, or has names that are not UTF-8 (INVALID_ARGUMENT).
    """
    is_bytecode = program.startswith(_BYTECODE_MAGIC)
    module = _parse_bytecode(program) if is_bytecode else _parse_text(program)
    if may_be_bytes(program, is_bytecode):
        check_names(module)
    return module


def _parse_text(program: bytes) -> mlir.Module:
    try:
        program.decode()
    except UnicodeDecodeError as error:
        raise CompileError(f"the program is neither MLIR bytecode nor text: {error}", INVALID_ARGUMENT) from error
    check_text_depth(program)
    return _parse_other(_new_context(), program)


def _parse_bytecode(program: bytes) -> mlir.Module:
    if not program[len(_BYTECODE_MAGIC) :].lstrip(_VERSION_BYTES).startswith(_PORTABLE_PRODUCER):
        # Diagnostics go to stderr: in a Python string, a damaged name in them would end the process.
        context = _new_context()
        context.emit_error_diagnostics = True
        return _parse_other(context, program)
    try:
        context = _idle.pop()
    except IndexError:
        context = _new_context()
    _uses[context] = _uses.get(context, 0) + 1
    try:
        return stablehlo.deserialize_portable_artifact(context, program)
    except Exception as error:
        raise CompileError(
            f"the StableHLO artifact cannot be read (details are on stderr): it is damaged, or newer than StableHLO"
            f" {stablehlo.get_current_version()}, which this jaxlib reads",
            INVALID_ARGUMENT,
        ) from error


def reuse_context(program: ParsedProgram, size: int) -> None:
    """Lets a later `parse` take the context of a program of `size` bytes, which nobody needs any more.

    A new context loads all dialects, which takes longer than the rest of `parse` for a small program. A context keeps
    the constants and types of all its programs, so it serves a limited number of small ones.
    """
    context = program.source.context
    if size <= _SMALL_PROGRAM and 0 < _uses.get(context, 0) < _MOST_USES and len(_idle) < _MOST_IDLE:
        _idle.append(context)


def _new_context() -> mlir.Context:
    # Not JAX's context, which has JAX's configuration and threads.
    context = mlir.Context()
    context.enable_multithreading(False)
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def _parse_other(context: mlir.Context, program: bytes) -> mlir.Module:
    """Parses text or plain bytecode, which may use dialects that portable artifacts never have."""
    from jaxlib.mlir.dialects import chlo, mhlo

    registry = mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    chlo.register_dialect(context)
    if b"mhlo" in program:
        mhlo.register_mhlo_dialect(context)  # otherwise its attributes are dropped
    try:
        if b"!quant." in program:
            load_quantized_types(context)
        return mlir.Module.parse(program, context)
    except Exception as error:
        raise CompileError(f"the program is not valid StableHLO: {error}", INVALID_ARGUMENT) from error


def _name(module: mlir.Module) -> str:
    """The name of the module, for messages."""
    given: Any = module.operation.attributes
    try:
        return str(given["sym_name"].value) if "sym_name" in given else "main"
    except (RuntimeError, UnicodeDecodeError):  # a damaged name
        return "main"


def _counts(module: mlir.Module, options: bytes) -> tuple[int, int]:
    """Replicas and partitions, by the build options, or by the module's attributes where there are none."""
    build = build_options(options)
    if build:
        fields = dict(proto_fields(build))
        # Absent fields are zero on the wire.
        return _checked_counts(*(fields.get(f, 0) or 1 for f in (_NUM_REPLICAS_FIELD, _NUM_PARTITIONS_FIELD)))
    given: Any = module.operation.attributes
    names = ("mhlo.num_replicas", "mhlo.num_partitions")
    return _checked_counts(*(read(given, name) if name in given else 1 for name in names))


def _checked_counts(num_replicas: object, num_partitions: object) -> tuple[int, int]:
    """The numbers of replicas and partitions, checked against the largest system."""
    if type(num_replicas) is int and type(num_partitions) is int and num_replicas > 0 and num_partitions > 0:
        if num_replicas * num_partitions <= MAX_IPUS:
            return num_replicas, num_partitions
    raise CompileError(
        f"num_replicas = {num_replicas} and num_partitions = {num_partitions} are not valid: both must be positive, "
        f"and their product at most {MAX_IPUS}",
        INVALID_ARGUMENT,
    )
