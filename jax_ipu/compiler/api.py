"""The compiler as a function: a StableHLO program and options in, an executable out.

The program goes one way through the stages parse, partition, legalise, passes, map, lower and build. Each is a function
from one named value to the next; `fit.py` repeats the last four where a program does not fit into memory.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jax_ipu import _ipu
from jax_ipu.chips import target_of
from jax_ipu.compiler import cost
from jax_ipu.compiler.advice import advice
from jax_ipu.compiler.build import BuiltProgram
from jax_ipu.compiler.collector import collector_paused
from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.contexts import inside
from jax_ipu.compiler.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.fit import compile_to_fit
from jax_ipu.compiler.frontend.hlo import HLO_FORMATS, parse_hlo
from jax_ipu.compiler.frontend.importer import import_program
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse, reuse_context
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.frontend.programs import LegalProgram, LocalProgram, ParsedProgram
from jax_ipu.compiler.frontend.shown_program import shown_program
from jax_ipu.compiler.ir import Module, Value, size_in_bytes
from jax_ipu.compiler.options import Options, compile_options
from jax_ipu.compiler.out_of_memory import NoFit
from jax_ipu.compiler.pipeline import Change
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.shardings import local_shape, sharding_fields
from jax_ipu.compiler.types import Shape

# Changes whenever the same program may compile to another executable.
COMPILER_VERSION = "46"


# The message of MLIR's bindings for a string that is not UTF-8.
_NOT_UTF8 = "str_from_cstr_and_size(): conversion error"


@contextmanager
def reported() -> Iterator[None]:
    """Errors of Python that only the program can cause become a CompileError (INVALID_ARGUMENT) that says so."""
    try:
        yield
    except RecursionError:
        raise CompileError(
            "the program is nested too deep for the stack of this thread; nest fewer loops and branches, or compile it"
            " outside of deep recursion",
            INVALID_ARGUMENT,
        ) from None
    except (RuntimeError, UnicodeDecodeError) as error:
        if isinstance(error, RuntimeError) and _NOT_UTF8 not in str(error):
            raise
        raise CompileError(
            "a string of the program is not UTF-8; only the attributes of foreign functions may hold other bytes",
            INVALID_ARGUMENT,
        ) from None


@inside(reported)
@inside(collector_paused)
def compile(
    program: bytes | memoryview,
    format: str,
    options: bytes,
    target: str,
    observe: Callable[[Compilation], None] | None = None,
    machine: int | None = None,
) -> _ipu.Executable:
    """Compiles a StableHLO program for one IPU or several. Deterministic, and reads nothing but its arguments.

    Args:
        program: a StableHLO portable artifact, MLIR bytecode or MLIR text; or a serialised HLO module.
        format: "mlir"; or "hlo" for an xla.HloModuleProto, "hlo_with_config" for an xla.HloModuleProtoWithConfig.
        options: a serialised xla.CompileOptionsProto; b"" for the defaults.
        target: architecture and number of tiles, e.g. "ipu2:1472"; without a number, all tiles.
        observe: is given the compilation, also where the program does not fit.
        machine: bytes of memory of the machine that is to run it, for what it keeps there; None where nobody says.

    Raises:
        CompileError: the program is not valid (INVALID_ARGUMENT) or uses what is not supported (UNIMPLEMENTED).
        _ipu.OutOfMemory, or CompileError for what is seen early: it does not fit into the memory of the tiles, or into
            that of the host (RESOURCE_EXHAUSTED).
        KeyboardInterrupt: Ctrl-C.
    """
    settings = compile_options(options)
    parsed = parse_hlo(bytes(program), format, options) if format in HLO_FORMATS else parse(program, format, options)
    ipu = parse_target(target)
    if settings.executable:
        return _loaded(settings.executable, parsed, f"{ipu.version}:{ipu.num_tiles}")
    result = attempt(parsed, settings, ipu, detailed=observe is not None, machine=machine)
    if observe is not None:
        observe(result)
    if result.error is not None:
        raise result.error
    built = result.built
    assert built is not None and result.legal is not None
    module, signature, compiled = built.module, built.signature, built.compiled
    digest = hashlib.sha256(COMPILER_VERSION.encode())
    replication = f"{module.num_replicas}x{module.num_partitions}"
    for part in (program, repr(settings).encode(), target.encode(), replication.encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    inputs, outputs = sharding_fields(module)
    described: dict[str, Any] = dict(
        name=module.name,
        fingerprint=digest.hexdigest(),
        target=f"{ipu.version}:{ipu.num_tiles}",
        inputs=[
            _ipu.InputSpec(**fields, **own)
            for fields, own in zip(
                signature.inputs(built.lowered.state_programs, built.lowered.swaps), inputs, strict=True
            )
        ],
        outputs=[_ipu.OutputSpec(**fields, **own) for fields, own in zip(signature.outputs(), outputs, strict=True)],
        main_program=0,
        communicates=compiled.communicates(0),
        link_group=settings.link,
        mlir=shown_program(module, result.legal.constants),
        cost=_cost(module, compiled),
        memory=_memory(signature, compiled),
        host_callbacks=built.lowered.host_callbacks,
        ffi_calls=built.lowered.ffi_calls,
        num_replicas=module.num_replicas,
        num_partitions=module.num_partitions,
    )
    module.release()
    if format not in HLO_FORMATS:
        reuse_context(parsed, len(program))
    # Serialising copies the constants: the stages' own copies are freed first.
    del parsed, result, built, module, signature
    return compiled.as_executable(**described)


@inside(collector_paused)
def attempt(
    program: ParsedProgram,
    settings: Options,
    target: _ipu.Target,
    detailed: bool = False,
    change: Change | None = None,
    machine: int | None = None,
) -> Compilation:
    """All stages after "parse"; raises as `compile`, but not where the program does not fit.

    Args:
        program, settings, target: what to compile, and for which IPU.
        detailed: plan operations with all that a profile needs.
        change: compile this variant of the program, without advice where it does not fit.
        machine: bytes of memory of the machine that is to run it; None where nobody says.
    """
    plans = _ipu.TilePlanCache(detailed)
    built: BuiltProgram | None = None
    legal: LegalProgram | None = None
    reason: _ipu.OutOfMemory | CompileError | None = None
    with Progress(program.name) as progress:
        progress.stage("importing the program")
        try:
            legal = legalize(partition(program))
            built = compile_to_fit(legal, settings, target, progress, plans, change, machine)
        except NoFit as failure:
            reason = failure.error
            if change is None and legal is not None:
                reason.args = (f"{reason}{advice(program, legal, settings, target, failure, progress)}",)
        except CompileError as error:
            if error.code != RESOURCE_EXHAUSTED:
                raise
            reason = error
    num_ipus = program.num_replicas * program.num_partitions
    return Compilation(program.name, num_ipus, target, settings, built, reason, progress.phases(), legal)


def _loaded(encoded: str, parsed: ParsedProgram, target: str) -> _ipu.Executable:
    """Loads an executable that was compiled before, in place of a program with the same signature."""
    executable = _ipu.Executable.deserialize(base64.b64decode(encoded))
    if executable.target != target:
        raise CompileError(f"the executable was compiled for {executable.target}, this is {target}", INVALID_ARGUMENT)
    counts = (parsed.num_replicas, parsed.num_partitions)
    if (executable.num_replicas, executable.num_partitions) != counts:
        devices, wanted = executable.num_replicas * executable.num_partitions, counts[0] * counts[1]
        ipus = f"{devices} IPU{'s' if devices > 1 else ''}"
        raise CompileError(f"the executable was compiled for {ipus}, the program is for {wanted}", INVALID_ARGUMENT)
    # Not partitioned: the executable has the shardings of its arguments and results.
    whole = LocalProgram(parsed.source, None, *counts)
    main = import_program(legalize(whole)).main
    inputs = _local_types(main.block.args, executable.input_shardings)
    outputs = _local_types(main.block.results, executable.output_shardings)
    if inputs != executable.input_types or outputs != executable.output_types:
        raise CompileError(
            f"the executable takes {executable.input_types} and gives {executable.output_types}, the program takes "
            f"{inputs} and gives {outputs}",
            INVALID_ARGUMENT,
        )
    return executable


def _local_types(values: list[Value], shardings: list[bytes]) -> list[tuple[str, Shape]]:
    """Type and shape of the part of each value that one IPU has."""
    padded = [*shardings, *[b""] * len(values)]
    return [(v.dtype, local_shape(v.shape, s)) for v, s in zip(values, padded, strict=False)]


def parse_target(target: str) -> _ipu.Target:
    """The target of a text like "ipu2" or "ipu2:1472" (architecture and number of tiles).

    Raises:
        CompileError: there is no such architecture, or it has not as many tiles (INVALID_ARGUMENT).
    """
    try:
        return target_of(target)
    except ValueError as error:
        raise CompileError(str(error), INVALID_ARGUMENT) from None


def _cost(module: Module, compiled: _ipu.CompiledGraph) -> _ipu.CostReport:
    report = compiled.cost()
    counted = cost.of_block(module.main.block)
    report.bytes_accessed = counted.bytes_accessed
    report.transcendentals = counted.transcendentals
    return report


def _memory(signature: Signature, compiled: _ipu.CompiledGraph) -> _ipu.MemoryReport:
    report = compiled.memory()
    arguments = [(size_in_bytes(a.value), a.in_host_memory) for a in signature.arguments]
    results = [
        (size_in_bytes(r), in_host_memory)
        for r, in_host_memory in zip(signature.results, signature.host_results, strict=True)
    ]
    report.argument_bytes = sum(size for size, in_host_memory in arguments if not in_host_memory)
    report.host_argument_bytes = sum(size for size, in_host_memory in arguments if in_host_memory)
    report.output_bytes = sum(size for size, in_host_memory in results if not in_host_memory)
    report.host_output_bytes = sum(size for size, in_host_memory in results if in_host_memory)
    report.alias_bytes = sum(size_in_bytes(a.value) for a in signature.arguments if a.resident)
    return report
