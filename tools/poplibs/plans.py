"""Compares this project's plans of convolutions and products with what PopLibs' planner expects of its own."""

from __future__ import annotations

import functools
import math
import statistics
import subprocess
import sys
from typing import Any

from documentation.parts import write_part

from .workspace import (
    LIBRARIES,
    ROOT,
    SYSTEM_LIBRARIES,
    Workspace,
    compile_object,
    compiler,
    largest,
    run,
)

SOURCE = ROOT / "tools" / "poplibs" / "plans.cc"
DOCUMENT = ROOT / "docs" / "model_accuracy.md"
BEGIN, END = "<!-- poplibs plans: begin -->", "<!-- poplibs plans: end -->"
TYPES = {"f32": "float32", "f16": "float16"}
# Type, batch, height, width, input channels, kernel, output channels, stride, and the share of a tile's memory for
# temporaries: those of the comparison of programs, of ResNet-50 and of small networks, then some for which the memory
# does not suffice.
CONVOLUTIONS = """f32 1 16 16 32 3 3 64 1 0.6
f16 1 16 16 32 3 3 64 1 0.6
f32 1 14 14 64 1 1 64 1 0.6
f16 1 14 14 64 1 1 64 1 0.6
f32 1 28 28 1 5 5 8 1 0.6
f16 1 28 28 1 5 5 8 1 0.6
f32 1 16 16 32 3 3 32 2 0.6
f16 1 16 16 32 3 3 32 2 0.6
f16 4 56 56 64 3 3 64 1 0.6
f16 4 56 56 64 1 1 256 1 0.6
f16 4 28 28 128 3 3 128 1 0.6
f16 4 14 14 256 3 3 256 1 0.6
f16 4 14 14 1024 1 1 256 1 0.6
f16 4 7 7 512 3 3 512 1 0.6
f32 32 32 32 3 3 3 32 1 0.6
f32 32 16 16 32 3 3 64 1 0.6
f32 8 32 32 16 3 3 16 1 0.6
f16 4 224 224 3 7 7 64 2 0.6
f32 32 14 14 32 3 3 64 1 0.6
f32 16 56 56 64 1 1 64 1 0.6
f32 1 2000 2000 4 3 3 4 1 0.6
f32 1 2000 2000 4 3 3 4 1 0.2
f32 1 3000 3000 4 3 3 4 1 0.25
f16 1 2000 2000 4 3 3 4 1 0.6
f16 1 3000 3000 4 3 3 4 1 0.2
f32 1 1000 1000 1 3 3 1 1 0.6
f16 16 56 56 64 3 3 64 1 0.1
f16 16 56 56 64 3 3 64 1 0.05
f16 16 56 56 64 3 3 64 1 0.02
f16 16 14 14 256 3 3 256 1 0.05
f32 16 28 28 128 3 3 128 1 0.1
f32 16 28 28 128 3 3 128 1 0.03
f16 16 28 28 512 1 1 128 1 0.05
f16 4 224 224 3 7 7 64 2 0.02"""
# Type, rows, columns and depth of products, and the share of a tile's memory for temporaries, small in most.
PRODUCTS = """f16 4096 4096 4096 0.6
f16 4096 4096 4096 0.3
f16 4096 4096 4096 0.1
f16 8192 8192 8192 0.6
f16 8192 8192 8192 0.4
f16 8192 8192 8192 0.2
f32 6000 6000 6000 0.6
f32 6000 6000 6000 0.3
f32 6000 6000 6000 0.1
f16 16384 1024 1024 0.1
f16 512 50257 768 0.1
f32 1024 4096 1024 0.05
f32 2048 2048 2048 0.1"""
# What the model charges for calling a local copy (measured on a C600); PopLibs' planner does not.
COPY_CALL = 288
HEADER = """### Plans against PopLibs' planner

#### Convolutions against PopLibs' planner

    python tools/poplibs_conformance.py --poplibs SOURCE --build BUILD --work FOLDER plans

asks PopLibs' planner (`reportPlanEstimatedCosts`) what its own plan costs, with float partial sums on
1,472 tiles of an ipu2. PopLibs counts no sync and nothing for calling a copy (288 cycles, measured on a C600), so the
model's cycles are without both here. "Share" is the share of a
tile's memory that temporaries may take (`availableMemoryProportion`). "Bytes" are those of temporaries and exchange
buffers on the tile that has most of them, beside the temporary bytes of PopLibs' plan.

| convolution | share | PopLibs' plan | own | own / PopLibs | bytes, PopLibs | bytes, own |
|---|---:|---:|---:|---:|---:|---:|
"""


PRODUCTS_HEADER = """
Products, as `poplin::matMul` plans them. Their temporaries may take a share of a tile's memory
(`availableMemoryProportion`); larger ones take steps:

| product | share | PopLibs' plan | own | own / PopLibs | bytes, PopLibs | bytes, own |
|---|---:|---:|---:|---:|---:|---:|
"""


def expected(space: Workspace) -> list[list[str]]:
    """Of each convolution, then of each product: PopLibs' cycles and bytes. Exits with the compiler's message."""
    binary = space.work / "compare" / "plans"
    made = binary.with_suffix(".o")
    done = compile_object([*compiler(), "-O1", *space.flags(SOURCE), str(SOURCE)], made)
    if done.returncode == 0:
        libraries = [f"-l{name}" for name in (*reversed(LIBRARIES), "poplar", *SYSTEM_LIBRARIES)]
        done = run(["g++", str(made), f"-L{space.work}", *libraries, "-o", str(binary)])
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [f"{line} NONE" for line in CONVOLUTIONS.splitlines()]
    for line in PRODUCTS.splitlines():
        # As poplin::matMul plans them, which takes the rows for a batch and may swap the operands.
        name, rows, columns, depth, share = line.split()
        lines.append(f"{name} {rows} 1 1 {depth} 1 1 {columns} 1 {share} NONE_MATMUL")
    command: list[str] = [str(binary)]
    output = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, env=space.environment(), check=True
    )
    return [line.split("\t")[1:] for line in output.stdout.splitlines()]


def _unpacked(values: Any) -> list[Any]:
    """Of a list as a report holds it: runs are pairs of a value and a count."""
    if not isinstance(values, dict):
        return list(values)
    runs = values["rle"]
    return [value for value, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]


def _own(function: Any, *operands: tuple[tuple[int, ...], str]) -> tuple[int, int]:
    """The cycles without sync of this project's plan, and the bytes on the tile with most."""
    import jax

    import jax_ipu

    structure: Any = jax.ShapeDtypeStruct
    data = jax_ipu.report(function, *(structure(*one) for one in operands), target="ipu2:1472").as_dict()
    parts = data["memory"]["categories"]
    bytes_used = sum(largest(parts[part]) for part in ("temporaries", "exchange_buffers"))
    steps = data["steps"]
    names, compute, local, executions, counted = (
        _unpacked(steps[name]) for name in ("name", "compute", "local_copies", "executions", "counted")
    )
    # PopLibs' planner knows neither the call of a copy, nor the zeros at the ends of rows, nor what Poplar copies
    # around vertices, call included.
    unknown = sum(
        COPY_CALL if name == "poplar::copy" and cycles - around >= COPY_CALL else cycles * (name == "poplin::Padder")
        for name, cycles, around in zip(names, compute, local, strict=True)
    )
    unknown += sum(math.prod(row) for row in zip(local, executions, counted, strict=True))
    cycles = data["estimate"]["compute_cycles"] + data["estimate"]["exchange_cycles"] - unknown
    return cycles, bytes_used


def own(line: str) -> tuple[int, int]:
    """Cycles and bytes of a convolution."""
    import jax
    from jax import lax

    name, *numbers, share = line.split()
    batch, height, width, channels, rows, columns, out, stride = map(int, numbers)
    dims = ("NHWC", "HWIO", "NHWC")
    convolve = functools.partial(
        lax.conv_general_dilated, window_strides=(stride, stride), padding="SAME", dimension_numbers=dims
    )
    return _own(
        jax.jit(convolve, compiler_options={"ipu_available_memory_proportion": float(share)}),
        ((batch, height, width, channels), TYPES[name]),
        ((rows, columns, channels, out), TYPES[name]),
    )


def own_product(line: str) -> tuple[int, int]:
    """Cycles and bytes of a product."""
    import jax
    import jax.numpy as jnp

    name, *numbers, share = line.split()
    rows, columns, depth = map(int, numbers)
    product = jax.jit(jnp.matmul, compiler_options={"ipu_available_memory_proportion": float(share)})
    return _own(product, ((rows, depth), TYPES[name]), ((depth, columns), TYPES[name]))


class _Errors:
    """How far off cycles and bytes are."""

    def __init__(self) -> None:
        self._cycles: list[float] = []
        self._bytes: list[float] = []

    def cells(self, theirs: list[str], ours: tuple[int, int]) -> str:
        """The cells of a row; `theirs`: cycles and bytes of PopLibs' plan, or "-" and why there is none."""
        if theirs[0] == "-":
            return f"- | {ours[0]:,} | - | - | {ours[1]:,} |"
        cycles, held = map(int, theirs)
        ratio = ours[0] / cycles
        self._cycles.append(abs(ratio - 1))
        self._bytes.append(abs(ours[1] / held - 1))
        return f"{cycles:,} | {ours[0]:,} | {ratio:.2f} | {held:,} | {ours[1]:,} |"

    def text(self) -> str:
        return (
            f"\n\nMedian error of the cycles {100 * statistics.median(self._cycles):.0f} %, "
            f"largest {100 * max(self._cycles):.0f} %; "
            f"of the bytes {100 * statistics.median(self._bytes):.0f} %, largest {100 * max(self._bytes):.0f} %.\n"
        )


def table(theirs: list[list[str]]) -> str:
    """Both tables, and the medians."""
    convolutions, products = CONVOLUTIONS.splitlines(), PRODUCTS.splitlines()
    lines, errors = [], _Errors()
    for line, costs in zip(convolutions, theirs[: len(convolutions)], strict=True):
        name, batch, height, width, channels, high, wide, out, stride, share = line.split()
        title = f"{batch}x{height}x{width}x{channels}, {high}x{wide} to {out}, stride {stride} {name}"
        lines.append(f"| {title} | {share} | {errors.cells(costs, own(line))}")
    text = HEADER + "\n".join(lines) + errors.text()
    lines, errors = [], _Errors()
    for line, costs in zip(products, theirs[len(convolutions) :], strict=True):
        name, rows, columns, depth, share = line.split()
        lines.append(
            f"| [{rows}, {depth}] x [{depth}, {columns}] {name} | {share} | {errors.cells(costs, own_product(line))}"
        )
    return text + PRODUCTS_HEADER + "\n".join(lines) + errors.text()


def compare(space: Workspace) -> None:
    """Writes the tables of docs/model_accuracy.md."""
    found = table(expected(space))
    print(found)
    write_part(DOCUMENT, BEGIN, END, found)
