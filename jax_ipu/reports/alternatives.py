"""What other batches, types and options would save: every number here is that of a compiled alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.estimates import Estimate, compilation_of, of_compilation, parsed
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.pipeline import Change, without_calls
from jax_ipu.compiler.tables import bytes_text, percent_text, seconds_text
from jax_ipu.compiler.variants.batch import find_batch
from jax_ipu.integration.programs import Program
from jax_ipu.reports.insights import Insight, insight

# Smaller batches are tried by halves until one fits, so often at most.
_MOST_HALVES = 4
_PROPORTIONS = (0.3, 0.1, 0.9)
_WORTH = 0.01  # of the cycles or the memory: who saves less has no reason to change a program


class Question(NamedTuple):
    """What a report was asked about.

    `program`, `format` and `options` are as for the compiler. `half` makes the same for arguments of type float16, or
    returns None where no argument is of another type; without it that is not tried.
    """

    program: bytes
    format: str
    options: bytes
    target: str
    half: Callable[[], Program | None] | None = None


def in_half_precision(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with arrays of float16 in place of float32; None if there are none of these."""
    import jax
    import jax.numpy as jnp

    changed = False

    def halved(leaf: Any) -> Any:
        nonlocal changed
        if getattr(leaf, "dtype", None) != jnp.float32 or not getattr(leaf, "shape", ()):
            return leaf
        changed = True
        sharding = getattr(leaf, "sharding", None) if getattr(leaf, "committed", True) else None
        struct: Any = jax.ShapeDtypeStruct
        return struct(leaf.shape, jnp.float16, sharding=sharding)

    args = tuple(jax.tree.map(halved, arg) if not callable(arg) else arg for arg in args)
    return args if changed else None


def savings(question: Question, compilation: Compilation, base: Estimate) -> list[Insight]:
    """An insight for each alternative that saves something, and one that says what was tried.

    Args:
        question: what the report is about.
        compilation: the compilation of its program.
        base: the estimate of its program.
    """
    trials = _Trials(base)
    _try_batches(trials, question)
    _try_half_precision(trials, question)
    _try_options(trials, question, compilation)
    return [*trials.found, trials.summary()]


def _estimate(question: Question, change: Change | None = None, **changes: Any) -> Estimate:
    program, format, options, target, _ = question
    changes["advice_seconds"] = 0.0
    compilation = compilation_of(program, format, options, target, change=change, **changes)
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


class _Trials:
    """What was compiled beside the program of the estimate `base`, and what of it saves something."""

    def __init__(self, base: Estimate) -> None:
        self.base = base
        self.found: list[Insight] = []
        self._tried: list[str] = []

    def add(
        self, id: str, title: str, action: str, other: Estimate | None, rows: tuple[int, int] | None = None
    ) -> None:
        """Notes an alternative, and that it is advice if it saves memory or cycles.

        Args:
            id, title, action: of the insight.
            other: its estimate; None if there is no such program.
            rows: of the batch, before and with the alternative: cycles are then compared for each row.
        """
        if other is None:
            return
        self._tried.append(title)
        base, saving = self.base, _saving(self.base, other)
        each = _of_each_row(base, other, *rows) if rows else None
        faster = each["cycles"][0] - each["cycles"][1] if each else saving["cycles"] if not rows else None
        helps = other.fits and not base.fits
        is_slower = faster is not None and faster < 0 and base.fits
        saved = (
            (faster, each["cycles"][0] if each else base.cycles),
            (saving["bytes"], base.total_bytes),
            (saving["fullest_tile_bytes"], base.fullest_tile_bytes),
        )
        saves = any((value or 0) > _WORTH * (whole or 0) for value, whole in saved)
        if not helps and not (other.fits and saves):
            return
        detail = ", ".join(_differences(saving, each, helps)) + ", by the model: the alternative was compiled."
        severity = "problem" if helps else "info" if each and is_slower else "advice"
        one = insight(id, severity, title, detail, action, saving)
        if each:
            one["rows"] = each
        self.found.append(one)

    def summary(self) -> Insight:
        titles = "; ".join(self._tried)
        if not self.found:
            title = f"None of the {len(self._tried)} alternatives that were compiled saves memory or cycles"
        else:
            title = (
                f"Of the {len(self._tried)} alternatives that were compiled, {len(self.found)} save memory or cycles"
            )
        return insight("alternatives", "info", title, f"Compiled: {titles}." if titles else "There are none.")


def _of_each_row(base: Estimate, other: Estimate, before: int, after: int) -> dict[str, Any] | None:
    """Cycles and seconds for each row of two batches; None where they are not known."""
    if base.cycles is None or other.cycles is None or base.seconds is None or other.seconds is None:
        return None
    return {
        "batch": [before, after],
        "cycles": [base.cycles / before, other.cycles / after],
        "seconds": [base.seconds / before, other.seconds / after],
    }


def _differences(saving: dict[str, int | None], each: dict[str, Any] | None, helps: bool) -> Iterator[str]:
    if helps:
        yield "It fits then"
    if each:
        (old, new), (slow, fast) = each["cycles"], each["seconds"]
        change = f"{percent_text(abs(new - old), old)} {'more' if new > old else 'less'}"
        yield f"{new:,.0f} cycles ({seconds_text(fast)}) a row instead of {old:,.0f} ({seconds_text(slow)}): {change}"
    elif saving["cycles"]:
        yield f"{abs(saving['cycles']):,} cycles {'less' if saving['cycles'] > 0 else 'more'}"
    for name, text in (("fullest_tile_bytes", "on the fullest tile"), ("bytes", "on all tiles")):
        if value := saving[name]:
            yield f"{bytes_text(abs(value))} {text} {'less' if value > 0 else 'more'}"


def _try_batches(trials: _Trials, question: Question) -> None:
    module = without_calls(legalize(partition(parsed(question.program, question.format, question.options))))
    found = find_batch(module)
    module.release()
    if found is None or found.size < 2:
        return
    batch = found.size

    def estimate(rows: int) -> Estimate | None:
        try:
            return _estimate(question, found.resized(rows))
        except CompileError:
            return None

    base = trials.base
    smaller, other = batch // 2, estimate(batch // 2)
    while other is not None and not (other.fits or base.fits) and smaller > max(1, batch >> _MOST_HALVES):
        smaller //= 2
        other = estimate(smaller)
    title = f"A batch of {smaller} instead of {batch}"
    trials.add("smaller batch", title, "Give the program fewer rows.", other, (batch, smaller))
    if base.fits:
        title, action = f"A batch of {2 * batch} instead of {batch}", "Give the program more rows in each call."
        trials.add("larger batch", title, action, estimate(2 * batch), (batch, 2 * batch))


def _try_half_precision(trials: _Trials, question: Question) -> None:
    try:
        made = question.half and question.half()
        if made is None:
            return
        other = _estimate(question._replace(program=made.mlir, format="mlir", options=made.options))
    except (TypeError, ValueError, CompileError):  # the function takes no such arguments
        return
    action = "Give float16 arrays for float32; check that the values stay in its range."
    trials.add("half precision", "Arguments of type float16", action, other)


def _try_options(trials: _Trials, question: Question, compilation: Compilation) -> None:
    settings = compilation.settings
    if settings.partials_type == "float":
        trials.add(
            "half partials",
            "Half partials in products and convolutions",
            'compiler_options={"ipu_partials_type": "half"}; sums are rounded to float16 after every 16 terms.',
            _estimate(question, partials_type="half"),
        )
    for proportion in _PROPORTIONS:
        if proportion != settings.available_memory_proportion:
            trials.add(
                f"memory proportion {proportion}",
                f"A memory proportion of {proportion} for products",
                f'compiler_options={{"ipu_available_memory_proportion": {proportion}}}',
                _estimate(question, available_memory_proportion=proportion),
            )
    if settings.outline == "memory" and trials.base.fits:
        trials.add(
            "recomputation",
            "Repeated blocks as functions, cheap values computed again",
            'compiler_options={"ipu_outline": "always"}; jax.checkpoint around layers saves more in a gradient.',
            _estimate(question, outline="always"),
        )
