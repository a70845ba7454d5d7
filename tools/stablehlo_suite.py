"""Runs StableHLO's self-checking programs on the IPU model and on JAX's CPU backend.

    python tools/stablehlo_suite.py CHECKOUT/stablehlo [--only PATTERN] [--known FILE] [--report FILE]

Every program runs in a worker process with a time limit, so that a crash or a hang costs one program. The expected
values are in the programs. Fails when a program fails that is not in the list of known failures, or when a listed one
passes.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import multiprocessing
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

KNOWN = Path(__file__).parent / "stablehlo_known_failures.txt"


class Outcome(NamedTuple):
    """The outcome of one program on one backend: passed, differs, refused, failed, crashed or timed out."""

    state: str
    detail: str = ""


class Result(NamedTuple):
    """The outcomes of a program on both backends; `skipped` says why it cannot be judged."""

    name: str
    ipu: Outcome | None
    cpu: Outcome | None
    skipped: str = ""


# In the worker ----------------------------------------------------------------------------------------------------


def run_program(root: Path, name: str, execution: str, target: str, with_cpu: bool) -> Iterator[Result]:
    """Runs one program in this process. Yields the result that applies if the process dies before the next one."""
    import jax
    from conformance import stablehlo_programs

    jax.config.update("jax_enable_x64", True)
    try:
        program = stablehlo_programs.load(root, name)
    except stablehlo_programs.NotSelfChecking as reason:
        yield Result(name, None, None, str(reason))
        return
    except Exception as error:
        yield Result(name, None, None, f"cannot be read: {_first_line(error)}")
        return
    # Applies if the process ends here.
    yield Result(name, None, None, "have expectations that crash the CPU backend")
    try:
        expected = _run_on_cpu(program.expected)
    except Exception as error:
        yield Result(name, None, None, f"have expectations that CPU cannot return: {_first_line(error)}")
        return

    yield Result(name, Outcome("crashed"), None)

    def judge(values: list[Any]) -> Outcome:
        for i, (check, a, e) in enumerate(zip(program.checks, values, expected, strict=True)):
            wrong = stablehlo_programs.difference(check, a, e)
            if wrong:
                return Outcome("differs", f"check {i}: {wrong}")
        return Outcome("passed")

    ipu = _outcome(lambda: judge(_run_on_ipu(program.actual, expected, execution, target)))
    yield Result(name, ipu, None)
    if with_cpu:
        yield Result(name, ipu, _outcome(lambda: judge(_run_on_cpu(program.actual))))


def _outcome(judge: Any) -> Outcome:
    from jax_ipu.compiler.errors import UNIMPLEMENTED

    try:
        outcome: Outcome = judge()
        return outcome
    except Exception as error:
        refused = getattr(error, "code", 0) == UNIMPLEMENTED or "UNIMPLEMENTED" in str(error)
        return Outcome("refused" if refused else "failed", _first_line(error))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    at = next((i for i, line in enumerate(lines) if "error:" in line), 0)
    return lines[at][:300]


def _run_on_cpu(text: str) -> list[Any]:
    import jax
    import numpy as np
    from jax._src.lib import _jax, xla_client

    device = jax.devices("cpu")[0]
    options = xla_client.CompileOptions()
    loaded = device.client.compile_and_load(text, _jax.DeviceList((device,)), options)
    return [np.asarray(parts[0]) for parts in loaded.execute_sharded([]).disassemble_into_single_device_arrays()]


def _run_on_ipu(text: str, like: list[Any], execution: str, target: str) -> list[Any]:
    import numpy as np

    from jax_ipu import _ipu, compiler

    executable = compiler.compile(text.encode(), "mlir", b"", target)
    results = _ipu.run(executable, [], execution)
    return [np.frombuffer(r, e.dtype).reshape(e.shape) for r, e in zip(results, like, strict=True)]


def _serve(connection: Connection, arguments: tuple[Any, ...]) -> None:
    while (name := connection.recv()) is not None:
        for result in run_program(arguments[0], name, *arguments[1:]):
            connection.send(result)
        connection.send(None)


# The pool ---------------------------------------------------------------------------------------------------------


def run_all(names: list[str], arguments: tuple[Any, ...], jobs: int, timeout: float) -> Iterator[Result]:
    """Yields results in the order in which they are ready."""
    pending = collections.deque(names)
    results: list[Result] = []
    ready = threading.Condition()

    def work() -> None:
        process, connection = None, None
        while True:
            try:
                name = pending.popleft()
            except IndexError:
                break
            if process is None:
                process, connection = _start(arguments)
            result, alive = _ask(connection, name, timeout)
            if not alive:
                process.kill()
                process.join()
                process = None
            with ready:
                results.append(result)
                ready.notify()
        if process is not None and connection is not None:
            connection.send(None)
            process.join()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for _ in names:
        with ready:
            while not results:
                ready.wait()
            result = results.pop(0)
        yield result
    for thread in threads:
        thread.join()


def _start(arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _ask(connection: Any, name: str, timeout: float) -> tuple[Result, bool]:
    """Returns the result, and whether the worker is still usable."""
    connection.send(name)
    result: Result | None = None
    problem = Outcome("timed out", f"after {timeout:g} s")
    try:
        while connection.poll(timeout):
            latest: Result | None = connection.recv()
            if latest is None:
                assert result is not None
                return result, True
            result = latest
    except EOFError:
        problem = Outcome("crashed")
    if result is None or (result.ipu is not None and result.ipu.state == "crashed"):
        return Result(name, problem, None), False
    # The CPU backend caused the missing part of the result.
    return result._replace(cpu=problem), False


# Reporting --------------------------------------------------------------------------------------------------------


def known_failures(path: Path) -> dict[str, str]:
    """Returns program name or pattern -> reason. A line is ``name: reason``."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    entries = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: reason for name, _, reason in entries}


def summary(results: Iterable[Result]) -> str:
    """Returns a Markdown table of counts per folder, and why programs were left out."""
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    skipped: collections.Counter[str] = collections.Counter()
    for result in results:
        row = rows[result.name.rpartition("/")[0]]
        if result.ipu is None:
            skipped[re.sub(r":.*", "", result.skipped)] += 1
            continue
        row["programs"] += 1
        row[result.ipu.state] += 1
        if result.cpu is not None:
            cpu_passed = result.cpu.state == "passed"
            row["cpu passed"] += cpu_passed
            row["only cpu passed"] += cpu_passed and result.ipu.state != "passed"
            row["only ipu passed"] += not cpu_passed and result.ipu.state == "passed"
    columns = ("programs", "passed", "differs", "refused", "failed", "crashed", "timed out")
    columns += ("cpu passed", "only cpu passed", "only ipu passed")
    lines = ["| folder | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for folder in sorted(rows):
        if rows[folder]["programs"]:
            lines.append(f"| {folder} | " + " | ".join(str(rows[folder][c]) for c in columns) + " |")
    total = sum(rows.values(), collections.Counter())
    lines.append("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    lines.append("")
    lines += [f"* left out: {count} programs, {reason}" for reason, count in skipped.most_common()]
    return "\n".join(lines)


HEADER = """# StableHLO's self-checking programs

Made by `tools/stablehlo_suite.py CHECKOUT/stablehlo --document docs/stablehlo_conformance.md`; do not edit. They are
the programs of openxla/stablehlo in `testdata` and `tests/interpret`, which hold the values that they expect and how
near results must be. They run on the {execution} engine of `{target}` and on JAX's CPU backend, with jaxlib {version}.
*differs*: a wrong value; *refused*: not supported, with a message; *failed*: any other error.
"""


def document(results: list[Result], known: dict[str, str], options: argparse.Namespace) -> str:
    """Returns the Markdown page of a run."""
    header = HEADER.format(execution=options.execution, target=options.target, version=version("jaxlib"))
    lines = [header, summary(results), "", "## Failures", "", "| program | reason | also on CPU |", "|---|---|---|"]
    for result in results:
        if result.ipu is not None and result.ipu.state != "passed":
            reason = next((r for p, r in known.items() if fnmatch.fnmatch(result.name, p)), result.ipu.detail)
            cpu = "yes" if result.cpu is not None and result.cpu.state != "passed" else "no"
            lines.append(f"| `{result.name}` | {reason} | {cpu} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Runs the command. Returns 0 if nothing unexpected happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder with testdata and tests/interpret")
    parser.add_argument("--only", default="*", help="pattern of program names")
    parser.add_argument("--known", type=Path, default=KNOWN, help="list of known failures")
    parser.add_argument("--report", type=Path, help="where to write a line for each program")
    parser.add_argument("--document", type=Path, help="where to write the table as Markdown")
    parser.add_argument("--execution", choices=("fast", "tile"), default="fast")
    parser.add_argument("--target", default="ipu2:8", help="architecture and number of tiles")
    parser.add_argument("--no-cpu", action="store_true", help="do not run the CPU backend")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    options = parser.parse_args(argv)

    from conformance import stablehlo_programs

    names = [n for n in stablehlo_programs.names(options.root) if fnmatch.fnmatch(n, options.only)]
    arguments = (options.root, options.execution, options.target, not options.no_cpu)
    known = known_failures(options.known)
    started = time.monotonic()
    results, unexpected = [], []
    for result in run_all(names, arguments, options.jobs, options.timeout):
        results.append(result)
        if result.ipu is None:
            continue
        reason = next((r for pattern, r in known.items() if fnmatch.fnmatch(result.name, pattern)), None)
        if (result.ipu.state == "passed") == (reason is not None):
            unexpected.append(result)
    results.sort()
    if options.report:
        options.report.write_text("".join(_line(r) for r in results))
    if options.document:
        options.document.write_text(document(results, known, options))
    print(summary(results))
    print(f"\n{len(results)} programs in {time.monotonic() - started:.0f} s")
    for result in unexpected:
        print("UNEXPECTED", _line(result), end="")
    return 1 if unexpected else 0


def _line(result: Result) -> str:
    if result.ipu is None:
        return f"{result.name}\tleft out\t{result.skipped}\n"
    cpu = f"\tcpu {result.cpu.state} {result.cpu.detail}" if result.cpu is not None else ""
    return f"{result.name}\t{result.ipu.state}\t{result.ipu.detail}{cpu}\n"


if __name__ == "__main__":
    sys.exit(main())
