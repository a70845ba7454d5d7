"""Estimates the programs of examples/garden and writes the tables of docs/model_garden.md.

    python tools/model_garden.py [--only PATTERN ...] [--missing] [--limit 1800] [--list] [--no-write]

Every row is estimated in a process of its own, so that a crash, a hang or a lack of memory costs one row. Nothing is
run, but for programs with loops whose trip counts depend on values: these take some steps on the model. Rows whose
packages are not installed are left as they were. The tables are made from docs/model_garden.json, which keeps the last
result of each row.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import textwrap
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from documentation.parts import write_part

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "model_garden.md"
STORE = ROOT / "docs" / "model_garden.json"
GARDEN = ROOT / "examples" / "garden"
BEGIN, END = "<!-- {}: made by tools/model_garden.py -->", "<!-- end of {} -->"

sys.path.insert(0, str(GARDEN))


class Row(NamedTuple):
    """A task of a program, for some IPUs of a chip; `figure` is a name in published.py."""

    program: str
    task: str
    target: str
    ipus: int
    batch: int
    precision: str
    figure: str | None = None

    @property
    def name(self) -> str:
        """What the row is called on the command line and in the store."""
        return f"{self.program} {self.task} {self.precision} b{self.batch} {self.target} x{self.ipus}"


# Of programs that have to run; their costs are a mean.
STEPS = 5
HALF, SINGLE = "float16", "float32"
ROWS = [
    Row("resnet50", "training", "bow", 1, 16, HALF, "resnet50 training"),
    Row("resnet50", "training", "bow", 1, 20, HALF, "resnet50 training"),
    Row("resnet50", "training", "bow", 16, 256, HALF, "resnet50 training"),
    Row("resnet50", "training", "bow", 1, 4, SINGLE),
    Row("resnet50", "training", "bow", 1, 32, HALF),
    Row("resnet50", "inference", "ipu21", 1, 4, HALF, "resnet50 inference 4"),
    Row("resnet50", "inference", "ipu21", 1, 32, HALF, "resnet50 inference 32"),
    Row("bert_base", "training", "bow", 1, 1, HALF, "bert_base training"),
    Row("bert_base", "training", "bow", 1, 4, HALF, "bert_base training"),
    Row("bert_base", "training", "bow", 1, 8, HALF, "bert_base training"),
    Row("bert_base", "training", "bow", 4, 4, SINGLE),
    Row("bert_base", "training", "bow", 8, 8, SINGLE),
    Row("bert_base", "training", "bow", 1, 1, SINGLE),
    Row("bert_base", "inference", "ipu21", 1, 4, HALF, "bert_base inference"),
    Row("bert_base", "inference", "ipu21", 1, 8, HALF, "bert_base inference"),
    Row("bert_base", "inference", "ipu21", 1, 40, HALF, "bert_base inference"),
    Row("bert_large", "training", "bow", 4, 1024, HALF, "bert_large training"),
    Row("bert_large", "training", "bow", 16, 1024, HALF, "bert_large training"),
    Row("bert_large", "training", "bow", 16, 1024, SINGLE),
    Row("bert_fine_tuning", "training", "bow", 1, 32, SINGLE),
    Row("gpt2", "training", "bow", 1, 1, HALF),
    Row("gpt2", "training", "bow", 1, 4, HALF),
    Row("gpt2", "training", "bow", 4, 4, SINGLE),
    Row("gpt2", "training", "bow", 1, 1, SINGLE),
    Row("gpt2", "training 1024", "bow", 1, 1, HALF),
    Row("gpt2", "training 1024", "bow", 4, 4, HALF),
    Row("gpt2", "decoding", "bow", 1, 1, HALF),
    Row("gpt2", "decoding", "bow", 1, 4, HALF),
    Row("vit", "training", "bow", 1, 4, HALF, "vit training"),
    Row("vit", "training", "bow", 1, 8, HALF, "vit training"),
    Row("vit", "training", "bow", 4, 8, SINGLE),
    Row("vit", "inference", "bow", 1, 4, HALF),
    Row("efficientnet", "training", "bow", 1, 8, HALF),
    Row("efficientnet", "training", "bow", 1, 4, SINGLE),
    Row("efficientnet", "inference", "bow", 1, 8, HALF),
    Row("gnn", "training", "bow", 1, 64, SINGLE),
    Row("gnn", "training", "bow", 16, 1024, SINGLE),
    Row("recurrent", "LSTM", "bow", 1, 64, SINGLE),
    Row("recurrent", "GRU", "bow", 1, 64, SINGLE),
    Row("recurrent", "LSTM-inference", "bow", 1, 64, SINGLE),
    Row("recurrent", "GRU-inference", "bow", 1, 64, SINGLE),
    Row("vae", "training", "bow", 1, 128, SINGLE),
    Row("nuts", "sampling", "bow", 1, 16, SINGLE),
    Row("cartpole", "training", "bow", 1, 16, SINGLE),
    Row("keras_cifar", "training", "ipu2", 1, 64, SINGLE),
    Row("keras_cifar", "training", "ipu1", 1, 64, SINGLE),
    Row("keras_mnist", "training", "ipu2", 1, 32, SINGLE),
    Row("heat", "2d", "ipu2", 1, 8000, SINGLE, "heat 2d"),
    Row("heat", "2d", "ipu2", 4, 24500, SINGLE, "heat 2d 4"),
    Row("heat", "2d", "ipu2", 16, 91136, SINGLE, "heat 2d 16"),
    Row("heat", "3d", "ipu2", 1, 360, SINGLE, "heat 3d"),
    Row("nbody", "leapfrog", "bow", 1, 4096, SINGLE),
    Row("nbody", "leapfrog", "bow", 4, 16384, SINGLE),
    Row("nbody", "leapfrog", "bow", 16, 65536, SINGLE),
]

# Why a rate is more than twice or less than half of the published one, where that was examined.
EXAMINED: dict[str, str] = {
    # 70.7 GFLOP a sequence of 384 tokens, by 85 million weights and the attention; the C600's peak is 282.6 TFLOP/s.
    "bert_base inference": "full sequences at the published rate are 78 % of the chip's peak; they were hardly full",
}


def _result_here(row: Row) -> dict[str, Any]:
    """Estimates one row in this process."""
    import jax

    import garden
    import jax_ipu

    program = garden.programs()[row.program]
    options = garden.Options(row.batch, row.ipus, precision=row.precision)
    jax_ipu.config.model_version = row.target
    found = garden.cost(program, row.task, options, row.target)
    result = {name: getattr(found, name) for name in ("fits", "reason", "seconds", "cycles", "utilisation")}
    if found.fits and found.unknown_loops:
        ipu = jax.devices("ipu")[0]
        garden.run(program, row.task, options, [ipu], STEPS)
        cycles = jax_ipu.counters(ipu).cycles // STEPS
        result |= {"cycles": cycles, "seconds": cycles / ipu.tile_clock_frequency, "ran": True, "utilisation": None}
    return result


def _result_apart(row: Row, limit: float) -> dict[str, Any]:
    """Estimates one row in a separate process."""
    command = [sys.executable, __file__, "--row", row.name]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {limit:.0f} s"}
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return {"failed": lines[-1][:300]}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def _short(text: str) -> str:
    """The beginning of a message, for a cell of a table."""
    return textwrap.shorten(text.splitlines()[0].removeprefix("jit_step: "), 120, placeholder=" ...").replace("|", "/")


def _cells(row: Row, found: dict[str, Any]) -> list[str]:
    import garden

    program = garden.programs()[row.program]
    head = [program.name, row.task, row.precision, row.target, str(row.ipus), f"{row.batch:,}"]
    if "failed" in found:
        return [*head, f"failed: {_short(found['failed'])}", "", "", ""]
    if not found["fits"]:
        return [*head, f"no: `{_short(found['reason'])}`", "", "", ""]
    cycles = f"{found['cycles']:,}" + (" in a run" if found.get("ran") else "") if found["cycles"] else ""
    used = f"{100 * found['utilisation']:.1f} %" if found["utilisation"] is not None else ""
    return [*head, "yes", cycles, used, f"{row.batch / found['seconds']:,.0f} {program.unit} a second"]


def _table(columns: tuple[str, ...], numbers: set[str], rows: list[list[str]]) -> str:
    lines = [list(columns), ["---:" if column in numbers else "---" for column in columns], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def estimates(stored: dict[str, dict[str, Any]]) -> str:
    """Returns the table of all rows as Markdown."""
    columns = ("model", "task", "precision", "chip", "IPUs", "batch", "fits", "cycles", "utilisation", "throughput")
    rows = [_cells(row, stored[row.name]) for row in ROWS if row.name in stored]
    return _table(columns, {"IPUs", "batch", "cycles", "utilisation", "throughput"}, rows)


def comparison(stored: dict[str, dict[str, Any]]) -> str:
    """Returns the table of published figures and ours, each for one IPU."""
    from published import FIGURES

    columns = (
        "model",
        "chip, IPUs, batch",
        "ours an IPU",
        "published",
        "published an IPU",
        "ratio",
        "what differs",
        "reason",
    )
    rows = []
    for row in ROWS:
        found = stored.get(row.name, {})
        if row.figure is None or not found.get("fits"):
            continue
        figure, cells = FIGURES[row.figure], _cells(row, found)
        ours, theirs = row.batch / found["seconds"] / row.ipus, figure.rate / figure.ipus
        ratio = ours / theirs
        near = 0.5 <= ratio <= 2
        of = f"[{figure.what}]({figure.source}): {figure.system}, batch {figure.batch}, {figure.precision}"
        rows.append(
            [
                f"{cells[0]}, {cells[1]}, {cells[2]}",
                f"{cells[3]}, {cells[4]}, {cells[5]}",
                f"{ours:,.0f}",
                of,
                f"{theirs:,.0f}",
                f"{ratio:.2f}",
                figure.differs,
                EXAMINED.get(row.figure, "" if near else "not examined"),
            ]
        )
    return _table(columns, {"ours an IPU", "published an IPU", "ratio"}, rows)


def _write(stored: dict[str, dict[str, Any]]) -> None:
    STORE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    for name, table in (("estimates", estimates(stored)), ("comparison", comparison(stored))):
        write_part(DOCUMENT, BEGIN.format(name), END.format(name), table)


def main() -> int:
    """Returns exit code 1 if a row failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="glob over row names; may be repeated")
    parser.add_argument("--missing", action="store_true", help="only rows without a result, or that have failed")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a row is given up")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    parser.add_argument("--no-write", action="store_true", help="do not change the document")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(_result_here(next(row for row in ROWS if row.name == options.row))), flush=True)
        return 0
    import garden

    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    good = True
    for row in ROWS:
        known = stored.get(row.name, {"failed": ""})
        if options.only and not any(fnmatch.fnmatch(row.name, pattern) for pattern in options.only):
            continue
        if options.missing and "failed" not in known:
            continue
        missing = garden.programs()[row.program].missing()
        if options.list or missing:
            print(row.name + (f": needs {', '.join(missing)}" if missing else ""))
            continue
        result = _result_apart(row, options.limit)
        stored[row.name] = {**row._asdict(), **result, "date": str(date.today())}
        del stored[row.name]["figure"]
        good = good and "failed" not in result
        print(f"{row.name}: {', '.join(_cells(row, stored[row.name])[6:])}", flush=True)
        if not options.no_write:
            _write(stored)
    if not options.list and not options.no_write:
        _write(stored)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
