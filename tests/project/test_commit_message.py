"""Commit messages are checked as CONTRIBUTING.md asks for them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import commit_message

WHY = "\n\nThe reason."


@pytest.mark.parametrize(
    "message, files",
    [
        ("kernels: share vector types", 1),
        ("docs, tests: say what a pipeline consists of" + WHY, 4),
        ("passes: pass sums on" + WHY, 2),
        ("report: document each view\n# On branch main\n", 1),
        ('Revert "kernels: share vector types"', 3),
        ("api: " + "share " + "x" * 61, 1),
    ],
)
def test_good_messages(message, files):
    assert commit_message.faults(message, files) == []


@pytest.mark.parametrize(
    "message, files, fault",
    [
        ("share vector types", 1, "no area"),
        ("kernels: shared vector types", 1, "'shared' is no imperative"),
        ("fuse: a view that was moved keeps its place", 1, "'a' is no imperative"),
        ("products: steps of whole groups", 1, "'steps' is no imperative"),
        ("tests: ResNet-50 fits", 1, "'ResNet-50' is no imperative"),
        ("kernels: share " + "x" * 58, 1, "73 characters"),
        ("kernels: share vector types", 2, "2 files change"),
        ("kernels: share vector types\n# comments are no reason\n", 2, "2 files change"),
        ("kernels: share vector types\nAt once.", 2, "second line"),
        ("", 1, "no area"),
    ],
)
def test_faults(message, files, fault):
    assert any(fault in found for found in commit_message.faults(message, files))


def test_the_hook_reads_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(commit_message, "_git", lambda *arguments: "one.py\ntwo.py\n")
    message = tmp_path / "message"
    message.write_text("kernels: share vector types\n")
    assert commit_message.main([str(message)]) == 1
    assert capsys.readouterr().err == "this commit: 2 files change, and no body says why\n"
    message.write_text("kernels: share vector types\n\nBoth files had them.\n")
    assert commit_message.main([str(message)]) == 0
