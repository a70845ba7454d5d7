"""Compares this project's planner with PopLibs' own, on the same engine, shape by shape.

    tools/compare_poplibs FOLDER [--only WORD] [--all] [--sample N] [--target ipu2:1472]

FOLDER is one of tools/build_poplibs. Each shape is a JAX function of one operation, compiled twice: as always, and with
its operations from PopLibs. Cycles are those of a call, whose arguments are on the tiles already where the operation
wants them; streams take none. The tables of the usual shapes are written into docs/model_accuracy.md; those of --only,
--all (hundreds of shapes; PopLibs plans each for up to ten seconds) and --sample (N of these) are only printed.
"""

from __future__ import annotations

import argparse
import statistics
from typing import NamedTuple

from documentation.parts import write_part

from .cases import Case, all_cases, cases
from .workspace import ROOT, largest

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


KINDS = """Those and more shapes (`tools/poplibs/cases.py`) by kind, and what follows from plans in a tile's memory.
The error is |own - PopLibs| / PopLibs:
"""
# Parts of a tile's memory that follow from plans, as a report names them.
PARTS = ("temporaries", "exchange_buffers", "vertex_state")


class Numbers(NamedTuple):
    """Of one compilation. `parts`: bytes of each part of the memory, on the tile that has most of it."""

    cycles: int
    phases: str
    tiles: int
    bytes: int
    parts: dict[str, int]

    def cells(self) -> str:
        return f"{self.cycles:,} | {self.phases} | {self.tiles:,} | {self.bytes:,}"


class Pair(NamedTuple):
    """Of one case: this project's figures, and those with PopLibs, or why there are none."""

    case: Case
    own: Numbers
    theirs: Numbers | None
    reason: str

    def line(self) -> str:
        """Of the table; an operation that is not PopLibs' has the reason in place of figures."""
        if self.theirs is None:
            return f"| {self.case.name} | {self.own.cells()} | {self.reason} | | | | |"
        ratio = self.own.cycles / self.theirs.cycles
        return f"| {self.case.name} | {self.own.cells()} | {self.theirs.cells()} | {ratio:.2f} |"


def measure(case: Case, target: str, options: dict[str, str]) -> tuple[Numbers, list[str]]:
    """The figures of a compilation, and why operations are not PopLibs'."""
    import jax

    import jax_ipu

    function = jax.jit(case.function, donate_argnums=0) if case.donated else case.function
    data = jax_ipu.report(function, *case.arguments, target=target, compiler_options=options).as_dict()
    if not data["program"]["fits"]:
        raise RuntimeError(str(data["program"]["reason"]).splitlines()[0])
    estimate = data["estimate"]
    phases = " / ".join(f"{estimate[f'{part}_cycles']:,}" for part in ("compute", "exchange", "sync"))
    most = max(data["operations"], key=lambda row: int(row["cycles"]), default={"tiles": 0})
    parts = {part: largest(data["memory"]["categories"][part]) for part in PARTS}
    numbers = Numbers(estimate["cycles"], phases, most["tiles"], estimate["fullest_tile_bytes"], parts)
    others = [row["reason"] for row in data["libraries"] or () if row["library"] != "PopLibs"]
    return numbers, others


def pair_of(case: Case, target: str, folder: str) -> Pair:
    """Both compilations of a case."""
    own, _ = measure(case, target, {})
    try:
        theirs, others = measure(case, target, {"ipu_poplibs": folder})
    except RuntimeError as error:
        return Pair(case, own, None, str(error).splitlines()[0])
    return Pair(case, own, None if others else theirs, "; ".join(others))


def ratios(title: str, own: list[int], theirs: list[int]) -> str:
    """A line of the tables by kind and by part of the memory."""
    found = sorted(a / b for a, b in zip(own, theirs, strict=True) if b > 0)
    if not found:
        return f"| {title} | 0 | | | | |"
    error = statistics.median(abs(ratio - 1) for ratio in found)
    spread = f"{statistics.median(found):.2f} | {found[0]:.2f} | {found[-1]:.2f}"
    return f"| {title} | {len(found)} | {spread} | {100 * error:.0f} % |"


def by_kind(pairs: list[Pair]) -> str:
    """The cycles of all shapes by kind, and the parts of their memory."""
    columns = "shapes | own / PopLibs, median | least | most | median error |\n|---|---:|---:|---:|---:|---:|"
    both = [(pair.case.kind, pair.own, pair.theirs) for pair in pairs if pair.theirs is not None]
    lines = [f"| cycles of | {columns}"]
    for kind in dict.fromkeys(kind for kind, _, _ in both):
        own, theirs = zip(*((a.cycles, b.cycles) for of, a, b in both if of == kind), strict=True)
        lines.append(ratios(kind, list(own), list(theirs)))
    lines += ["", f"| bytes of | {columns}"]
    for part in PARTS:
        numbers = [(a.parts[part], b.parts[part]) for _, a, b in both]
        lines.append(ratios(part.replace("_", " "), [a for a, _ in numbers], [b for _, b in numbers]))
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--only", default="", help="only shapes whose name has this word; nothing is written")
    parser.add_argument("--all", action="store_true", help="hundreds of shapes; nothing is written")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N shapes of --all; nothing is written")
    parser.add_argument("--target", default="ipu2:1472")
    arguments = parser.parse_args()
    if arguments.sample < 0:
        parser.error(f"--sample {arguments.sample}: not a number of shapes")
    chosen = list(all_cases() if arguments.all or arguments.sample else cases())
    if 0 < arguments.sample < len(chosen):
        chosen = [chosen[i * len(chosen) // arguments.sample] for i in range(arguments.sample)]
    pairs = []
    for case in chosen:
        if arguments.only in case.name:
            pairs.append(pair_of(case, arguments.target, arguments.folder))
            print(pairs[-1].line(), flush=True)
    kinds = by_kind(pairs)
    print(f"\n{kinds}")
    if arguments.only or arguments.all or arguments.sample:
        return
    table = HEADER.format(target=arguments.target) + "\n".join(pair.line() for pair in pairs if pair.case.listed)
    write_part(DOCUMENT, BEGIN, END, f"{table}\n\n{KINDS}\n{kinds}\n")
