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
class Savings:
    """What a program that does not fit as it is was compiled with instead, and the cycles of both.

    Attributes:
        measures: what saves memory, in words.
        cycles: of the program that fits.
        cycles_before: of a plan that does not fit; None where there is none, as the variables alone do not fit.
        before: what that is a plan of: the program "as it is", or "with larger buffers".
    """

    measures: tuple[str, ...]
    cycles: int
    cycles_before: int | None
    before: str = "as it is"

    def __str__(self) -> str:
        measures = ", ".join(self.measures)
        if self.cycles_before is None:
            return f"{measures}; {self.cycles:,} cycles, unknown as it is, since its variables alone do not fit"
        change = (self.cycles - self.cycles_before) / max(self.cycles_before, 1)
        return f"{measures}; {self.cycles:,} cycles, {self.cycles_before:,} {self.before} ({change:+.1%})".replace(
            "%", " %"
        )


@dataclass(frozen=True)
class BuiltProgram:
    """A program that fits: what it was made of, and the compiled graph.

    Attributes:
        unlimited_cycles: of the plan in which the buffers of operations are as large as they would be without a limit,
            where they do not fit so.
        savings: what was done so that it fits; None where it fits as it is.
    """

    module: Module
    signature: Signature
    lowered: LoweredProgram
    compiled: _ipu.CompiledGraph
    unlimited_cycles: int | None = None
    savings: Savings | None = None


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
        return _within_limits(mapped, lowered, plans, progress)
    except _ipu.OutOfMemory:
        if not lowered.swaps:
            raise
        return _within_limits(mapped, lowered.without_swaps(), plans, progress)


def _within_limits(
    mapped: MappedProgram, lowered: LoweredProgram, plans: _ipu.TilePlanCache, progress: Progress
) -> BuiltProgram:
    """First with buffers as operations plan them, and where these do not fit with smaller ones."""
    limits, cycles = plans.limits_buffers, None
    plans.limits_buffers = False
    try:
        compiled = _compiled(mapped, lowered, plans, progress)
    except _ipu.OutOfMemory as error:
        if not limits or error.report.peak.variables_only:
            raise
        cycles = error.report.cycles.total
        plans.limits_buffers = True
        compiled = _compiled(mapped, lowered, plans, progress)
    finally:
        plans.limits_buffers = limits
    return BuiltProgram(mapped.module, mapped.signature, lowered, compiled, cycles)


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
