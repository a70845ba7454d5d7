"""Which tests are long (support/long_tests.py)."""

import ast

import pytest

from support import long_tests

NAMES = [(file, line.strip()) for file, text in long_tests.LONG.items() for line in text.strip().splitlines()]


def functions(file):
    tree = ast.parse((long_tests.TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", long_tests.LONG)
def test_every_line_names_a_test(file):
    known = functions(file)
    named = {line.removeprefix("+ ").partition("[")[0].rstrip("*") for f, line in NAMES if f == file}
    assert named <= known, f"support/long_tests.py names {sorted(named - known)}, which {file} does not have"


def test_what_runs_nevertheless_is_a_case_of_what_is_long():
    for file, line in NAMES:
        function = line.removeprefix("+ ").partition("[")[0]
        lines = [other for f, other in NAMES if f == file]
        assert not line.startswith("+ ") or any(not o.startswith("+ ") and o.startswith(function) for o in lines), line


def test_patterns(monkeypatch):
    text = """
        test_all
        test_most
        + test_most[short]
        test_some[long-*]
    """
    monkeypatch.setitem(long_tests.LONG, "a/test_a.py", text)
    names = ("test_all", "test_all[x]", "test_all_others", "test_most[short]", "test_most[1]", "test_some[long-1]")
    assert [name for name in names if long_tests.is_long("a/test_a.py", name)] == [
        "test_all",
        "test_all[x]",
        "test_most[1]",
        "test_some[long-1]",
    ]
    assert not long_tests.is_long("b/test_a.py", "test_all")
