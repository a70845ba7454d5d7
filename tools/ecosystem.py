"""Measures the models of tests/support/zoo and writes the table of docs/ecosystem.md.

    python tools/ecosystem.py [--only PATTERN ...] [--seconds 10] [--limit 1800] [--list] [--no-write]

Every row runs in a process of its own, on the IPU model and on its framework's own CPU in turn, so that a crash, a hang
or a lack of memory costs one row. Rows whose framework is not installed are left as they were. The table is made from
docs/ecosystem.json, which keeps the last measurement of each row.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from documentation.parts import write_part

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "ecosystem.md"
STORE = ROOT / "docs" / "ecosystem.json"
BEGIN, END = "<!-- models: made by tools/ecosystem.py -->", "<!-- end of models -->"
COLUMNS = (
    "model",
    "framework",
    "task",
    "precision",
    "IPUs",
    "fits",
    "compile, s",
    "step, ms",
    "CPU step, ms",
    "ratio",
    "cycles",
    "largest error",
    "CPU's error",
)

sys.path.insert(0, str(ROOT / "tests"))


def _measure_here(name: str, seconds: float) -> dict[str, Any]:
    """Measures one row in this process."""
    from support.zoo import rows
    from support.zoo.measure import measure

    row = next(row for row in rows() if row.name == name)
    try:
        measurement = measure(row, steps=4, seconds=seconds)
    except Exception as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"fits": False, "reason": str(error).splitlines()[0]}
    return {"fits": True, **measurement._asdict(), "agrees": measurement.agrees(row.tolerance)}


def _measure_apart(name: str, seconds: float, limit: float) -> dict[str, Any]:
    """Measures one row in a separate process."""
    command = [sys.executable, __file__, "--row", name, "--seconds", str(seconds)]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = {"JAX_IPU_DEVICE_COUNT": "8", **os.environ, "XLA_FLAGS": flags}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {limit:.0f} s"}
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return {"failed": lines[-1][:300]}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def _cells(row: dict[str, Any]) -> list[str]:
    head = [row["model"], row["framework"], row["task"], row["precision"], str(row["ipus"])]
    if "failed" in row:
        return [*head, f"failed: {row['failed']}", "", "", "", "", "", "", ""]
    if not row["fits"]:
        return [*head, f"no: {row['reason']}", "", "", "", "", "", "", ""]
    step, cpu = 1e3 * row["step_seconds"], 1e3 * row["cpu_step_seconds"]
    return [
        *head,
        "yes",
        f"{row['compile_seconds']:.1f}",
        f"{step:.1f}",
        f"{cpu:.1f}",
        f"{step / cpu:.2f}",
        f"{row['cycles']:,}",
        f"{row['error']:.1e}" + ("" if row["agrees"] else " (too large)"),
        "" if row["cpu_error"] is None else f"{row['cpu_error']:.1e}",
    ]


def table(stored: dict[str, dict[str, Any]]) -> str:
    """Returns the table as Markdown, one line per row, sorted by framework, model and task."""
    rows = sorted(stored.values(), key=lambda r: (r["framework"], r["model"], r["task"], r["precision"], r["ipus"]))
    lines = [COLUMNS, ["---"] * 4 + ["---:"] + ["---"] + ["---:"] * 7, *map(_cells, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _versions() -> str:
    names = ("jax", "torch", "torchax", "transformers", "keras", "onnx", "flax", "equinox", "optax")
    return ", ".join(f"{n} {version(n)}" for n in names if importlib.util.find_spec(n) is not None)


def _write(stored: dict[str, dict[str, Any]]) -> None:
    STORE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    write_part(DOCUMENT, BEGIN, END, table(stored))


def main() -> int:
    """Returns exit code 1 if a row failed, does not fit, or is less exact than required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="glob over row names; may be repeated")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for the steps of one row")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a row is given up")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    parser.add_argument("--no-write", action="store_true", help="do not change the document")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        result = _measure_here(options.row, options.seconds)
        print(json.dumps(result), flush=True)
        return 0
    from support.zoo import rows

    chosen = [r for r in rows() if not options.only or any(fnmatch.fnmatch(r.name, p) for p in options.only)]
    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    good = True
    for row in chosen:
        missing = [p for p in row.packages if importlib.util.find_spec(p) is None]
        if options.list or missing:
            print(row.name + (f": needs {', '.join(missing)}" if missing else ""))
            continue
        result = _measure_apart(row.name, options.seconds, options.limit)
        about = {"model": row.model, "framework": row.framework, "task": row.task}
        about |= {"precision": row.precision, "ipus": row.ipus, "date": str(date.today()), "versions": _versions()}
        stored[row.name] = {**about, **result}
        cells = _cells(stored[row.name])
        good = good and cells[5] == "yes" and "too large" not in cells[-2]
        print(f"{row.name}: " + ", ".join(f"{c} {v}" for c, v in zip(COLUMNS[5:], cells[5:], strict=True) if v))
        if not options.no_write:
            _write(stored)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
