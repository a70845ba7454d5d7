"""index.html of a folder of reports: a row for each. Processes that write at the same time keep each other's rows."""

from __future__ import annotations

import contextlib
import fcntl
import html
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax_ipu.compiler.tables import bytes_text, percent_text, seconds_text
from jax_ipu.reports.result import Report

NAME, LOCK = "index.html", ".index.lock"
_DATA = re.compile(r'<script type="application/json" id="reports-index">(.*?)</script>', re.DOTALL)
_HEADS = ("Program", "Chip", "Fits", "#Cycles", "#On the chip", "#A call", "#Fullest tile", "#All tiles", "Written")


def write(path: Path, text: str) -> None:
    """Writes a file that is there as a whole or as it was, whoever reads it; its folder is made if it does not exist.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".report-{uuid.uuid4().hex}.part"
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def add(path: Path, report: Report) -> None:
    """Adds a report that has been written to the index of its folder. Reports that are no longer there leave it.

    Raises:
        ValueError: there is an index.html which is none of reports.
        OSError: it cannot be written.
    """
    with _locked(path.parent):
        rows = {row["file"]: row for row in read(path.parent)}
        rows[path.name] = _row(path.name, report)
        write(path.parent / NAME, page([row for name, row in rows.items() if (path.parent / name).exists()]))


def files(folder: Path) -> list[Path]:
    """The reports in a folder, without its index and what is being written."""
    return sorted(
        path for path in folder.glob("*") if path.is_file() and path.name != NAME and not path.name.startswith(".")
    )


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of the index of a folder, in the order in which they came; none if it has no index.

    Raises:
        ValueError: its index.html is none of reports.
    """
    try:
        text = (folder / NAME).read_text("utf-8")
    except FileNotFoundError:
        return []
    found = _DATA.search(text)
    if found is None:
        raise ValueError(f"{folder / NAME} is no index of reports, and is left as it is")
    return list(json.loads(found[1]))


def _row(file: str, report: Report) -> dict[str, Any]:
    estimate = report.estimate
    return {
        "file": file,
        "program": estimate.name,
        "chip": estimate.target,
        "num_ipus": estimate.num_ipus,
        "fits": report.fits,
        "cycles": estimate.cycles,
        "seconds": estimate.seconds,
        "call_seconds": estimate.call_seconds,
        "fullest_tile_bytes": estimate.fullest_tile_bytes,
        "tile_memory_bytes": estimate.tile_memory_bytes,
        "total_bytes": estimate.total_bytes,
        "written": round(time.time()),
        "process": os.getpid(),
    }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The index as HTML. Its data is in it, for the next report that is written; a name cannot end the element."""
    data = json.dumps(list(rows)).replace("<", "\\u003c")
    head = "".join(f"<th{_number(title)}><button>{title.lstrip('#')}</button></th>" for title in _HEADS)
    missing = sum(not row["fits"] for row in rows)
    summary = f"{len(rows)} program{'s' * (len(rows) != 1)}" + (
        f", {missing} of which {'do' if missing > 1 else 'does'} not fit" if missing else ""
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>IPU reports</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>IPU reports</h1>\n<p>{summary}. All figures are modelled, for "
        "each program alone; the order is that in which they were compiled. Load the page again for those that came "
        f"since.</p>\n<div><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(map(_line, rows))
        + f'\n</tbody>\n</table></div>\n<script type="application/json" id="reports-index">{data}</script>\n'
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _line(row: Mapping[str, Any]) -> str:
    chip = html.escape(row["chip"])
    if row["num_ipus"] != 1:
        chip = f"{row['num_ipus']} &times; {chip}"
    name, file = html.escape(row["program"]), html.escape(row["file"], quote=True)
    fullest, capacity = row["fullest_tile_bytes"], row["tile_memory_bytes"]
    cells: list[tuple[Any, str]] = [
        (row["program"], f'<a href="{file}">{name}</a>'),
        (row["chip"], chip),
        (int(row["fits"]), "yes" if row["fits"] else '<b class="bad">no</b>'),
        (row["cycles"], _shown(row["cycles"], lambda cycles: f"{cycles:,}")),
        (row["seconds"], _shown(row["seconds"], seconds_text)),
        (row["call_seconds"], _shown(row["call_seconds"], seconds_text)),
        (fullest, _shown(fullest, lambda size: f"{bytes_text(size)}, {percent_text(size, capacity)}")),
        (row["total_bytes"], _shown(row["total_bytes"], bytes_text)),
        (row["written"], time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["written"]))),
    ]
    return f"<tr>{''.join(_cell(title, *cell) for title, cell in zip(_HEADS, cells, strict=True))}</tr>"


def _cell(title: str, value: Any, text: str) -> str:
    """A cell that shows `text`, and is sorted by `value`."""
    key = "" if value is None else html.escape(str(value), quote=True)
    return f'<td{_number(title)} data-value="{key}">{text}</td>'


def _number(title: str) -> str:
    return ' class="number"' if title.startswith("#") else ""


def _shown(value: Any, text: Any) -> str:
    return "&ndash;" if value is None else str(text(value))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from the index of a folder."""
    with open(folder / LOCK, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1200px; padding: 16px; font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; background: light-dark(#f5f6f8, #11151b); color: light-dark(#1b2430, #e4e9ef); }
h1 { font-size: 18px; }
p { color: light-dark(#5b6675, #9aa6b5); }
div { overflow-x: auto; border: 1px solid light-dark(#dfe3e9, #2e3743); border-radius: 8px;
  background: light-dark(#fff, #191f27); }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 6px 10px; text-align: left; white-space: nowrap;
  border-bottom: 1px solid light-dark(#e6e9ee, #27303b); }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 140px; }
.number { text-align: right; }
th button { border: 0; padding: 0; background: none; color: light-dark(#5b6675, #9aa6b5); font: inherit;
  font-weight: 600; cursor: pointer; }
a { color: light-dark(#1f66c1, #6fb0f2); }
.bad { color: light-dark(#b3380b, #ff9a6b); }
"""
# A click on a head sorts by its column, a second one the other way round.
_SCRIPT = """
const body = document.querySelector("tbody");
document.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
  const down = button.dataset.down = button.dataset.down === "1" ? "0" : "1";
  const value = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => !value(a) - !value(b) ||
    (down === "1" ? -1 : 1) * (value(a) - value(b) || value(a).localeCompare(value(b)));
  body.append(...[...body.rows].sort(compare));
}));
"""
