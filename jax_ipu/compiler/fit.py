"""Compiles a program so that it fits into the memory of the tiles: a loop around the stages after "legalise".

What saves memory costs cycles, so it is done only where the program does not fit without.

First arguments that are only read are streamed by every call. Then what products, slices and lookups place, always from
the first tile on, starts on the tiles that have room. Then repeated blocks become functions, cheap values are
computed again rather than kept, smaller values, top-k of long rows and lookups are computed in parts, and collectives
are not combined. Then small tensors that are sliced, which would all be on the first tile, get tiles of their own, and
then all tensors that are sliced or looked up are spread over all tiles: the few tiles that could slice them without an
exchange may be full of them. At last products and convolutions get less memory for their temporaries.
Where one of these fits, there may be room to keep arguments after all. Attempts share plans, so that one costs little
where it differs little, and end where none can help.

The option `ipu_fit=off` leaves one attempt, in which no values are computed in parts and no buffers become smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from jax_ipu import _ipu
from jax_ipu.compiler import capacity, pipeline
from jax_ipu.compiler.build import BuiltProgram, Savings, build
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.lowering import sort
from jax_ipu.compiler.lowering.program import lower
from jax_ipu.compiler.mapping import MappedProgram, map_tensors, plan
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.out_of_memory import Need, NoFit, lacks_code
from jax_ipu.compiler.progress import Progress


def map_program(
    program: LegalProgram, settings: Options, target: _ipu.Target, change: pipeline.Change | None = None
) -> MappedProgram:
    """The stages "passes" and "map"; arguments and errors as for `pipeline.optimize`."""
    # Passes that compute large values in parts need to know the memory.
    tiles = target.num_tiles - settings.io_tiles
    if tiles < 1:
        raise CompileError(
            f"compiler option ipu_io_tiles={settings.io_tiles} leaves none of {target.num_tiles} tiles to compute on",
            INVALID_ARGUMENT,
        )
    memory = tiles * target.bytes_per_tile if settings.fit == "on" else 0
    # Code and buffers of the exchange take some.
    io_bytes = int(0.9 * settings.io_tiles * target.bytes_per_tile)
    frugal, threshold = settings.outline == "always", settings.outline_threshold
    optimized = pipeline.optimize(program, memory, frugal, change, tiles, io_bytes, threshold)
    return map_tensors(optimized, settings.mapping)


@dataclass(frozen=True)
class _Compiler:
    """The stages "lower" and "build", with what all attempts share."""

    target: _ipu.Target
    progress: Progress
    plans: _ipu.TilePlanCache

    def streamed(self, program: MappedProgram, settings: Options, keep: bool = False) -> BuiltProgram:
        """With every argument streamed that no result replaces; `keep`: with those kept that are only read."""
        self.progress.stage("mapping tensors to tiles")
        lowered = lower(program, self.target, settings, keep)
        self.progress.stage("planning operations")
        return build(program, lowered, self.plans, self.progress)

    def kept(self, program: MappedProgram, settings: Options) -> BuiltProgram | None:
        """With the arguments kept in SRAM that are only read; None where there are none, or they do not fit."""
        if not any(argument.kept for argument in program.signature.arguments):
            return None
        try:
            return self.streamed(program, settings, keep=True)
        except (_ipu.OutOfMemory, capacity.TooLarge):
            return None


def compile_to_fit(
    program: LegalProgram,
    settings: Options,
    target: _ipu.Target,
    progress: Progress,
    plans: _ipu.TilePlanCache,
    change: pipeline.Change | None = None,
    machine: int | None = None,
) -> BuiltProgram:
    """The first attempt that fits.

    Args:
        program: the legal program; it stays as it is.
        settings: the options of the compilation, which further attempts change where the user left the default.
        target: the IPU.
        progress: is told the stages and attempts.
        plans: gets the plans of operations, which all attempts share.
        change: makes of the program the one to compile.
        machine: bytes of memory of the machine that is to run it; None where nobody says.

    Raises:
        NoFit: no attempt fits; the message of its error says what is too large.
        CompileError: as the stages, or there is too little host memory.
    """
    progress.stage("simplifying the program")
    plans.limits_buffers = settings.fit == "on"
    compiler = _Compiler(target, progress, plans)
    mapped, more_frugal = map_program(program, settings, target, change), _more_frugal(settings)
    original = settings
    capacity.check_host_memory(mapped.module, mapped.signature, target, machine)
    built = compiler.kept(mapped, settings)
    if built is not None and built.unlimited_cycles is None:
        return built
    if built is not None:
        return _with_savings(built, original, settings, [], progress)
    failures: list[NoFit] = []
    start: tuple[Options, MappedProgram, Need, bool] | None = None  # of the next attempt
    while True:
        try:
            streamed = compiler.streamed(mapped, settings)
            built = compiler.kept(mapped, settings) if failures else None
            return _with_savings(built or streamed, original, settings, failures, progress)
        except capacity.TooLarge as error:
            lasting = frozenset(mapped.signature.results[j] for j in mapped.signature.aliased_inputs)
            need = Need.of_values(error.values, lasting, target)
            failures.append(NoFit(error, need, mapped.module, mapped.signature))
            outline_only = True
        except _ipu.OutOfMemory as error:
            failures.append(NoFit(error, need := Need.of(error, target), mapped.module, mapped.signature))
            outline_only = _is_hopeless(error, target) or lacks_code(error, target)
        # What takes more memory is given up again.
        if start is None or not start[2].planned or (need.planned and need.total < start[2].total):
            start = settings, mapped, need, outline_only
        settings, mapped, need, outline_only = start
        following = _next_attempt(program, change, mapped, settings, target, more_frugal, need, outline_only)
        if following is None:
            # The attempt that is nearest to fitting says best what is too large.
            raise min(failures, key=lambda failure: failure.need.total)
        what, settings, mapped = following
        progress.attempt(len(failures) + 1, what)


def _with_savings(
    built: BuiltProgram, original: Options, settings: Options, failures: list[NoFit], progress: Progress
) -> BuiltProgram:
    """The program with what was done so that it fits."""
    measures = []
    if settings.outline != original.outline:
        measures.append("repeated blocks as functions, cheap values computed again, large values in parts")
    if settings.mapping != original.mapping:
        balanced = settings.mapping == "balanced"
        measures.append("tensors on the tiles that have room" if balanced else "sliced tensors on other tiles")
    if settings.available_memory_proportion != original.available_memory_proportion:
        measures.append("less memory for products")
    if built.unlimited_cycles is not None:
        measures.append("smaller buffers in more steps")
    if not measures:
        return built
    first = failures[0] if failures else None
    before: int | None
    if first is not None and first.need.planned and isinstance(first.error, _ipu.OutOfMemory):
        before, of = first.error.report.cycles.total, "as it is"
    else:
        before, of = built.unlimited_cycles, "with larger buffers" if failures else "as it is"
    savings = Savings(tuple(measures), built.compiled.report().cycles.total, before, of)
    progress.made_to_fit(str(savings))
    return replace(built, savings=savings)


@dataclass(frozen=True)
class _Frugal:
    """A way to compile that needs less memory.

    Attributes:
        what: its name, for the status line.
        choose: the options for it; None where the user has chosen otherwise.
        differs: whether it makes another program, from the one before and the one that it makes.
    """

    what: str
    choose: Callable[[Options], Options | None]
    differs: Callable[[MappedProgram, MappedProgram], bool]


def _next_attempt(
    program: LegalProgram,
    change: pipeline.Change | None,
    before: MappedProgram,
    settings: Options,
    target: _ipu.Target,
    more_frugal: Iterator[_Frugal],
    need: Need,
    outline_only: bool,
) -> tuple[str, Options, MappedProgram] | None:
    """The next way to compile that makes another program; `outline_only`: only with fewer tensors and less code."""
    for way in more_frugal:
        frugal = way.choose(settings)
        if frugal is None or (outline_only and frugal.outline == settings.outline):
            continue
        less = frugal.available_memory_proportion < settings.available_memory_proportion
        # PopLibs' temporaries are variables: what less memory saves of them is not known.
        if less and not settings.poplibs and need.total - need.working > need.limit:
            continue
        if way.choose is _balanced and need.even + need.working + need.fixed > need.limit:
            continue
        if frugal.outline == settings.outline:  # the passes would give the same module
            other = replace(before, mapping=plan(before.module, frugal.mapping))
        else:
            other = map_program(program, frugal, target, change)
        if way.differs(before, other):
            return way.what, frugal, other
    return None


def _is_hopeless(error: _ipu.OutOfMemory, target: _ipu.Target) -> bool:
    """Whether the live tensors are larger than the memory.

    Only the attempt that computes values again and does not combine collectives has other tensors. Those after it
    change the mapping of tensors, the code and the temporaries.
    """
    return error.report.peak_variable_bytes > target.num_tiles * target.bytes_per_tile


# Options that need less memory; None where the user has chosen another value than the default.


def _outlined(settings: Options) -> Options | None:
    return settings._replace(outline="always") if settings.outline == "memory" else None


def _slices_apart(settings: Options) -> Options | None:
    return settings._replace(mapping="apart") if settings.mapping == "demand" else None


def _balanced(settings: Options) -> Options | None:
    can = settings.mapping in ("demand", "apart") and not settings.poplibs
    return settings._replace(mapping="balanced") if can else None


def _slices_spread(settings: Options) -> Options | None:
    return settings._replace(mapping="products") if settings.mapping in ("demand", "apart", "balanced") else None


# With this much, cycles rise by at most a third. With less, a product may need more steps than the planner tries.
_LEAST_PROPORTION = 0.1
# The same for Graphcore's PopLibs. Where its planner finds no plan within the proportion, it makes one that takes far
# more memory; and it does not count what it rearranges for each part of a product, of which there are then more.
_LESS_OF_POPLIBS = 0.3


def _products_in(proportion: float) -> Callable[[Options], Options]:
    return lambda settings: settings._replace(available_memory_proportion=proportion)


def _has_other_ops(before: MappedProgram, outlined: MappedProgram) -> bool:
    one, other = ([op.name for op in mapped.module.main.block.walk()] for mapped in (before, outlined))
    return one != other or bool(sort.alike(outlined.module.main.block))


def _has_demands(_: MappedProgram, other: MappedProgram) -> bool:
    return len(other.mapping.demands) > 0


def _has_own_tiles(_: MappedProgram, other: MappedProgram) -> bool:
    return len(other.mapping.own_tiles) > 0


def _has_slices(before: MappedProgram, _: MappedProgram) -> bool:
    return before.mapping.has_slices


def _has_products(_: MappedProgram, other: MappedProgram) -> bool:
    return any(op.name in ("dot_general", "convolution") for op in other.module.main.block.walk())


def _more_frugal(settings: Options) -> Iterator[_Frugal]:
    """The ways for a program whose user gave these options, in the order in which they are tried."""
    if settings.fit == "off":
        return
    yield _Frugal("tensors on the tiles that have room", _balanced, _has_demands)
    yield _Frugal("repeated blocks as functions", _outlined, _has_other_ops)
    yield _Frugal("small sliced tensors on tiles of their own", _slices_apart, _has_own_tiles)
    yield _Frugal("sliced tensors on all tiles", _slices_spread, _has_slices)
    if settings.available_memory_proportion == Options().available_memory_proportion:
        if settings.poplibs:
            yield _Frugal("less memory for products", _products_in(_LESS_OF_POPLIBS), _has_products)
        yield _Frugal("least memory for products", _products_in(_LEAST_PROPORTION), _has_products)
