"""The notebooks run, and show what is stored in them."""

from pathlib import Path

import pytest

from support import documents

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path):
    pytest.importorskip("nbclient")
    import nbformat

    stored = nbformat.read(path, as_version=4)
    assert path.stat().st_size < 100_000
    for before, now in zip(stored.cells, documents.run_notebook(path).cells, strict=True):
        problem = documents.difference(documents.shown_by(before), documents.shown_by(now))
        command = f"python tests/support/documents.py notebooks/{path.name}"
        assert problem is None, f"{now.source}\n{problem}\n`{command}` stores it anew"


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 3
