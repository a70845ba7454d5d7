"""Pictures of reports.

python tools/report_screenshots.py            # docs/images/report_*.png, of the program report/test/train.py
python tools/report_screenshots.py --rows out # what reports can say, a picture for each thing: out/*_after.png
python tools/report_screenshots.py --rows out --before FOLDER # out/*_before.png, too, by the version installed there

Needs Chromium, and "npm ci" in report/. `pip install --no-deps --target FOLDER .` in a checkout of another version
installs that into a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = ROOT / "report" / "test"

# The button that shows a view's table by layer.
BY_LAYER = '#panel [aria-label="Rows"] [data-value="layer"]'
# What is shown: name, page, view, and the rest that report/test/pictures.mjs takes.
ROWS: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    ("not_tried", "mlp", "#view=insights", {}),
    ("advice_by_row", "advice", "#view=insights", {"height": 1000}),
    ("links", "links", "#view=execution", {"height": 900}),
    ("links_summary", "links", "#view=summary", {}),
    ("not_planned", "large", "#view=summary", {"height": 1000}),
    ("always_live", "cnn", "#view=insights", {"height": 1400}),
    ("layers", "mlp", "#view=program", {"click": '#panel .choice [data-value="layers"]'}),
    ("layers_operations", "mlp", "#view=operations", {"height": 900}),
    ("layers_execution", "mlp", "#view=execution", {"click": BY_LAYER, "height": 1500}),
    ("layers_exchange", "mlp", "#view=exchange", {"click": BY_LAYER, "height": 1900}),
    ("layers_liveness", "mlp", "#view=liveness&step=5", {"click": BY_LAYER, "height": 1900}),
    ("layers_source", "mlp", "#view=source", {"height": 1500}),
    ("layers_memory", "mlp", "#view=memory&tile=5", {"click": '#panel .choice [data-value="layer"]', "height": 1700}),
    ("gaps", "cnn", "#view=memory&tile=988", {"height": 1200}),
    ("does_not_fit", "buffers", "#view=summary", {"height": 1000}),
    ("loops", "loops", "#view=execution", {"height": 900}),
    ("fullest_tiles", "mlp", "#view=insights", {"height": 1400}),
    ("narrow_operations", "cnn", "#view=operations", {"width": 400, "height": 900}),
    ("narrow_summary", "buffers", "#view=summary", {"width": 400, "height": 900}),
    ("comparison", "compare", "#view=compare", {"height": 1000}),
    ("roofline_dark", "cnn", "#view=operations", {"height": 1300, "scheme": "dark"}),
    ("call_stack", "mlp", "#view=operations&operation=0", {"height": 1300}),
    ("host_timeline", "run", "#view=run", {"height": 1100}),
    ("host_timeline_dark", "run", "#view=run", {"height": 1100, "scheme": "dark", "click": "[title*='(N)']"}),
    ("schedule", "pipeline", "#view=schedule", {}),
    ("schedule_loop", "stages", "#view=schedule", {}),
    ("schedule_dark", "pipeline", "#view=schedule", {"scheme": "dark"}),
    ("schedule_narrow", "stages", "#view=schedule", {"width": 400, "scheme": "dark"}),
    ("index", "reports/index", "", {"height": 300}),
)


def for_documents() -> None:
    """Writes the pictures in docs/images."""
    import jax_ipu

    sys.path.insert(0, str(TEST))
    import train

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = train.arguments("float32")
        # With advice: the insights are in the tutorial.
        report = jax_ipu.report(train.train_step, *arguments, target="bow", donate_argnums=0, advice=True)
        report.save(folder / "train.html")
        environment = {**os.environ, "JAX_PLATFORMS": "ipu,cpu"}
        for script in ("run.py", "stages.py"):
            subprocess.run([sys.executable, str(TEST / script), name], env=environment, check=True)
        operation = max(report.as_dict()["operations"], key=lambda one: one["cycles"])["id"]
        views = (
            ("insights", "train", "#view=insights", 560),
            ("memory", "train", "#view=memory&tile=359", 760),
            ("operations", "train", f"#view=operations&operation={operation}", 640),
            ("execution", "train", f"#view=execution&operation={operation}&tile=359", 760),
            ("run", "run", "#view=run", 620),
            ("schedule", "pipeline", "#view=schedule", 560),
        )
        pictures = [
            {
                "page": str(folder / f"{page}.html"),
                "file": str(ROOT / "docs" / "images" / f"report_{name}.png"),
                "hash": view,
                "width": 1180,
                "height": height,
                "limit": 160_000,
            }
            for name, page, view, height in views
        ]
        _pictures(folder, pictures)


def rows(target: Path, before: Path | None) -> None:
    """Writes a picture for each of `ROWS`: by this version, and by the one that is built in `before`."""
    target.mkdir(parents=True, exist_ok=True)
    # The installed package, and the other one in front of it.
    versions: list[tuple[str, dict[str, str]]] = [("after", {})]
    if before is not None:
        versions.append(("before", {"PYTHONPATH": str(before.resolve())}))
    with tempfile.TemporaryDirectory() as folder:
        pictures = []
        for version, where in versions:
            pages = Path(folder) / version
            pages.mkdir()
            environment = {**os.environ, **where, "JAX_PLATFORMS": "ipu,cpu"}
            # An earlier version knows nothing of runs and schedules, and has no index.
            for script in ("rows.py", "run.py", "stages.py"):
                command = [sys.executable, str(TEST / script), str(pages)]
                if script == "rows.py" or version == "after":
                    subprocess.run(command, env=environment, check=True)
            for name, page, view, more in ROWS:
                path = pages / f"{page}.html"
                if path.exists():
                    file = str((target / f"{name}_{version}.png").resolve())
                    pictures.append({"page": str(path), "file": file, "hash": view, **more})
        _pictures(Path(folder), pictures)


def _pictures(folder: Path, pictures: list[dict[str, object]]) -> None:
    """Takes the pictures, which report/test/pictures.mjs describes."""
    spec = folder / "pictures.json"
    spec.write_text(json.dumps(pictures))
    subprocess.run(["node", "test/pictures.mjs", str(spec)], cwd=ROOT / "report", check=True)


def main() -> None:
    """Writes the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, metavar="FOLDER", help="a picture for each thing that reports can say")
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="with --rows: an installed version to compare with"
    )
    options = parser.parse_args()
    if options.rows is None:
        for_documents()
    else:
        rows(options.rows, options.before)


if __name__ == "__main__":
    main()
