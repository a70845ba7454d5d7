"""Pictures of the report for the documents: docs/images/report_*.png, of the program report/test/train.py.

python tools/report_screenshots.py            # needs Chromium, and "npm ci" in report/
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import jax_ipu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "report" / "test"))

import train  # noqa: E402


def main() -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for dtype in ("float32", "float16"):
            arguments = train.arguments(dtype)
            advice = not paths  # of the first only: alternatives take time
            report = jax_ipu.report(train.train_step, *arguments, target="bow", donate_argnums=0, advice=advice)
            paths.append(str(report.save(Path(folder) / f"{dtype}.json")))
        command = ["node", "test/screenshots.mjs", str(ROOT / "docs" / "images"), *paths]
        subprocess.run(command, cwd=ROOT / "report", check=True)


if __name__ == "__main__":
    main()
