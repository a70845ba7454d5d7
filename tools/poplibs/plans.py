"""Compares this project's plans of convolutions with what PopLibs' planner expects of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from .workspace import (
    LIBRARIES,
    ROOT,
    SYSTEM_LIBRARIES,
    Workspace,
    compile_object,
    compiler,
    largest,
    run,
    write_part,
)

SOURCE = ROOT / "tools" / "poplibs" / "plans.cc"
DOCUMENT = ROOT / "docs" / "model_accuracy.md"
BEGIN, END = "<!-- poplibs plans: begin -->", "<!-- poplibs plans: end -->"
TYPES = {"f32": "float32", "f16": "float16"}
# Type, batch, height, width, input channels, kernel, output channels, stride: those of the comparison of programs, of
# ResNet-50 and of small networks.
CONVOLUTIONS = """f32 1 16 16 32 3 3 64 1
f16 1 16 16 32 3 3 64 1
f32 1 14 14 64 1 1 64 1
f16 1 14 14 64 1 1 64 1
f32 1 28 28 1 5 5 8 1
f16 1 28 28 1 5 5 8 1
f32 1 16 16 32 3 3 32 2
f16 1 16 16 32 3 3 32 2
f16 4 56 56 64 3 3 64 1
f16 4 56 56 64 1 1 256 1
f16 4 28 28 128 3 3 128 1
f16 4 14 14 256 3 3 256 1
f16 4 14 14 1024 1 1 256 1
f16 4 7 7 512 3 3 512 1
f32 32 32 32 3 3 3 32 1
f32 32 16 16 32 3 3 64 1
f32 8 32 32 16 3 3 16 1
f16 4 224 224 3 7 7 64 2
f32 32 14 14 32 3 3 64 1
f32 16 56 56 64 1 1 64 1"""
HEADER = """### Plans of convolutions against PopLibs' planner

    python tools/poplibs_conformance.py --poplibs SOURCE --build BUILD --work FOLDER plans

asks PopLibs' planner (`reportPlanEstimatedCosts`) what its own plan of a convolution costs, with float partial sums on
1,472 tiles of an ipu2. PopLibs counts no sync, so the model's cycles are without it here. "Bytes" are those of
temporaries and exchange buffers on the tile that has most of them, beside the temporary bytes of PopLibs' plan.

| convolution | PopLibs' plan | own | own / PopLibs | bytes, PopLibs | bytes, own |
|---|---:|---:|---:|---:|---:|
"""


def expected(space: Workspace) -> list[list[str]]:
    """Of each convolution: its line, and PopLibs' cycles and bytes. Exits with the compiler's message."""
    binary = space.work / "compare" / "plans"
    made = binary.with_suffix(".o")
    done = compile_object([*compiler(), "-O1", *space.flags(SOURCE), str(SOURCE)], made)
    if done.returncode == 0:
        libraries = [f"-l{name}" for name in (*reversed(LIBRARIES), "poplar", *SYSTEM_LIBRARIES)]
        done = run(["g++", str(made), f"-L{space.work}", *libraries, "-o", str(binary)])
    if done.returncode != 0:
        sys.exit(done.stderr)
    command: list[str] = [str(binary)]
    output = subprocess.run(
        command, input=CONVOLUTIONS + "\n", capture_output=True, text=True, env=space.environment(), check=True
    )
    return [line.split("\t") for line in output.stdout.splitlines()]


def own(line: str) -> tuple[int, int]:
    """The cycles without sync of this project's plan, and the bytes on the tile with most."""
    import jax
    from jax import lax

    import jax_ipu

    name, *numbers = line.split()
    batch, height, width, channels, rows, columns, out, stride = map(int, numbers)
    dims = ("NHWC", "HWIO", "NHWC")
    structure: Any = jax.ShapeDtypeStruct
    data = jax_ipu.report(
        lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=dims),
        structure((batch, height, width, channels), TYPES[name]),
        structure((rows, columns, channels, out), TYPES[name]),
        target="ipu2:1472",
    ).as_dict()
    parts = data["memory"]["categories"]
    bytes_used = sum(largest(parts[part]) for part in ("temporaries", "exchange_buffers"))
    return data["estimate"]["compute_cycles"] + data["estimate"]["exchange_cycles"], bytes_used


def table(rows: list[list[str]]) -> str:
    """The lines of the table, and the medians."""
    lines: list[str] = []
    cycles: list[float] = []
    memory: list[float] = []
    for line, theirs, held in rows:
        ours, used = own(line)
        name, batch, height, width, channels, high, wide, out, stride = line.split()
        title = f"{batch}x{height}x{width}x{channels}, {high}x{wide} to {out}, stride {stride} {name}"
        ratio = ours / int(theirs)
        cycles.append(abs(ratio - 1))
        memory.append(abs(used / int(held) - 1))
        lines.append(f"| {title} | {int(theirs):,} | {ours:,} | {ratio:.2f} | {int(held):,} | {used:,} |")
    return (
        HEADER
        + "\n".join(lines)
        + (
            f"\n\nMedian error of the cycles {100 * statistics.median(cycles):.0f} %, "
            f"largest {100 * max(cycles):.0f} %; "
            f"of the bytes {100 * statistics.median(memory):.0f} %, largest {100 * max(memory):.0f} %.\n"
        )
    )


def compare(space: Workspace) -> None:
    """Writes the table of docs/model_accuracy.md."""
    found = table(expected(space))
    print(found)
    write_part(DOCUMENT, BEGIN, END, found)
