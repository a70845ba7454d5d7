"""Runs the Python blocks of pages and notebooks, and compares what they print with what is written there.

A block ```` ```text ```` right below a Python block is what that block prints. Numbers may differ by a quarter, since
costs of the model change and values are rounded differently on other processors; everything else must be equal, but for
"..." in the page. `<!-- not run: reason -->` above a block leaves it out.

    python tests/support/documents.py docs/tutorial.md notebooks/*.ipynb    # writes down what is printed now
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.processes import output

ROOT = Path(__file__).parents[2]
TOLERANCE = 0.25
BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^\n]+ -->\n+)?^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.S | re.M,
)
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
MARK = "-- end of block --"


class Block(NamedTuple):
    code: str
    printed: str | None
    start: int  # where its output is, or is to be, in the page
    end: int


def blocks(page: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(page):
        if match["skip"] is None:
            start = match.end("code") + len("```\n")
            found.append(Block(match["code"], match["printed"], start, match.end()))
    return found


def printed_by(page: Path, directory: Path) -> list[str]:
    """What each block of a page prints; all run in one process, as one file with the name of the page."""
    parts = [block.code for block in blocks(page.read_text())]
    name = f"{page.stem}.py"
    (directory / name).write_text("".join(parts))
    runner = f"""
        import json
        from pathlib import Path
        from types import SimpleNamespace
        from jax_ipu.compiler import trials
        trials.time = SimpleNamespace(perf_counter=lambda: 1e12)  # slow machines try as much as fast ones
        line, scope = 0, {{"__name__": "__main__"}}
        for code in json.loads(Path("blocks.json").read_text()):
            exec(compile("\\n" * line + code, {name!r}, "exec"), scope)
            line += code.count("\\n")
            print({MARK!r})
    """
    (directory / "blocks.json").write_text(json.dumps(parts))
    return output(runner, directory).split(MARK + "\n")[:-1]


def difference(expected: str, actual: str) -> str | None:
    """None, or how what was printed differs from what is written."""
    pieces = re.split(rf"({NUMBER}|\.\.\.|\s+)", expected.strip())
    pattern = ""
    for piece in pieces:
        if re.fullmatch(NUMBER, piece):
            pattern += f"({NUMBER})"
        elif piece == "...":
            pattern += ".*?"
        else:
            pattern += r"\s+" if piece.isspace() else re.escape(piece)
    match = re.fullmatch(pattern, actual.strip(), re.S)
    if match is None:
        return f"the text differs. Written:\n{expected}\nprinted:\n{actual}"
    numbers = [piece for piece in pieces if re.fullmatch(NUMBER, piece)]
    for written, now in zip(numbers, match.groups(), strict=True):
        a, b = (float(text.replace(",", "")) for text in (written, now))
        if abs(a - b) > TOLERANCE * max(abs(a), abs(b)):
            return f"{written} is written, {now} is printed:\n{actual}"
    return None


def run_notebook(path: Path):
    """The notebook with the outputs that it has now."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    # In a folder of its own: the checkout's jax_ipu may have no library.
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}, kernel_name="python3")
        client.execute(env=variables)
    return notebook


def shown_by(cell) -> str:
    """What a cell of a notebook shows, as text."""
    shown = ""
    for one in cell.get("outputs", []):
        shown += one["text"] if one["output_type"] == "stream" else one.get("data", {}).get("text/plain", "")
    return shown


def _with_joined_streams(outputs):
    """The outputs of a cell with one stream for what it printed in several pieces."""
    joined = []
    for one in outputs:
        if joined and one.output_type == "stream" == joined[-1].output_type and one.name == joined[-1].name:
            joined[-1].text += one.text
        else:
            joined.append(one)
    return joined


def _update_page(page: Path, directory: Path) -> None:
    text = page.read_text()
    for block, now in reversed(list(zip(blocks(text), printed_by(page, directory), strict=True))):
        # All of them, so that the numbers of a page are of one model.
        if now:
            text = f"{text[: block.start]}\n```text\n{now}```\n{text[block.end :]}"
    page.write_text(text)


def _update_notebook(path: Path) -> None:
    import nbformat

    notebook = run_notebook(path)
    for number, cell in enumerate(notebook.cells):
        cell.pop("id", None)
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "code":
            cell.metadata = {}
            cell.execution_count = None
            cell.outputs = _with_joined_streams(cell.outputs)
            for one in cell.outputs:
                one.pop("execution_count", None)
                if one.output_type == "execute_result":
                    one.output_type = "display_data"
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    import tempfile

    for argument in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            _update_notebook(argument) if argument.suffix == ".ipynb" else _update_page(argument, Path(folder))
