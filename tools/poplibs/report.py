"""Writes docs/poplibs_conformance.md from the results of a workspace."""

from __future__ import annotations

import datetime
from collections import Counter

from . import build
from .workspace import CODELET_LIBRARIES, LIBRARIES, ROOT, Rows, Workspace

DOCUMENT = ROOT / "docs" / "poplibs_conformance.md"
HEADER = """# PopLibs on the model

Made by `tools/poplibs_conformance.py` (do not edit): Graphcore's PopLibs, from its public source, unchanged,
compiled against `ipu_model/include/poplar` and run on the model. What it needs from Graphcore's unpublished
helpers (GCCS with its constraint solver, libpvti, the helpers of Poplar's tests) has stand-ins of our own in
`tools/poplibs/stand_ins`. PopLibs' codelets in C++ are compiled with `jax-ipu popc`, each file by itself
together with the file whose functions it calls.
Two headers compile alone with no Poplar: `popnn/Recurrent.hpp` only declares
what `poplin/MatMul.hpp` defines, and `popfloat/experimental/CastToHalf.hpp` includes nothing.
"""
TESTS = """
## Tests

A test is what PopLibs' CMake files declare as one: a program of Boost's test framework, or a program with arguments.
Each runs once, on a model: of the devices that PopLibs lists for it, the first of IpuModel2, IpuModel21 and none. Tests
that are listed for a simulator, hardware or the CPU only are not for a model. All results are of one build of the model
and of PopLibs; the tests that are not run were outside of the choice, or of the time, that the run was given.
"""
# Of tests whose own code is the reason: how their names begin, and what they do.
TEST_REASONS = {
    "BertSlicing": "its values are those of Graphcore's model, which computes halves as floats",
    "BigNLVertices": "a program that does not fit is refused, Graphcore's own model runs it",
    "FillCodelets": "a bool is filled with 64, and read as a byte",
    "PlannedGroupedMultiUpdateTest_quarter": "the test compares metadata that it has not read from the device",
    "SplineBasisTest": "positions in half round to the next knot; Graphcore's model computes halves as floats",
    "StdArithmeticTests": "PopLibs' C++ codelet aXPlusbY takes halves where the scales are not accurate as halves, "
    "which Graphcore's model computes as floats; the program of StdCast does not fit, that model runs it",
}
PARTS = (
    ("headers", "public headers, each alone"),
    ("codelets", "C++ codelets, and a `.gp` file for each library"),
    ("objects", "host sources"),
    ("libraries", "libraries, linked from the sources that were compiled"),
)


def part_rows(space: Workspace) -> list[str]:
    """The table of what was compiled, and what is missing from it."""
    lines = ["| part | compiled | tried | not tried |", "|---|---|---|---|"]
    sources = [s for library in LIBRARIES for s in build.sources_of(space, library)]
    codelets = [s for library in CODELET_LIBRARIES for s in build.codelet_files(space, library)]
    expected = {
        "headers": len(build.public_headers(space)),
        "codelets": len(codelets) + len(CODELET_LIBRARIES),
        "objects": len(sources),
        "libraries": len(LIBRARIES),
    }
    failed = []
    for part, what in PARTS:
        rows = space.results.get(part, {})
        good = sum(bool(row["ok"]) for row in rows.values())
        lines.append(f"| {what} | {good} | {len(rows)} | {expected[part] - len(rows)} |")
        failed += [f"* `{name}`: {row['reason']}" for name, row in sorted(rows.items()) if not row["ok"]]
    if failed:
        lines += ["", "What does not compile:", "", *failed]
    return lines


def test_rows(space: Workspace, libraries: list[str]) -> list[str]:
    """The table of the libraries' tests, and the limits with which they were run."""
    lines = ["| library | listed | for a model | run | passed | failed | not run | passed of those run |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    limits = set()
    for library in libraries:
        every = space.results[f"tests {library}"].values()
        rows = [row for row in every if row["model"]]
        ran = [row for row in rows if row["run"]]
        limits |= {float(str(row["limit"])) for row in ran if "limit" in row}
        passed = sum(bool(row["ok"]) for row in ran)
        share = f"{100 * passed / len(ran):.1f} %" if ran else ""
        counts = (len(every), len(rows), len(ran), passed, len(ran) - passed, len(rows) - len(ran))
        lines.append(f"| {library} | {' | '.join(map(str, counts))} | {share} |")
    if limits:
        seconds = " or ".join(f"{limit:g}" for limit in sorted(limits))
        lines += ["", f"Each test had {seconds} s of processor time."]
    return lines


def write(space: Workspace) -> None:
    """Writes the document."""
    lines = [HEADER, f"PopLibs' revision: {space.revision()}. Date of this page: {datetime.date.today()}.", ""]
    lines += part_rows(space)
    libraries = [name.split()[1] for name in sorted(space.results) if name.startswith("tests ")]
    lines += [TESTS, *test_rows(space, libraries)]
    for library in libraries:
        lines += programs(library, space.results[f"tests {library}"], str(space.work))
    DOCUMENT.write_text("\n".join(lines) + "\n")


def is_not_built(row: dict[str, object]) -> bool:
    """Whether there is no program to run a test."""
    return str(row.get("reason", "")).startswith("not built: ")


def unexplained(space: Workspace) -> list[str]:
    """The tests that failed, with their messages, and for which TEST_REASONS has no cause."""
    return [
        f"{name}: {row['reason']}"
        for part, rows in space.results.items()
        if part.startswith("tests ")
        for name, row in rows.items()
        if row["model"] and row["run"] and not row["ok"] and not name.startswith(tuple(TEST_REASONS))
    ]


def reason_of(name: str, row: dict[str, object]) -> str:
    """Why a test failed."""
    return next((why for begin, why in TEST_REASONS.items() if name.startswith(begin)), str(row["reason"]))


def programs(library: str, rows: Rows, work: str) -> list[str]:
    """A table of a library's programs, and why tests of them fail."""
    mine = [row for row in rows.values() if row["model"]]
    if not any(row["run"] for row in mine):
        return []
    lines = ["", f"### {library}", "", "| program | built | tests | run | passed | cases passed | why others fail |"]
    lines.append("|---|---|---|---|---|---|---|")
    for program in sorted({str(row["program"]) for row in mine}):
        tests = {name: row for name, row in rows.items() if row["model"] and row["program"] == program}
        ran = [row for row in tests.values() if row["run"]]
        reasons = Counter(reason_of(name, row) for name, row in tests.items() if row["run"] and not row["ok"])
        why = "; ".join(f"{text} ({count})" if len(ran) > 1 else text for text, count in reasons.most_common(4))
        if len(reasons) > 4:
            why += f"; {len(reasons) - 4} other messages"
        passed = sum(bool(row["ok"]) for row in ran)
        good = sum(int(str(row["passed"])) for row in ran)
        cases = f"{good} of {good + sum(int(str(row['failed'])) for row in ran)}"
        why = why.replace("|", "\\|").replace(f"{work}/", "").replace("<", "&lt;")
        built = "no" if any(is_not_built(row) for row in ran) else "yes" if ran else ""
        lines.append(f"| `{program}` | {built} | {len(tests)} | {len(ran)} | {passed} | {cases} | {why} |")
    return lines
