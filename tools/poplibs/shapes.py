"""Compares this project's planner with PopLibs' own, on the same engine, shape by shape.

    tools/compare_poplibs FOLDER [--only WORD] [--target ipu2:1472]

FOLDER is one of tools/build_poplibs. Each shape is a JAX function of one operation, compiled twice: as always, and with
its operations from PopLibs. Cycles are those of a call, whose arguments are on the tiles already where the operation
wants them; streams take none. Without --only the table is written into docs/model_accuracy.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


class Case(NamedTuple):
    """A function of one operation, and the shapes and types of its arguments."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def cases() -> Iterator[Case]:
    """The shapes that are compared."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    structure: Any = jax.ShapeDtypeStruct

    def spec(dtype: str, *shape: int) -> Any:
        return structure(shape, dtype)

    def convolve(stride: int) -> Callable[..., Any]:
        dims = ("NHWC", "HWIO", "NHWC")
        return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=dims)

    types = (("f32", "float32"), ("f16", "float16"))
    products = [(64, 64, 64), (128, 128, 128), (256, 256, 256), (128, 784, 256), (128, 256, 10), (1, 512, 512)]
    for name, dtype in types:
        for m, k, n in products:
            yield Case(f"product {m}x{k}x{n} {name}", jnp.matmul, (spec(dtype, m, k), spec(dtype, k, n)))
        yield Case(f"8 products 64x64x64 {name}", jnp.matmul, (spec(dtype, 8, 64, 64), spec(dtype, 8, 64, 64)))
    convolutions = [(1, 16, 32, 3, 64, 1), (1, 28, 1, 5, 8, 1), (1, 14, 64, 1, 64, 1), (1, 16, 32, 3, 32, 2)]
    for name, dtype in types:
        for batch, size, channels, window, out, stride in convolutions:
            image, kernel = spec(dtype, batch, size, size, channels), spec(dtype, window, window, channels, out)
            title = f"convolution {size}x{size}x{channels}, {window}x{window} to {out}, stride {stride} {name}"
            yield Case(title, convolve(stride), (image, kernel))
    for name, dtype in types:
        for rows, columns, axis in [(256, 256, 0), (256, 256, 1), (64, 4096, 1), (1024, 256, None)]:
            what = {0: "columns", 1: "rows", None: "all"}[axis]
            reduction = Case(
                f"sum of {what} {rows}x{columns} {name}",
                lambda x, axis=axis: lax.reduce(
                    x, jnp.zeros((), x.dtype), lax.add, (0, 1) if axis is None else (axis,)
                ),
                (spec(dtype, rows, columns),),
            )
            yield reduction
    maps: list[tuple[str, Callable[..., Any], int]] = [
        ("x + y", lambda x, y: x + y, 2),
        ("tanh(x)", jnp.tanh, 1),
        ("x * y + z", lambda x, y, z: x * y + z, 3),
    ]
    for name, dtype in types:
        for title, function, count in maps:
            yield Case(f"{title} of 65536 {name}", function, (spec(dtype, 65536),) * count)
    for rows, length, k in [(1, 1024, 8), (16, 256, 4)]:
        yield Case(f"top {k} of {rows}x{length} s32", lambda x, k=k: lax.top_k(x, k), (spec("int32", rows, length),))


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
    parser.add_argument("--target", default="ipu2:1472")
    arguments = parser.parse_args()
    lines = []
    for case in cases():
        if arguments.only in case.name:
            lines.append(line_of(case, arguments.target, arguments.folder))
            print(lines[-1], flush=True)
    if arguments.only:
        return
    text = DOCUMENT.read_text()
    if BEGIN not in text:
        sys.exit(f"{DOCUMENT} has no line {BEGIN}")
    before, rest = text.split(BEGIN)
    table = HEADER.format(target=arguments.target) + "\n".join(lines)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}")
