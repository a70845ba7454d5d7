"""The pages and the API reference of the documentation site: what they show is what happens."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import jax
import pytest

import jax_ipu
from jax_ipu.compiler.estimates import OPERATION_FIELDS
from support import documents

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# The blocks of estimates.md, graphcore_manager.md and multi_ipu.md run in tests of their subjects.
PAGES = (
    "../README.md",
    "index.md",
    "tutorial.md",
    "fit_a_model.md",
    "find_what_is_slow.md",
    "tiles.md",
    "performance.md",
    "program_the_tiles.md",
)
REFERENCE = sorted(
    path
    for page in (DOCS / "reference").glob("*.md")
    for path in re.findall(r"^::: (jax_ipu[\w.]*)", page.read_text(), re.M)
)


@pytest.mark.parametrize("name", PAGES)
def test_page(name, tmp_path):
    blocks = documents.blocks((DOCS / name).read_text())
    assert blocks
    command = f"python tests/support/documents.py docs/{name}"
    for block, printed in zip(blocks, documents.printed_by(DOCS / name, tmp_path), strict=True):
        problem = documents.difference(block.printed or "", printed)
        assert problem is None, f"{block.code}\n{problem}\n`{command}` writes it anew"


def test_the_tutorial_installs_what_it_needs():
    """Its readers have nothing but what its first commands install."""
    text = (DOCS / "tutorial.md").read_text()
    (command,) = re.findall(r"^\.venv/bin/pip install jax_ipu-\*\.whl ([^#\n]*)", text, re.M)
    code = "".join(block.code for block in documents.blocks(text))
    imported = set(re.findall(r"^(?:import|from) (\w+)", code, re.M))
    # JAX imports it when it writes or reads an export.
    needed = {"flatbuffers"} if "jax.export" in code else set()
    packages = {name.replace("sklearn", "scikit-learn") for name in imported | needed} - {"jax", "jax_ipu", "numpy"}
    assert set(command.split()) == packages


def test_the_first_paragraph_has_the_figures_of_the_pages():
    readme = (DOCS.parent / "README.md").read_text().split("```")[0]
    suite = re.findall(r"(?m)^\| \S+ \| (\d+) \| (\d+) \| \d+ ", (DOCS / "jax_conformance.md").read_text())
    on_cpu, on_ipu = (sum(int(row[column]) for row in suite) for column in (0, 1))
    assert f"{on_ipu:,} of the {on_cpu:,} tests of JAX's own suite" in readme
    text = (DOCS / "stablehlo_conformance.md").read_text()
    programs, passed = map(int, re.search(r"(?m)^\| all \| (\d+) \| (\d+) ", text).groups())
    assert f"{passed:,} of StableHLO's {programs:,} programs" in readme
    error = re.search(r"\| half \| W X \| (\S+ %) ", (DOCS / "model_accuracy.md").read_text())[1]
    assert f"a median error of {error} against" in readme


def test_outputs_are_compared():
    """By their text, and by their numbers within a quarter."""
    assert documents.difference("cycles  1,000 (5.5 %)\n", "cycles 1,100   (5 %)") is None
    assert documents.difference("a ... 3", "a\nb\n3") is None
    assert "1,000 is written" in documents.difference("cycles 1,000", "cycles 2,000")
    assert "differs" in documents.difference("cycles 1,000", "steps 1,000")
    assert "differs" in documents.difference("1 2", "1 2 3")
    page = "<!-- not run: no file -->\n```python\na\n```\n\n```python\nb\n```\n\n```text\nc\n```\n"
    assert [block[:2] for block in documents.blocks(page)] == [("b\n", "c\n")]


def test_programs_in_cpp_are_those_that_are_tested():
    """The page shows parts of tests/cpp_package, which test_cpp.py builds against the installed model."""
    sources = [(ROOT / "tests" / "cpp_package" / name).read_text() for name in ("matmul.cc", "CMakeLists.txt")]
    shown = re.findall(r"^```(?:cpp|cmake)\n(.*?)^```", (DOCS / "poplar_cpp.md").read_text(), re.S | re.M)
    assert len(shown) >= 5
    for block in shown:
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        assert any(_contains(source, lines) for source in sources), block


def _contains(source, lines):
    have = [line.strip() for line in source.splitlines() if line.strip()]
    return any(have[i : i + len(lines)] == lines for i in range(len(have)))


def _object(path):
    """What a dotted path names."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            found = getattr(found, name)
        return found
    raise AssertionError(path)


def _examples(path):
    found = _object(path)
    module = importlib.import_module(found.__module__)
    return doctest.DocTestFinder(exclude_empty=False).find(found, path, module=module, globs={})


@pytest.fixture
def whole_tracebacks():
    """JAX's note on the frames that it leaves out would be a part of every message."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


@pytest.mark.parametrize("path", REFERENCE)
@pytest.mark.usefixtures("whole_tracebacks")
def test_examples_of_docstrings(path, capsys):
    """Every public function, class and method of the reference has an example, and they all run."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=options)
    for test in _examples(path):
        name = test.name.rsplit(".", 1)[-1]
        if name.startswith("_"):
            continue
        if _is_documented_code(test.name):
            assert test.examples, f"{test.name} has no example"
        runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out


def _is_documented_code(path):
    """Whether a name stands for code rather than for a field, whose text is in the docstring of its class."""
    owner, _, name = path.rpartition(".")
    found = inspect.getattr_static(_object(owner), name)
    return callable(found) or isinstance(found, (property, staticmethod, classmethod))


def test_reference_has_every_public_name():
    objects = [_object(path) for path in REFERENCE]
    for module in (jax_ipu, jax_ipu.debug, importlib.import_module("jax_ipu.estimates")):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or name in ("__version__", "config", "OperationCost"):
                continue  # these have a page
            where = f"{value.__module__}.{value.__qualname__}"
            assert value in objects, f"add '::: {where}' to a page of docs/reference/, and an example to its docstring"


def test_reference_of_operations_has_every_field():
    described = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "debug.md").read_text(), re.M)
    assert sorted(described) == sorted(OPERATION_FIELDS)
