"""Measures what is larger than one IPU and writes the table of docs/large_models.md.

    python tools/large_models.py [--only PATTERN ...] [--missing] [--limit 1800] [--list] [--no-write]

Every row (tools/larger/rows.py) is measured in a process of its own. Most are estimates; those that say so are runs
on the model. The table is made from docs/large_models.json, which keeps the last result of each row.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from documentation.parts import write_part

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "large_models.md"
STORE = ROOT / "docs" / "large_models.json"
BEGIN, END = "<!-- table: made by tools/large_models.py -->", "<!-- end of table -->"

sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "examples/garden", "examples/gpt")]


def _measured_here(name: str) -> dict[str, Any]:
    """Measures a row in this process: what was found, and the time and memory that it took."""
    from larger.rows import ROWS

    start = time.perf_counter()
    found = ROWS[name].measure()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {**found._asdict(), "seconds": round(time.perf_counter() - start), "mib": peak}


def _measured_apart(name: str, limit: float) -> dict[str, Any]:
    """Measures a row in another process."""
    environment = {"JAX_PLATFORMS": "ipu,cpu", **os.environ}
    try:
        run = subprocess.run(
            [sys.executable, __file__, "--row", name], capture_output=True, text=True, timeout=limit, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"text": f"not finished after {limit:.0f} s", "met": False}
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return {"text": f"failed: {lines[-1][:300]}", "met": False}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def table(stored: dict[str, dict[str, Any]]) -> str:
    """Returns the table of all rows as Markdown."""
    from larger.rows import ROWS

    lines = ["| check | needed | measured | met |", "| --- | --- | --- | --- |"]
    for name, row in ROWS.items():
        if name in stored:
            found = stored[name]
            text = found["text"].replace("|", "/")
            lines.append(f"| {row.check} | {row.needed} | {text} | {'yes' if found['met'] else 'no'} |")
    return "\n".join(lines)


def _write(stored: dict[str, dict[str, Any]]) -> None:
    STORE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    write_part(DOCUMENT, BEGIN, END, table(stored))


def main() -> int:
    """Returns exit code 1 if a row is not what is needed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="glob over row names; may be repeated")
    parser.add_argument("--missing", action="store_true", help="only rows without a result")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a row is given up")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    parser.add_argument("--no-write", action="store_true", help="do not change the document")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(_measured_here(options.row)), flush=True)
        return 0
    from larger.rows import ROWS

    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    good = True
    for name, row in ROWS.items():
        if options.only and not any(fnmatch.fnmatch(name, pattern) for pattern in options.only):
            continue
        if options.missing and name in stored:
            continue
        if options.list:
            print(f"{name}: {row.check}")
            continue
        found = _measured_apart(name, options.limit)
        good = good and found["met"]
        print(f"{name}: {'yes' if found['met'] else 'NO'}: {found['text']} [{found.get('seconds')} s]", flush=True)
        stored[name] = {**found, "date": str(date.today())}
        if not options.no_write:
            _write(stored)
    if not options.list and not options.no_write:
        _write(stored)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
