"""``jax-ipu report``: everything that the IPU model knows of a program, as a page for a browser or as JSON."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

from jax_ipu.command_line import programs
from jax_ipu.command_line.arguments import add_target, positive
from jax_ipu.command_line.estimate import add_program_command
from jax_ipu.command_line.output import NO, OK, UsageError, coloured, print_json

_SUFFIXES = (".html", ".json")


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "write a report on a program: a page for a browser, or its data as JSON"
    examples = [
        "jax-ipu report train.py:step -o step.html",
        "jax-ipu report train.py:step --advice",
        "jax-ipu report step.json -o step.html",
    ]
    report = add_program_command(commands, "report", text, _report, examples)
    saved = "; or a report that was written as .json, for its page"
    report.add_argument("what", metavar="PROGRAM", help=programs.WHAT + saved)
    add_target(report)
    report.add_argument("--batch", type=positive, metavar="N", help="the size of the batch")
    advice = (
        "also compile alternatives (other batches, types and options), and say what each saves; that takes as long as"
        " about eight compilations"
    )
    report.add_argument("--advice", action="store_true", help=advice)
    profile = "what jax.profiler.trace wrote while the program ran (a folder or .xplane.pb): adds the host's timeline"
    report.add_argument("--profile", metavar="PATH", help=profile)
    wanted = "what to write, .html or .json, in a folder that is made if there is none (NAME.html)"
    report.add_argument("-o", "--output", metavar="FILE", help=wanted)


def _report(options: argparse.Namespace) -> int:
    from jax_ipu.reports import NoFrontEnd, Report

    path = Path(options.output) if options.output else None
    if path is not None:
        _check_output(path)
    if options.what.endswith(".json") and Path(options.what).is_file():
        programs.refuse_options_of_programs(options, options.what)
        try:
            name, found = Path(options.what).stem, Report.load(options.what)
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from error
    else:
        name, found = _compiled(options)
    if options.profile:
        try:
            found = found.with_profile(options.profile)
        except (ValueError, OSError) as error:
            raise UsageError(f"--profile: {error}") from error
    if path is None and not options.json:
        path = Path(f"{name}.html")
    if path is not None:
        try:
            found.save(path)
        except NoFrontEnd as error:
            if options.output:
                raise
            path = path.with_suffix(".json")
            print(f"jax-ipu: {error}", file=sys.stderr)
            found.save(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error  # which says what cannot be written
    if options.json:
        print_json(found.as_dict())
    else:
        print(coloured(f"wrote {path}", "bold"))
        print(found)
        if options.advice:
            _print_advice(found)
    return OK if found.fits else NO


def _print_advice(found: Any) -> None:
    """What alternatives save, and how to have them."""
    for one in found.insights:
        if one["saving"] is not None:
            print(f"\n{coloured(one['title'], 'bold')}\n  {one['detail']}\n  {one['action']}")


def _check_output(path: Path) -> None:
    """Before the program is compiled, which may take long."""
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"--output {path}: the name ends in .html, or in .json for the data")
    if path.is_dir():
        raise UsageError(f"--output {path}: there is a folder of this name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {path}: its folder cannot be made: {error.strerror}") from error
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--output {path} cannot be written: you have no permission")


def _compiled(options: argparse.Namespace) -> tuple[str, Any]:
    """The name of a program, for that of a file, and its report."""
    from jax_ipu.compiler.estimates import compilation_of
    from jax_ipu.estimates import configured_target
    from jax_ipu.reports import report_of
    from jax_ipu.reports.alternatives import Question

    loaded = programs.load(options.what, options)
    program, target = loaded.at(options.batch), options.target or configured_target()
    compilation = compilation_of(*program, target)
    programs.check_ipus(compilation.num_ipus, options.num_ipus)
    half = loaded.half
    question = Question(*program, target, half and (lambda: half(options.batch))) if options.advice else None
    return re.sub(r"[^\w.-]+", "_", loaded.name), report_of(compilation, question)
