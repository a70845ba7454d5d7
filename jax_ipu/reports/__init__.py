"""Reports: everything that the IPU model knows of a program, as one file for a browser or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from jax_ipu.compiler.collector import collector_paused
from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.contexts import inside
from jax_ipu.compiler.estimates import compilation_of, of_compilation
from jax_ipu.estimates import check_keywords, check_num_ipus, configured_target
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.reports.data import report_data
from jax_ipu.reports.html import NoFrontEnd
from jax_ipu.reports.insights import by_severity, insights, not_tried
from jax_ipu.reports.result import Report, ReportComparison, checked_path

if TYPE_CHECKING:
    from jax_ipu.integration.programs import Program
    from jax_ipu.reports.alternatives import Question

__all__ = ["NoFrontEnd", "Report", "ReportComparison", "checked_path", "report", "report_of"]


@overload
def report(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: None = None,
    advice: bool = False,
    path: str | Path | None = None,
    **kwargs: Any,
) -> Report: ...
@overload
def report(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: Sequence[str],
    advice: bool = False,
    path: str | Path | None = None,
    **kwargs: Any,
) -> ReportComparison: ...
@boundary
def report(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: Sequence[str] | None = None,
    advice: bool = False,
    path: str | Path | None = None,
    **kwargs: Any,
) -> Report | ReportComparison:
    """Everything that the IPU model knows of ``jax.jit(fun)(*args, **kwargs)``, for a browser. Nothing is run.

    The program is compiled as ``jit`` compiles it, for any chip; no device is used. A program that does not fit has a
    report as well, which shows what is too large.

    Args:
        fun: a function that ``jax.jit`` can trace; or a jitted one, which may have static arguments, shardings and
            options of its own.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place; with shardings for several IPUs.
        target: a chip, or a chip and its number of tiles, as in :func:`jax_ipu.estimate`.
        num_ipus: for how many IPUs the program must be, by its shardings; by default for as many as they say.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        compiler_options: as in ``jax.jit``: docs/environment.md has a table.
        compare: two targets, instead of `target`.
        advice: whether to compile alternatives (other batches, types and options) and to say what each would save.
            That takes as long as so many compilations.
        path: where to save the report: an HTML file, or its data if the name ends in .json; by default it is not saved.

    Returns:
        A :class:`Report`. In a notebook it shows a summary and opens the page. With `compare` a
        :class:`ReportComparison`.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support, or a target or an option
            is not valid.
        ValueError: the name in `path` ends in neither .html nor .json; the program is for another number of IPUs than
            `num_ipus`; both `target` and `compare` are given, or `compare` has not two targets.
        NoFrontEnd: this installation has no front end for HTML.

    Example:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> x = jax.ShapeDtypeStruct((64, 64), jnp.float16)
        >>> found = jax_ipu.report(jnp.dot, x, x, target="ipu2:64")
        >>> found.fits, len(found.as_dict()["operations"]) > 0
        (True, True)
    """
    from jax_ipu.integration.programs import program_of
    from jax_ipu.reports.alternatives import Question, in_half_precision

    if compare is not None and (target is not None or isinstance(compare, str) or len(compare) != 2):
        raise ValueError("give either target, for one report, or compare with two targets, for both beside each other")
    check_keywords(fun, kwargs, report)
    if path is not None:
        checked_path(path)  # before the program is compiled, which may take long
    program = program_of(fun, args, kwargs, donate_argnums, compiler_options)
    check_num_ipus(program.num_ipus, num_ipus)

    def half() -> Program | None:
        other = in_half_precision(args)
        return None if other is None else program_of(fun, other, kwargs, donate_argnums, compiler_options)

    def of_target(chip: str) -> Report:
        compilation = compilation_of(program.mlir, "mlir", program.options, chip, detailed=True)
        question = Question(program.mlir, "mlir", program.options, chip, half)
        found = report_of(compilation, question if advice else None)
        if compilation.built is not None:
            compilation.built.module.release()
        return found

    chips = (configured_target() if target is None else target,) if compare is None else compare
    first, *others = map(of_target, chips)
    result = first.compare(others[0]) if others else first
    if path is not None:
        result.save(path)
    return result


def report_of(compilation: Compilation, question: Question | None = None) -> Report:
    """The report of a compilation that has ended; with what alternatives save, if it is told what was compiled."""
    data = _data_of(compilation, question is not None)
    if question is None:
        found = [*data["insights"], *not_tried(data)]
    else:
        from jax_ipu.reports.alternatives import savings

        found = [*savings(question, compilation, Report(data).estimate), *data["insights"]]
    data["insights"] = by_severity(found)
    return Report(data)


@inside(collector_paused)
def _data_of(compilation: Compilation, tried: bool = False) -> dict[str, Any]:
    data = report_data(compilation, of_compilation(compilation))
    data["insights"] = insights(data, tried)
    return data
