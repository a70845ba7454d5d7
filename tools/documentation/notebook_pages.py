"""Notebooks as pages of the site: their text, code and stored outputs as Markdown."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any


def as_markdown(path: Path) -> str:
    """The Markdown of a notebook, with a link to the file itself below its title."""
    cells = json.loads(path.read_text())["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += [text for output in cell["outputs"] if (text := _output(output))]
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n[Download this notebook]({path.name}){{ download .md-button }}\n{rest}\n"


def _output(output: dict[str, Any]) -> str:
    """One output of a cell: HTML where it has it, a picture, or else its text."""
    if output["output_type"] == "stream":
        return _block("".join(output["text"]))
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="notebook-output">\n{"".join(data["text/html"])}\n</div>'
    if "image/svg+xml" in data:
        text = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        alt = html.escape("".join(data.get("text/plain", ["output"])).strip("<>"))
        return f'<img alt="{alt}" src="data:image/svg+xml;base64,{text}">'
    if "image/png" in data:
        return f'<img alt="output" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    return _block("".join(data.get("text/plain", [])))


def _block(text: str) -> str:
    return f"```{{ .text .output }}\n{text.rstrip()}\n```" if text.strip() else ""
