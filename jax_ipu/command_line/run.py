"""``jax-ipu run``: runs a Python program on ``ipu``, with reports and a summary at the end."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from jax_ipu.command_line.arguments import add_command, add_json, add_target, positive, sentence
from jax_ipu.command_line.output import INVALID, coloured, failed, print_json
from jax_ipu.command_line.usage import ProcessUse, kept, run_folder
from jax_ipu.compiler.tables import Row, bytes_text, seconds_text, text_table

_REPORT_VARIABLE = "JAX_IPU_REPORT_DIR"


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "run a Python program on ipu, with a report of each program that it compiles and a summary at the end"
    run = add_command(
        commands,
        "run",
        text,
        ["jax-ipu run train.py --epochs 3", "jax-ipu run --target bow --num-ipus 4 --no-report -m package.train"],
        description=f"{sentence(text)} The exit code is that of the program; the summary is on standard error.",
        usage="jax-ipu run [options] (SCRIPT | -m MODULE) [ARGUMENT ...]",
    )
    add_target(run)
    run.add_argument(
        "--num-ipus", type=positive, metavar="N", help="how many IPUs the program has; the configured number"
    )
    run.add_argument("--report-dir", metavar="FOLDER", help="where reports are written (ipu_reports/NAME-TIME)")
    run.add_argument("--no-report", action="store_true", help="write no reports")
    add_json(run)
    run.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module, as python -m")
    run.add_argument("program", metavar="SCRIPT", nargs=argparse.REMAINDER, help="the script, and its arguments")
    run.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    program = ["-m", *options.module] if options.module is not None else options.program
    if len(program) < (2 if options.module is not None else 1):
        return failed(options, INVALID, "name a script or, with -m, a module")
    if options.report_dir and options.no_report:
        return failed(options, INVALID, "give --report-dir or --no-report, not both")
    try:
        environ = _environ(options)
    except ValueError as error:
        return failed(options, INVALID, str(error))
    if missing := _missing(program):
        return failed(options, INVALID, missing)
    if options.report_dir and Path(options.report_dir).exists() and not Path(options.report_dir).is_dir():
        return failed(options, INVALID, f"--report-dir {options.report_dir} is no folder")
    reports = None if options.no_report else _report_folder(options, program)
    if reports is None:
        environ.pop(_REPORT_VARIABLE, None)
    else:
        environ[_REPORT_VARIABLE] = str(reports)
    folder = run_folder()
    try:
        if folder is not None:
            environ["JAX_IPU_MONITOR"] = str(folder)
        begin = time.monotonic()
        code = _wait([sys.executable, *program], environ, options.json)
        seconds = time.monotonic() - begin
        processes = kept(folder) if folder is not None else []
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    summary = _summary(code, seconds, processes, reports)
    if options.json:
        print_json(summary)
    else:
        sys.stdout.flush()
        print("\n".join(_lines(summary)), file=sys.stderr)
    return code


def _missing(program: list[str]) -> str | None:
    """Why Python has nothing to run, or None. Of a module only the package is looked for: more would import it."""
    if program[0] != "-m":
        path = Path(program[0])
        if path.is_dir() and not (path / "__main__.py").is_file():
            return f"{path} is a folder without a file __main__.py"
        return None if path.exists() else f"there is no file {path}"
    try:
        found = importlib.util.find_spec(program[1].partition(".")[0])
    except (ImportError, ValueError):
        found = None
    return f"there is no module {program[1]}" if found is None else None


def _environ(options: argparse.Namespace) -> dict[str, str]:
    """The environment of the program: `ipu` is the default platform; raises ValueError for a target that is not."""
    environ = dict(os.environ)
    others = [p for p in environ.get("JAX_PLATFORMS", "cpu").split(",") if p.strip() not in ("", "ipu")]
    environ["JAX_PLATFORMS"] = ",".join(["ipu", *others])
    environ.pop("JAX_PLATFORM_NAME", None)
    if options.target:
        from jax_ipu.chips import target_of

        target_of(options.target)
        chip, _, tiles = options.target.partition(":")
        environ["JAX_IPU_MODEL_VERSION"] = chip
        environ["JAX_IPU_MODEL_NUM_TILES"] = tiles or "all"
    if options.num_ipus is not None:
        environ["JAX_IPU_DEVICE_COUNT"] = str(options.num_ipus)
        environ.pop("JAX_IPU_VISIBLE_DEVICES", None)
    return environ


def _report_folder(options: argparse.Namespace, program: list[str]) -> Path:
    chosen = options.report_dir or os.environ.get(_REPORT_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    name = program[1] if program[0] == "-m" else Path(program[0]).stem
    return Path("ipu_reports").absolute() / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _wait(command: list[str], environ: dict[str, str], to_stderr: bool) -> int:
    """Runs a process and returns its exit code; 128 and the signal's number for one that a signal ended, as shells.

    The terminal sends Ctrl-C to the process as well; only it decides what that means. SIGTERM is passed on.
    """
    sys.stdout.flush()
    # Not SIG_IGN, which the program would inherit.
    interrupt = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.Popen(command, env=environ, stdout=sys.stderr.fileno() if to_stderr else None)
        terminate = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
        try:
            code = process.wait()
        finally:
            signal.signal(signal.SIGTERM, terminate)
    finally:
        signal.signal(signal.SIGINT, interrupt)
    return 128 - code if code < 0 else code


def _summary(code: int, seconds: float, processes: list[ProcessUse], reports: Path | None) -> dict[str, Any]:
    devices = [device for process in processes for device in process.devices]
    from jax_ipu.reports import index

    written = list(map(str, index.files(reports))) if reports is not None else []
    return {
        "exit_code": code,
        "seconds": seconds,
        "processes": len({process.pid for process in processes}),
        "compilations": sum(process.compilations for process in processes),
        "compile_seconds": sum(process.compile_seconds for process in processes),
        "synthetic_data": any(process.synthetic_data for process in processes),
        "runs": sum(device.runs for device in devices),
        "engine_loads": sum(device.engine_loads for device in devices),
        "cycles": sum(device.cycles for device in devices),
        "ipu_seconds": sum(device.cycles / device.clock_hz for device in devices if device.clock_hz),
        "h2d_bytes": sum(device.h2d_bytes for device in devices),
        "d2h_bytes": sum(device.d2h_bytes for device in devices),
        "link_bytes": sum(device.link_bytes for device in devices),
        "peak_bytes_in_use": max((device.peak_bytes_in_use for device in devices), default=0),
        "ipus": [{"id": d.id, "target": f"{d.chip}:{d.tiles}", "runs": d.runs, "cycles": d.cycles} for d in devices],
        "report_dir": str(reports) if reports is not None else None,
        "reports": written,
    }


def _lines(summary: dict[str, Any]) -> list[str]:
    """The summary as text."""
    title = coloured(
        f"jax-ipu: exit code {summary['exit_code']} after {seconds_text(summary['seconds'])}", "bold", sys.stderr
    )
    if not summary["ipus"]:
        return [title, "  the program did not use ipu"]
    used = sum(ipu["runs"] > 0 for ipu in summary["ipus"])
    targets = ", ".join(sorted({ipu["target"] for ipu in summary["ipus"]}))
    rows: list[Row] = [
        ("IPUs", f"{used} of {len(summary['ipus'])} used, {targets}"),
        ("compiled", f"{summary['compilations']} programs in {seconds_text(summary['compile_seconds'])}"),
        ("runs", f"{summary['runs']:,}, with {summary['engine_loads']:,} loads of programs"),
        ("cycles", f"{summary['cycles']:,}, {seconds_text(summary['ipu_seconds'])} on the chip without the host link"),
        ("host link", f"{bytes_text(summary['h2d_bytes'])} in, {bytes_text(summary['d2h_bytes'])} out"),
        ("SRAM", f"{bytes_text(summary['peak_bytes_in_use'])} at most"),
    ]
    if summary["link_bytes"]:
        rows.append(("IPU-Links", bytes_text(summary["link_bytes"])))
    if summary["synthetic_data"]:
        rows.append(("data", "synthetic: values are meaningless"))
    if summary["report_dir"] is not None:
        count = len(summary["reports"])
        rows.append(("reports", f"{count} files: open {summary['report_dir']}/index.html" if count else "none"))
    return [title, *(f"  {line}" for line in text_table(rows, left=(0, 1)))]
