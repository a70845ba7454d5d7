"""``jax-ipu estimate``, ``compare`` and ``largest-batch``: what programs cost, and whether they fit."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from jax_ipu import environment
from jax_ipu.chips import chip_names, target_of
from jax_ipu.command_line import programs
from jax_ipu.command_line.arguments import add_command, add_json, add_target, number, positive
from jax_ipu.command_line.failures import message_of
from jax_ipu.command_line.output import (
    FAILED,
    INVALID,
    NO,
    OK,
    UsageError,
    alone_on_stdout,
    coloured,
    failed,
    is_of_output,
    print_json,
)
from jax_ipu.compiler.tables import text_table
from jax_ipu.config import Config, config


def add_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    estimate = add_program_command(
        commands,
        "estimate",
        "say whether a program fits on an IPU and what a call costs",
        _estimate,
        [
            "jax-ipu estimate train.py:step --target bow --batch 128",
            "jax-ipu estimate train.py:step --arg 'f32[128,784]'",
        ],
    )
    estimate.add_argument("what", metavar="PROGRAM", help=programs.WHAT)
    add_target(estimate)
    estimate.add_argument("--batch", type=positive, metavar="N", help="the size of the batch")
    estimate.add_argument("--top", type=number(0), default=10, metavar="N", help="how many operations to print (10)")

    compare = add_program_command(
        commands,
        "compare",
        "compare programs, or one program on several chips",
        _compare,
        ["jax-ipu compare train.py:step --target ipu2,bow", "jax-ipu compare before.json after.json -o both.html"],
    )
    saved = "; or what estimate --json printed, or a report (.json), as it is"
    compare.add_argument("what", metavar="PROGRAM", nargs="+", help=programs.WHAT + saved)
    compare.add_argument("--target", metavar="CHIP,CHIP", help="chips, separated by commas; by default all")
    compare.add_argument("--batch", type=positive, metavar="N", help="the size of the batch")
    compare.add_argument("-o", "--output", metavar="FILE", help="write two reports side by side, as .html or .json")

    largest = add_program_command(
        commands,
        "largest-batch",
        "find the largest batch with which a program fits",
        _largest_batch,
        ["jax-ipu largest-batch train.py:step --arg 'f32[784,10]' --arg 'f32[b,784]' --target ipu2"],
    )
    largest.add_argument("what", metavar="PROGRAM", help=programs.WHAT)
    add_target(largest)
    largest.add_argument("--start", type=positive, default=64, metavar="N", help="the first batch to try (64)")
    largest.add_argument("--multiple-of", type=positive, default=1, metavar="N", help="only try multiples of this (1)")
    largest.add_argument(
        "--limit", type=positive, default=1 << 20, metavar="N", help=f"the largest batch to try ({1 << 20})"
    )


def add_program_command(
    commands: Any, name: str, text: str, run: Callable[[argparse.Namespace], int], examples: Sequence[str]
) -> argparse.ArgumentParser:
    """Adds a command that takes programs; an error of the program or of the compiler becomes an exit code."""
    parser: argparse.ArgumentParser = add_command(commands, name, text, examples)
    programs.add_arguments(parser)
    parser.add_argument("--num-ipus", type=positive, metavar="N", help="the number of IPUs that the program may find")
    parser.add_argument("--traceback", action="store_true", help="where the program fails, show where in Python")
    add_json(parser)
    parser.set_defaults(run=lambda options: _reported(options, run))
    return parser


def _reported(options: argparse.Namespace, run: Callable[[argparse.Namespace], int]) -> int:
    """Runs a command; an error of the user's program or of the compiler becomes a message and an exit code."""
    environment.warn_once(os.environ, Config.variables())
    if options.num_ipus is not None:  # read when JAX creates its backends
        os.environ["JAX_IPU_DEVICE_COUNT"] = str(options.num_ipus)
    targets = [] if options.target is None else [options.target]
    if targets and isinstance(options.what, str) and "," in options.target:
        return failed(options, INVALID, f"target {options.target!r} is not one chip: jax-ipu compare takes several")
    if targets and isinstance(options.what, list):  # what takes several programs takes several chips
        targets = _chips(options.target)
    try:
        for target in targets:
            target_of(target)
        config.sources()
    except ValueError as error:
        return failed(options, INVALID, str(error))
    try:
        with alone_on_stdout() if options.json else nullcontext():
            return run(options)
    except UsageError as error:
        if options.traceback and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise
    except Exception as error:  # whatever the code of the user raises
        if is_of_output(error):
            raise
        if options.traceback:
            traceback.print_exc()
        message = message_of(error)
        if isinstance(options.what, str):
            message = programs.with_file(options.what, message)
        return failed(options, FAILED, message)


def _chips(text: str) -> list[str]:
    return [target.strip() for target in text.split(",")]


def _for_target(program: programs.Bytes, target: str | None, **changes: Any) -> Any:
    from jax_ipu.compiler.estimates import estimate
    from jax_ipu.estimates import configured_target

    return estimate(*program, configured_target() if target is None else target, **changes)


def _checked(options: argparse.Namespace, estimate: Any) -> Any:
    programs.check_ipus(estimate.num_ipus, options.num_ipus)
    return estimate


def _estimate(options: argparse.Namespace) -> int:
    found = _checked(options, _for_target(programs.load(options.what, options).at(options.batch), options.target))
    if options.json:
        print_json(found.as_dict())
    else:
        _print(found, options.top)
    return OK if found.fits else NO


def _print(found: Any, top: int) -> None:
    print(coloured(found.title(), "bold"))
    for line in text_table(found.summary(), left=(0, 1)):
        print("  " + (coloured(line, "green" if found.fits else "red") if line.startswith("fits") else line))
    if found.reason is not None:
        print(f"\n{found.reason}")
    if found.operations and top > 0:
        rows = found.table(top)
        header, *lines = text_table(rows, left=(0, len(rows[0]) - 1))
        print("\n".join(["", coloured(header, "bold"), *lines]))
        if len(found.operations) > top:
            print(f"and {len(found.operations) - top} more operations")


def _saved(path: str) -> Any:
    """The estimate in a file that ``estimate --json`` or ``report`` wrote."""
    from jax_ipu.compiler.estimates import Estimate
    from jax_ipu.reports import Report

    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}")
    try:
        values = json.loads(Path(path).read_text())
        if isinstance(values, dict) and "format" in values:
            return Report.load(path).estimate
        return Estimate.from_dict(values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is not what jax-ipu estimate --json prints, and no report: {error}") from error


def _compare(options: argparse.Namespace) -> int:
    from jax_ipu.estimates import Comparison

    targets = _chips(options.target) if options.target is not None else list(chip_names())
    if all(what.endswith(".json") for what in options.what):
        programs.refuse_options_of_programs(options, "what was saved")
    if options.output is not None:
        _compare_reports(options)
    estimates = {}
    for what in options.what:
        if what.endswith(".json"):
            estimates[what] = _saved(what)
            continue
        loaded = programs.load(what, options)
        program = loaded.at(options.batch)
        for target in targets:
            label = target if len(options.what) == 1 else f"{what} {target}"
            estimates[label] = _checked(options, _for_target(program, target))
    comparison = Comparison(estimates)
    if options.json:
        print_json(comparison.as_dict())
    else:
        header, *lines = text_table(comparison.table(), left=(0, 1))
        print("\n".join([coloured(header, "bold"), *lines]))
    return OK if all(one.fits for one in estimates.values()) else NO


def _compare_reports(options: argparse.Namespace) -> None:
    """Writes two reports, which are files, side by side."""
    from jax_ipu.reports import NoFrontEnd, Report

    if len(options.what) != 2 or not all(what.endswith(".json") for what in options.what):
        raise UsageError("--output compares two reports: give two .json files that jax-ipu report wrote")
    try:
        first, second = map(Report.load, options.what)
        first.compare(second, options.output)
    except (OSError, ValueError, NoFrontEnd) as error:
        raise UsageError(str(error)) from error
    print(f"wrote {options.output}", file=sys.stderr)


def _largest_batch(options: argparse.Namespace) -> int:
    from jax_ipu.estimates import search_batch

    loaded = programs.load(options.what, options)
    if options.limit < options.multiple_of:
        raise UsageError(f"--limit {options.limit} is below --multiple-of {options.multiple_of}")

    try:
        first, second = (loaded.at(factor * options.multiple_of).program for factor in (1, 2))
    except programs.Refusal as error:
        raise UsageError(
            f"{error}\nBatches are multiples of --multiple-of, which is {options.multiple_of}: give the one that the"
            " function needs"
        ) from error.__cause__
    if first == second:
        raise UsageError(
            f"{options.what} has no batch: with {options.multiple_of} and {2 * options.multiple_of} it is one program."
            " Give --arg with the letter b for the batch, e.g. f32[b,784], or --args-from with a function of the batch"
        )

    def attempt(batch: int, **changes: Any) -> Any:
        return _checked(options, _for_target(loaded.at(batch), options.target, **changes))

    def alone(batch: int) -> Any:
        return attempt(batch, advice_seconds=0.0)

    batch, found = search_batch(alone, options.start, options.multiple_of, options.limit, None)
    if not batch:
        found = attempt(options.multiple_of)
    if options.json:
        print_json({"batch": batch, "estimate": found.as_dict()})
    elif batch:
        at_limit = batch + options.multiple_of > options.limit
        print(coloured(f"largest batch: {batch:,}", "bold") + (", as --limit has it" if at_limit else ""))
        _print(found, 0)
    else:
        print(coloured("no batch fits", "red"))
        _print(found, 0)
    return OK if batch else NO
