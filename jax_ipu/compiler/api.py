"""The compiler as a function: a StableHLO program and options in, an executable out."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler import capacity, cost, importer, mapping, out_of_memory, partition, pipeline
from jax_ipu.compiler.build import Built, build
from jax_ipu.compiler.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.ir import Module, Value
from jax_ipu.compiler.options import Options, compile_options
from jax_ipu.compiler.passes import inplace, outline, schedule
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.shown_program import shown_program
from jax_ipu.compiler.types import Shape

# Changes whenever the same program may compile to something else.
COMPILER_VERSION = "8"


def compile(program: bytes, format: str, options: bytes, target: str) -> _ipu.Executable:
    """Compiles a StableHLO program for one IPU or several. Deterministic, and reads nothing but its arguments.

    Args:
        program: a StableHLO portable artifact, MLIR bytecode or MLIR text.
        format: "mlir".
        options: a serialised xla.CompileOptionsProto; b"" for the defaults.
        target: architecture and number of tiles, e.g. "ipu2:1472"; without a number, all tiles.

    Raises:
        CompileError: the program is not valid (INVALID_ARGUMENT) or uses what is not supported (UNIMPLEMENTED).
        _ipu.OutOfMemory, or CompileError for what is seen early: it does not fit into the memory of the tiles
            (RESOURCE_EXHAUSTED).
        KeyboardInterrupt: Ctrl-C.
    """
    settings = compile_options(options)
    parsed = importer.parse(program, format)
    ipu = parse_target(target)
    if settings.executable:
        return _loaded(settings.executable, parsed, options, f"{ipu.version}:{ipu.num_tiles}")
    with Progress(importer.name(parsed)) as progress:
        module, signature, built, compiled = compile_to_fit(parsed, settings, options, ipu, progress)
    digest = hashlib.sha256(COMPILER_VERSION.encode())
    replication = f"{module.num_replicas}x{module.num_partitions}"
    for part in (program, repr(settings).encode(), target.encode(), replication.encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    inputs, outputs = partition.sharding_fields(module)
    executable = _ipu.Executable(
        module.name,
        digest.hexdigest(),
        f"{ipu.version}:{ipu.num_tiles}",
        [
            {**fields, **own}
            for fields, own in zip(signature.inputs(built.state_programs, built.exchanges), inputs, strict=True)
        ],
        [{**fields, **own} for fields, own in zip(signature.outputs(), outputs, strict=True)],
        compiled.serialize(),
        0,
        shown_program(module),
        _cost_fields(module, compiled),
        _memory_fields(signature, compiled),
        built.host_callbacks,
        built.ffi_calls,
        module.num_replicas,
        module.num_partitions,
    )
    module.release()
    return executable


def _loaded(encoded: str, parsed: Any, options: bytes, target: str) -> _ipu.Executable:
    """An executable that was compiled before, in the place of a program with its signature."""
    executable = _ipu.Executable.deserialize(base64.b64decode(encoded))
    if executable.target != target:
        raise CompileError(f"the executable was compiled for {executable.target}, this is {target}", INVALID_ARGUMENT)
    counts = partition.counts(parsed, options)
    if (executable.num_replicas, executable.num_partitions) != counts:
        devices, wanted = executable.num_replicas * executable.num_partitions, counts[0] * counts[1]
        raise CompileError(
            f"the executable was compiled for {devices} IPUs, the program is for {wanted}", INVALID_ARGUMENT
        )
    main = importer.import_module(parsed).main
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
    """Type and shape of what one IPU has of each value."""
    padded = [*shardings, *[b""] * len(values)]
    return [(v.dtype, partition.local_shape(v.shape, s)) for v, s in zip(values, padded, strict=False)]


_Prepared = tuple[Module, Signature, mapping.MappingPlan]
_Compiled = tuple[Module, Signature, Built, _ipu.CompiledGraph]
# What attempts have in common.
_Shared = tuple[_ipu.PlanCache, Progress]
# What it is called, the options, and whether they make another program.
_Frugal = tuple[str, Callable[[Options], Options | None], Callable[[_Prepared, _Prepared], bool]]


def _compile_prepared(
    prepared: _Prepared, settings: Options, target: _ipu.Target, shared: _Shared, keep: bool = False
) -> _Compiled:
    """`keep`: with the arguments in SRAM between calls that are only read."""
    module, signature, plan = prepared
    plans, progress = shared
    progress.stage("mapping tensors to tiles")
    built = build(module, signature, plan, target, settings, keep)
    progress.stage("planning operations")
    try:
        compiled = _ipu.compile_graph(built.graph, built.programs, module.name, plans, progress.step)
    except _ipu.OutOfMemory:
        if not built.exchanges:
            raise
        # Exchange programs are code in SRAM, too: without them states that change places cross the host link.
        built = built.without_exchanges()
        compiled = _ipu.compile_graph(built.graph, built.programs, module.name, plans, progress.step)
    return module, signature, built, compiled


def compile_to_fit(
    parsed: Any, settings: Options, options: bytes, target: _ipu.Target, progress: Progress
) -> _Compiled:
    """What saves memory costs cycles, so it is done only where the program does not fit without.

    First arguments that are only read are streamed by every call. Then repeated blocks become functions, cheap values
    are computed again rather than kept, and collectives are not combined. Then tensors that are sliced or looked up are
    spread over all tiles: the few tiles that could slice them without an exchange may be full of them. At last products
    and convolutions get less memory for their temporaries. Where one of these fits, there may be room for arguments
    after all. Attempts share plans, so that one costs little where it differs little, and end where none can help.
    """
    progress.stage("importing the program")
    program, shared = partition.LocalProgram(parsed, options), (_ipu.PlanCache(), progress)
    progress.stage("simplifying the program")
    prepared, more_frugal = prepare_local(program, settings), iter(_MORE_FRUGAL)
    kept = _compile_kept(prepared, settings, target, shared)
    if kept is not None:
        return kept
    failures: list[tuple[out_of_memory.Need, _ipu.OutOfMemory, _Prepared]] = []
    while True:
        try:
            streamed = _compile_prepared(prepared, settings, target, shared)
            kept = _compile_kept(prepared, settings, target, shared) if failures else None
            return kept or streamed
        except capacity.TooLarge as error:
            module, signature, _ = prepared
            lasting = frozenset(signature.results[j] for j in signature.aliased_inputs)
            need = out_of_memory.Need.of_values(error.values, lasting, target)
            text = f"{error}{out_of_memory.advice(module, signature, target, need)}"
            raise CompileError(text, RESOURCE_EXHAUSTED) from None
        except _ipu.OutOfMemory as error:
            failures.append((need := out_of_memory.Need.of(error, target), error, prepared))
            hopeless = _is_hopeless(error, target)
            following = _next_attempt(program, prepared, settings, more_frugal, need, fewer_tensors=hopeless)
        if following is None:
            # The one that is nearest to fitting says best what is too large.
            need, nearest, (module, signature, _) = min(failures, key=lambda failure: failure[0].total)
            nearest.args = (f"{nearest}{out_of_memory.advice(module, signature, target, need)}",)
            raise nearest
        what, settings, prepared = following
        progress.attempt(len(failures) + 1, what)


def _next_attempt(
    program: partition.LocalProgram,
    prepared: _Prepared,
    settings: Options,
    more_frugal: Iterator[_Frugal],
    need: out_of_memory.Need,
    fewer_tensors: bool,
) -> tuple[str, Options, _Prepared] | None:
    """The next way to compile that makes another program. `fewer_tensors`: and may have fewer live tensors."""
    for what, choose, differs in more_frugal:
        frugal = choose(settings)
        if frugal is None or (fewer_tensors and frugal.outline == settings.outline):
            continue
        saved = need.working * (1 - _LEAST_PROPORTION / settings.available_memory_proportion)
        if choose is _products_in_less and need.total - saved > need.limit:
            continue
        if differs(prepared, other := prepare_local(program, frugal)):
            return what, frugal, other
    return None


def _is_hopeless(error: _ipu.OutOfMemory, target: _ipu.Target) -> bool:
    """Whether the live tensors are larger than the memory.

    Only an attempt that computes values again, and does not combine collectives, has other tensors. Those after it
    change where tensors lie, and how much code and how many temporaries there are.
    """
    return error.peak_variable_bytes > target.num_tiles * target.bytes_per_tile


def _compile_kept(prepared: _Prepared, settings: Options, target: _ipu.Target, shared: _Shared) -> _Compiled | None:
    """With arguments kept in SRAM, or None where there are none, or they do not fit."""
    if not any(argument.kept for argument in prepared[1].arguments):
        return None
    try:
        return _compile_prepared(prepared, settings, target, shared, keep=True)
    except (_ipu.OutOfMemory, capacity.TooLarge):
        return None


# Options that need less memory, None where the user has chosen otherwise.


def _outlined(settings: Options) -> Options | None:
    return settings._replace(outline="always") if settings.outline == "memory" else None


def _slices_spread(settings: Options) -> Options | None:
    return settings._replace(mapping="products") if settings.mapping == "demand" else None


# Bytes of temporaries fall in proportion, cycles rise by up to a fifth; below, vertices cost more than that saves.
_LEAST_PROPORTION = 0.1


def _products_in_less(settings: Options) -> Options | None:
    if settings.available_memory_proportion != Options().available_memory_proportion:
        return None
    return settings._replace(available_memory_proportion=_LEAST_PROPORTION)


# And whether they make another program.


def _has_other_ops(before: _Prepared, outlined: _Prepared) -> bool:
    one, other = ([op.name for op in module.main.block.walk()] for module, *_ in (before, outlined))
    return one != other


def _has_slices(before: _Prepared, _: _Prepared) -> bool:
    return before[2].has_slices


def _has_products(_: _Prepared, other: _Prepared) -> bool:
    return any(op.name in ("dot_general", "convolution") for op in other[0].main.block.walk())


_MORE_FRUGAL: tuple[_Frugal, ...] = (
    ("repeated blocks as functions", _outlined, _has_other_ops),
    ("sliced tensors on all tiles", _slices_spread, _has_slices),
    ("less memory for products", _products_in_less, _has_products),
)


def prepare(parsed: Any, settings: Options, options: bytes = b"") -> _Prepared:
    """Everything before the graph: partitioning, import, passes, signature and tile mapping of an MLIR module."""
    return prepare_local(partition.LocalProgram(parsed, options), settings)


def prepare_local(program: partition.LocalProgram, settings: Options) -> _Prepared:
    """The same of a program that is partitioned."""
    module = program.import_module()
    pipeline.optimize(module, memory_first=settings.outline == "always")
    if settings.outline == "always":
        outline.run(module)
    signature = Signature(module.main)
    schedule.run(module, signature.aliases())
    signature.keep(inplace.run(module, signature.aliases(), signature.read_only()))
    return module, signature, mapping.plan(module, settings.mapping, mapping.CREATORS)


def parse_target(target: str) -> _ipu.Target:
    version, _, tiles = target.partition(":")
    if tiles and not (tiles.isdecimal() and len(tiles) < 9):
        raise CompileError(f"target {target!r} is not valid; write e.g. ipu2 or ipu2:1472", INVALID_ARGUMENT)
    try:
        return _ipu.Target(version, int(tiles or 0))
    except RuntimeError as error:
        raise CompileError(f"target {target!r} is not valid: {error}", INVALID_ARGUMENT) from error


def _cost_fields(module: Module, compiled: _ipu.CompiledGraph) -> dict[str, float]:
    fields = compiled.cost()
    counted = cost.of_block(module.main.block)
    fields["flops"] = counted.flops
    fields["bytes_accessed"] = counted.bytes_accessed
    fields["transcendentals"] = counted.transcendentals
    return fields


def _memory_fields(signature: Signature, compiled: _ipu.CompiledGraph) -> dict[str, int]:
    fields = compiled.memory()
    arguments, results = signature.arguments, signature.results
    for name, in_host_memory in (("argument_bytes", False), ("host_argument_bytes", True)):
        fields[name] = sum(cost.size_in_bytes(a.value) for a in arguments if a.in_host_memory is in_host_memory)
    for name, in_host_memory in (("output_bytes", False), ("host_output_bytes", True)):
        of_kind = (r for r, host in zip(results, signature.host_results, strict=True) if host is in_host_memory)
        fields[name] = sum(map(cost.size_in_bytes, of_kind))
    fields["alias_bytes"] = sum(cost.size_in_bytes(a.value) for a in arguments if a.resident)
    return fields
