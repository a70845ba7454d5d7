"""Compares PopLibs, compiled on the model, with this project's own library: values, and modelled cycles."""

from __future__ import annotations

import array
import pathlib
import sys

from documentation.parts import write_part

from .workspace import LIBRARIES, ROOT, SYSTEM_LIBRARIES, Workspace, compile_object, compiler, run

SOURCE = ROOT / "tools" / "poplibs" / "compare.cc"
DOCUMENT = ROOT / "docs" / "model_accuracy.md"
BEGIN, END = "<!-- poplibs: begin -->", "<!-- poplibs: end -->"
# Largest difference of a value, as a share of the largest value of the result.
TOLERANCES = {"f16": 5e-3, "f32": 2e-5}
HEADER = """
### PopLibs' graphs on the model against the model's plans

    python tools/poplibs_conformance.py --poplibs SOURCE --build BUILD --work FOLDER compare

runs each operation twice: by PopLibs, compiled from its public source on the model, which builds its own vertices and
copies, and by this project's own library, whose plans the rest of the page is about. Both run on all 1,472 tiles of an
ipu2, on the same values; the cycles are those between two cycle stamps around the operation. PopLibs' vertices cost
what PopLibs' own estimators say. The two are different programs for the same result, so a difference is one of plans,
of copies that one of them makes, or of costs. The last column is the largest difference of a value, as a share of the
largest value.

| operation | PopLibs' graph | own plan | own / PopLibs' | difference of values |
|---|---:|---:|---:|---|
"""


def build(space: Workspace, own: bool) -> pathlib.Path:
    """Builds the program against one of the two libraries. Exits with the compiler's message if it cannot be."""
    binary = space.work / "compare" / ("own" if own else "poplibs")
    if own:
        include = ROOT / "ipu_model" / "include"
        flags = ["-std=c++17", "-DOWN_LIBRARY", f"-I{include}"]
        archives = [
            str(space.build / "ipu_model" / f"lib{name}.a") for name in ("ipu_model", "ipu_kernels", "ipu_host")
        ]
        link = ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lrt"]
    else:
        flags = space.flags(SOURCE)
        link = [f"-L{space.work}", *(f"-l{n}" for n in reversed(LIBRARIES)), "-lpoplar"]
        link += [f"-l{n}" for n in SYSTEM_LIBRARIES]
    made = binary.with_suffix(".o")
    done = compile_object([*compiler(), "-O1", *flags, str(SOURCE)], made)
    if done.returncode == 0:
        done = run(["g++", str(made), *link, "-o", str(binary)])
    if done.returncode != 0:
        sys.exit(done.stderr)
    return binary


def results(space: Workspace, own: bool, only: list[str]) -> dict[str, str]:
    """Runs the program: cycles, or why there are none, by name of the operation."""
    binary = build(space, own)
    folder = binary.with_suffix(".values")
    folder.mkdir(exist_ok=True)
    done = run([str(binary), str(folder), *only], env=space.environment())
    if done.returncode != 0:
        sys.exit(f"{binary} ended with {done.returncode}: {done.stderr}")
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)


def difference(space: Workspace, name: str) -> float:
    """The largest difference of values, as a share of the largest value; infinite if the shapes differ."""
    values = []
    for folder in ("poplibs.values", "own.values"):
        read = array.array("f")
        read.frombytes((space.work / "compare" / folder / name).read_bytes())
        values.append(read)
    if len(values[0]) != len(values[1]):
        return float("inf")
    largest = max((abs(v) for v in values[0]), default=0.0)
    worst = max((abs(a - b) for a, b in zip(*values, strict=True)), default=0.0)
    return worst / largest if largest > 0 else worst


def compare(space: Workspace, only: list[str]) -> None:
    """Writes the table of docs/model_accuracy.md, of all operations or of those with the given names.

    Exits with an error if values differ by more than rounding.
    """
    theirs, ours = results(space, False, only), results(space, True, only)
    lines, wrong = [], []
    for name, cycles in theirs.items():
        if not (cycles.isdigit() and ours[name].isdigit()):
            lines.append(f"| {name} | {cycles[:120]} | {ours[name][:120]} | | not compared |")
            wrong.append(name)
            continue
        share = difference(space, name)
        if not share <= TOLERANCES["f16" if " f16" in name else "f32"]:
            wrong.append(name)
        ratio = int(ours[name]) / int(cycles)
        lines.append(f"| {name} | {cycles} | {ours[name]} | {ratio:.2f} | {share:.1e} |")
    table = HEADER.lstrip("\n") + "\n".join(lines) + "\n"
    print(table)
    write_part(DOCUMENT, BEGIN, END, table)
    if wrong:
        sys.exit("not equal: " + ", ".join(wrong))
