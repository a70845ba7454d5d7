"""Compares this project's planner with PopLibs' own, on the same engine, shape by shape.

    tools/compare_poplibs FOLDER [--only WORD] [--all] [--sample N] [--target ipu2:1472]

FOLDER is one of tools/build_poplibs. Each shape is a JAX function of one operation, compiled twice: as always, and with
its operations from PopLibs. Cycles are those of a call, whose arguments are on the tiles already where the operation
wants them; streams take none. The table of the 38 usual shapes is written into docs/model_accuracy.md; those of --only,
--all (some 300 shapes, of which PopLibs plans each for up to ten seconds) and --sample (N of these) are only printed.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

from .cases import Case, all_cases, few_cases
from .workspace import ROOT

DOCUMENT = ROOT / "docs" / "model_accuracy.md"
BEGIN, END = "<!-- poplibs shapes: begin -->", "<!-- poplibs shapes: end -->"
HEADER = """### The same programs with PopLibs' planner and vertices

    tools/compare_poplibs FOLDER

compiles each JAX function twice for {target}: with this project's planner, and with [PopLibs](poplibs.md). The
engine, its exchange and its memory are the same, so a difference is one of plans, vertices and copies. "Phases":
cycles of compute / exchange / sync. "Tiles": those that compute in the operation that takes most cycles. "Bytes": on
the fullest tile.

| shape | own cycles | phases | tiles | bytes | PopLibs cycles | phases | tiles | bytes | own / PopLibs |
|---|---:|---|---:|---:|---:|---|---:|---:|---:|
"""


class Numbers(NamedTuple):
    """Of one compilation."""

    cycles: int
    phases: str
    tiles: int
    bytes: int

    def cells(self) -> str:
        return f"{self.cycles:,} | {self.phases} | {self.tiles:,} | {self.bytes:,}"


def measure(case: Case, target: str, options: dict[str, str]) -> tuple[Numbers, list[str]]:
    """The figures of a compilation, and why operations are not PopLibs'."""
    import jax_ipu

    data = jax_ipu.report(case.function, *case.arguments, target=target, compiler_options=options).as_dict()
    if not data["program"]["fits"]:
        raise RuntimeError(str(data["program"]["reason"]).splitlines()[0])
    estimate = data["estimate"]
    phases = " / ".join(f"{estimate[f'{part}_cycles']:,}" for part in ("compute", "exchange", "sync"))
    most = max(data["operations"], key=lambda row: int(row["cycles"]), default={"tiles": 0})
    numbers = Numbers(estimate["cycles"], phases, most["tiles"], estimate["fullest_tile_bytes"])
    others = [row["reason"] for row in data["libraries"] or () if row["library"] != "PopLibs"]
    return numbers, others


def line_of(case: Case, target: str, folder: str) -> str:
    """The line of the table; an operation that is not PopLibs' has the reason in place of figures."""
    own, _ = measure(case, target, {})
    try:
        theirs, others = measure(case, target, {"ipu_poplibs": folder})
    except RuntimeError as error:
        others = [str(error).splitlines()[0]]
    if others:
        return f"| {case.name} | {own.cells()} | {'; '.join(others)} | | | | |"
    return f"| {case.name} | {own.cells()} | {theirs.cells()} | {own.cycles / theirs.cycles:.2f} |"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--only", default="", help="only shapes whose name has this word; nothing is written")
    parser.add_argument("--all", action="store_true", help="some 300 shapes; nothing is written")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N shapes of --all; nothing is written")
    parser.add_argument("--target", default="ipu2:1472")
    arguments = parser.parse_args()
    if arguments.sample < 0:
        parser.error(f"--sample {arguments.sample}: not a number of shapes")
    cases = list(all_cases() if arguments.all or arguments.sample else few_cases())
    if 0 < arguments.sample < len(cases):
        cases = [cases[i * len(cases) // arguments.sample] for i in range(arguments.sample)]
    lines = []
    for case in cases:
        if arguments.only in case.name:
            lines.append(line_of(case, arguments.target, arguments.folder))
            print(lines[-1], flush=True)
    if arguments.only or arguments.all or arguments.sample:
        return
    text = DOCUMENT.read_text()
    if BEGIN not in text:
        sys.exit(f"{DOCUMENT} has no line {BEGIN}")
    before, rest = text.split(BEGIN)
    table = HEADER.format(target=arguments.target) + "\n".join(lines)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}")
