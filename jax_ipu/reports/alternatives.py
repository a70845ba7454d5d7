"""What other batches, types and options would save: every number here is that of a compiled alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jax_ipu.compiler.api import parse_target
from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.estimates import Estimate, compilation_of, of_compilation
from jax_ipu.compiler.fit import map_program
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.options import compile_options
from jax_ipu.compiler.out_of_memory import batch_of
from jax_ipu.compiler.tables import bytes_text
from jax_ipu.compiler.types import numpy_dtype
from jax_ipu.estimates import with_batch
from jax_ipu.integration.programs import Program, program_of
from jax_ipu.reports.insights import Insight, insight

# Smaller batches are tried by halves until one fits, so often at most.
_MOST_HALVES = 4
_PROPORTIONS = (0.3, 0.1, 0.9)


class Question(NamedTuple):
    """What a report was asked about: the arguments of :func:`jax_ipu.report`."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    donate_argnums: int | tuple[int, ...]
    compiler_options: Mapping[str, Any] | None
    target: str

    def estimate(self, args: tuple[Any, ...]) -> Estimate | None:
        """The estimate for other arguments; None if the function does not take them."""
        try:
            program = program_of(self.fun, args, self.kwargs, self.donate_argnums, self.compiler_options)
            return _estimate(program, self.target)
        except (TypeError, ValueError, CompileError):
            return None


def savings(question: Question, program: Program, compilation: Compilation, base: Estimate) -> list[Insight]:
    """An insight for each alternative that saves something, the one that makes a program fit first.

    Args:
        question: what the report is about.
        program: its program.
        compilation: the compilation of the program.
        base: its estimate.
    """
    found = [
        *_batches(question, program, base),
        *_half_precision(question, base),
        *_options(question, program, compilation, base),
    ]
    return sorted(found, key=lambda one: one["severity"] != "problem")


def _estimate(program: Program, target: str, **changes: Any) -> Estimate:
    compilation = compilation_of(program.mlir, "mlir", program.options, target, **changes)
    result = of_compilation(compilation)
    if compilation.built is not None:
        compilation.built.module.release()
    return result


def _saving(base: Estimate, other: Estimate) -> dict[str, int | None]:
    """By how much the numbers of `other` are smaller; None where one of them is not known."""

    def less(name: str) -> int | None:
        one, two = getattr(base, name), getattr(other, name)
        return None if one is None or two is None else one - two

    names = {"cycles": "cycles", "bytes": "total_bytes", "fullest_tile_bytes": "fullest_tile_bytes"}
    return {key: less(name) for key, name in names.items()}


def _compared(id: str, title: str, action: str, base: Estimate, other: Estimate, note: str = "") -> Iterator[Insight]:
    """The insight that an alternative is worth, if it saves memory or cycles."""
    saving = _saving(base, other)
    helps = other.fits and not base.fits
    if not helps and (not other.fits or not any(value is not None and value > 0 for value in saving.values())):
        return
    parts = []
    if helps:
        parts.append("It fits then.")
    for name, text in (("cycles", "cycles"), ("fullest_tile_bytes", "on the fullest tile"), ("bytes", "on all tiles")):
        value = saving[name]
        if value:
            amount = f"{abs(value):,} cycles" if name == "cycles" else f"{bytes_text(abs(value))} {text}"
            parts.append(f"{amount} {'less' if value > 0 else 'more'}")
    detail = ", ".join(parts) + ", by the model: the alternative was compiled." + note
    yield insight(id, "problem" if helps else "advice", title, detail, action, saving)


def _batches(question: Question, program: Program, base: Estimate) -> Iterator[Insight]:
    parsed = parse(program.mlir, "mlir", program.options)
    mapped = map_program(legalize(partition(parsed)), compile_options(program.options), parse_target(question.target))
    batch, arguments = batch_of(mapped.module, mapped.signature)
    types = {(tuple(a.value.shape), numpy_dtype(a.value.dtype)) for a in arguments}
    mapped.module.release()
    if batch < 2:
        return

    def estimate(rows: int) -> Estimate | None:
        args = with_batch(question.args, types, batch, rows)
        return question.estimate(args) if args is not None else None

    smaller, other = batch // 2, estimate(batch // 2)
    while other is not None and not (other.fits or base.fits) and smaller > max(1, batch >> _MOST_HALVES):
        smaller //= 2
        other = estimate(smaller)
    if other is None:
        return
    note = ""
    if base.cycles is not None and other.cycles is not None:
        each = f"{other.cycles / smaller:,.0f} cycles instead of {base.cycles / batch:,.0f}"
        note = f" For each row of the batch: {each}."
    yield from _compared(
        "smaller batch", f"A batch of {smaller} instead of {batch}", "Give the program fewer rows.", base, other, note
    )
    if not base.fits:
        return
    larger = estimate(2 * batch)
    if larger is None or not larger.fits or larger.cycles is None or base.cycles is None:
        return
    less = base.cycles - larger.cycles / 2
    if less > 0:
        title = f"A batch of {2 * batch} fits as well"
        detail = (
            f"For each {batch} rows {less:,.0f} cycles less; the fullest tile then holds "
            f"{bytes_text(larger.fullest_tile_bytes or 0)}. The alternative was compiled."
        )
        saving: dict[str, int | None] = {"cycles": int(less), "bytes": None, "fullest_tile_bytes": None}
        yield insight("larger batch", "advice", title, detail, "Give the program more rows in each call.", saving)


def _half_precision(question: Question, base: Estimate) -> Iterator[Insight]:
    import jax
    import jax.numpy as jnp

    changed = False

    def halved(leaf: Any) -> Any:
        nonlocal changed
        if getattr(leaf, "dtype", None) != jnp.float32 or not getattr(leaf, "shape", ()):
            return leaf
        changed = True
        sharding = leaf.sharding if getattr(leaf, "committed", True) else None
        struct: Any = jax.ShapeDtypeStruct
        return struct(leaf.shape, jnp.float16, sharding=sharding)

    args = tuple(jax.tree.map(halved, arg) if not callable(arg) else arg for arg in question.args)
    other = question.estimate(args) if changed else None
    if other is not None:
        action = "Give float16 arrays for float32; check that the values stay in its range."
        yield from _compared("half precision", "Arguments of type float16", action, base, other)


def _options(question: Question, program: Program, compilation: Compilation, base: Estimate) -> Iterator[Insight]:
    settings = compilation.settings
    if settings.partials_type == "float":
        other = _estimate(program, question.target, partials_type="half")
        yield from _compared(
            "half partials",
            "Half partials in products and convolutions",
            'compiler_options={"ipu_partials_type": "half"}; sums are rounded to float16 after every 16 terms.',
            base,
            other,
        )
    for proportion in _PROPORTIONS:
        if proportion != settings.available_memory_proportion:
            other = _estimate(program, question.target, available_memory_proportion=proportion)
            yield from _compared(
                f"memory proportion {proportion}",
                f"A memory proportion of {proportion} for products",
                f'compiler_options={{"ipu_available_memory_proportion": {proportion}}}',
                base,
                other,
            )
    if settings.outline == "memory" and base.fits:
        other = _estimate(program, question.target, outline="always")
        yield from _compared(
            "recomputation",
            "Repeated blocks as functions, cheap values computed again",
            'compiler_options={"ipu_outline": "always"}; jax.checkpoint around layers saves more in a gradient.',
            base,
            other,
        )
