"""The compiler as a function: a StableHLO program and options in, an executable out."""

from __future__ import annotations

import hashlib
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler import cost, importer, mapping, pipeline
from jax_ipu.compiler.build import build
from jax_ipu.compiler.errors import INVALID_ARGUMENT, UNIMPLEMENTED, CompileError
from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.options import Options, compile_options
from jax_ipu.compiler.passes import inplace, schedule
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.program_text import program_text

# Changes whenever the same program may compile to something else.
COMPILER_VERSION = "1"


def compile(program: bytes, format: str, options: bytes, target: str) -> _ipu.Executable:
    """Compiles a StableHLO program for one IPU. Deterministic, and reads nothing but its arguments.

    Args:
        program: a StableHLO portable artifact, MLIR bytecode or MLIR text.
        format: "mlir".
        options: a serialised xla.CompileOptionsProto; b"" for the defaults.
        target: architecture and number of tiles, e.g. "ipu2:1472"; without a number, all tiles.

    Raises:
        CompileError: the program is not valid (INVALID_ARGUMENT) or uses what is not supported (UNIMPLEMENTED).
        _ipu.Error: it does not fit into the memory of the tiles (RESOURCE_EXHAUSTED).
    """
    settings = compile_options(options)
    parsed = importer.parse(program, format)
    module, signature, plan = prepare(parsed, settings)
    ipu = parse_target(target)
    built = build(module, signature, plan, ipu)
    compiled = _ipu.compile_graph(built.graph, built.programs, module.name)
    digest = hashlib.sha256(COMPILER_VERSION.encode())
    for part in (program, repr(settings).encode(), target.encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return _ipu.Executable(
        module.name,
        digest.hexdigest(),
        f"{ipu.version}:{ipu.num_tiles}",
        signature.inputs(built.state_programs),
        signature.outputs(),
        compiled.serialize(),
        0,
        program_text(parsed),
        _cost_fields(module, compiled),
        _memory_fields(signature, compiled),
    )


def prepare(parsed: Any, settings: Options) -> tuple[Module, Signature, mapping.MappingPlan]:
    """Everything before the graph: import, passes, signature and tile mapping of an MLIR module."""
    module = importer.import_module(parsed)
    _check_partitions(module)
    pipeline.optimize(module)
    signature = Signature(module.main)
    schedule.run(module, signature.aliases())
    inplace.run(module, signature.aliases(), signature.read_only())
    return module, signature, mapping.plan(module, settings.mapping, mapping.CREATORS)


def parse_target(target: str) -> _ipu.Target:
    version, _, tiles = target.partition(":")
    if tiles and not tiles.isdecimal():
        raise CompileError(f"target {target!r} is not valid; write e.g. ipu2 or ipu2:1472", INVALID_ARGUMENT)
    return _ipu.Target(version, int(tiles or 0))


def _check_partitions(module: Module) -> None:
    for key, what in (("mhlo.num_partitions", "partitions"), ("mhlo.num_replicas", "replicas")):
        count = module.attrs.get(key, 1)
        if count != 1:
            raise CompileError(
                f"the program has {count} {what}: programs over several IPUs are not supported yet; use one device, or"
                " run one program per device",
                UNIMPLEMENTED,
            )


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
    fields["argument_bytes"] = sum(cost.size_in_bytes(a.value) for a in arguments)
    fields["output_bytes"] = sum(map(cost.size_in_bytes, results))
    fields["alias_bytes"] = sum(cost.size_in_bytes(a.value) for a in arguments if a.resident)
    return fields
