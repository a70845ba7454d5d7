"""The stages of the compiler, each with all that come before it, for tests that look at what is in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jax_ipu import _ipu
from jax_ipu.compiler.fit import map_program
from jax_ipu.compiler.frontend.importer import import_program
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.ir import Block, Module, Op
from jax_ipu.compiler.lowering.program import LoweredProgram, lower
from jax_ipu.compiler.mapping import MappedProgram
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.pipeline import optimize

F = "tensor<4xf32>"


def legal(program: str | bytes, options: bytes = b"") -> LegalProgram:
    """After parse, partition and legalise."""
    content = program.encode() if isinstance(program, str) else program
    return legalize(partition(parse(content, "mlir", options)))


def imported(program: str | bytes) -> Module:
    """The IR before the first pass."""
    return import_program(legal(program))


def optimized_ops(function: Callable[..., Any], *arguments: Any, memory: int = 1 << 29) -> list[Op]:
    """All ops of a JAX function after the passes, those of regions too, on a device of so many bytes."""
    program = legal(str(jax.jit(function).lower(*arguments).compiler_ir()))
    return list(optimize(program, memory).module.main.block.walk())


def mapped(
    program: str | bytes, settings: Options | None = None, target: str = "ipu2", num_tiles: int = 1472
) -> MappedProgram:
    """After all passes and the planning of the tile mapping."""
    return map_program(legal(program), Options() if settings is None else settings, _ipu.Target(target, num_tiles))


def lowered(
    program: str | bytes, settings: Options | None = None, target: str = "ipu2", num_tiles: int = 1472
) -> tuple[MappedProgram, LoweredProgram]:
    """The mapped program and its graph."""
    settings = Options() if settings is None else settings
    before = mapped(program, settings, target, num_tiles)
    return before, lower(before, _ipu.Target(target, num_tiles), settings)


def module_of(body: str, signature: str, functions: str = "") -> Module:
    """The imported program whose main has this text."""
    text = f"func.func @main{signature} {{\n{body}\n}}\n{functions}"
    return imported(text)


def names(block: Block) -> list[str]:
    """The names of the ops of a block."""
    return [op.name for op in block.ops]
