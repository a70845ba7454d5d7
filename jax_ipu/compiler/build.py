"""Stage "build": a lowered program to a compiled graph, by the graph compiler of the IPU model or of the SDK."""

from __future__ import annotations

from dataclasses import dataclass

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.lowering.program import LoweredProgram
from jax_ipu.compiler.mapping import MappedProgram
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.stages import staged
from jax_ipu.compiler.user_shapes import with_user_shapes


@dataclass(frozen=True)
class BuiltProgram:
    """A program that fits: what it was made of, and the compiled graph."""

    module: Module
    signature: Signature
    lowered: LoweredProgram
    compiled: _ipu.CompiledGraph


@staged("build")
def build(
    mapped: MappedProgram, lowered: LoweredProgram, plans: _ipu.TilePlanCache, progress: Progress
) -> BuiltProgram:
    """Compiles the graph. Without the programs that swap states where it does not fit with them.

    These programs are code in SRAM, too; without them, states that change places cross the host link.

    Args:
        mapped: what `lowered` was made of.
        lowered: the graph and its programs.
        plans: the plans of operations that earlier attempts made; learns the new ones.
        progress: is told how many operations are planned.

    Raises:
        _ipu.OutOfMemory: the program needs more memory on some tile than that has.
        CompileError: the compilation was cancelled (CANCELLED).
    """
    try:
        compiled = _compiled(mapped, lowered, plans, progress)
    except _ipu.OutOfMemory:
        if not lowered.swaps:
            raise
        lowered = lowered.without_swaps()
        compiled = _compiled(mapped, lowered, plans, progress)
    return BuiltProgram(mapped.module, mapped.signature, lowered, compiled)


def _compiled(
    mapped: MappedProgram, lowered: LoweredProgram, plans: _ipu.TilePlanCache, progress: Progress
) -> _ipu.CompiledGraph:
    try:
        return _ipu.compile_graph(lowered.graph, lowered.programs, mapped.module.name, plans, progress.step)
    except _ipu.OutOfMemory as error:
        error.origins = lowered.origins
        signature = mapped.signature
        error.arguments = [
            (argument.name, argument.value.shape, readers)
            for argument, readers in zip(signature.arguments, signature.readers(), strict=True)
        ]
        shapes = {name: shape for name, shape, _ in error.arguments}
        error.args = (with_user_shapes(str(error), shapes, lowered.origins),)
        raise
