"""Cycles per element of lookups, scatters, sorts and top-k over five decades of sizes: python benchmarks/index_cost.py

Costs are those of `jax_ipu.estimate`, so nothing runs. Prints a table for each curve, and what is out of the ordinary
between neighbouring sizes: a larger problem that takes fewer cycles or more than twice as many for each element, or
that does not fit although its operands and results take at most half of the memory. --write stores the table of
docs/index_cost.md and its plot.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jax_ipu

TARGET = "ipu2"
HALF_OF_AN_IPU = 1472 * 624 * 1024 // 2
SIZES = tuple(round(10 ** (k / 2)) for k in range(4, 15))
PAGE = Path(__file__).parents[1] / "docs" / "index_cost.md"
PLOT = PAGE.parent / "images" / "index_cost.svg"
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"
# More supersteps for the same work may cost a little.
SLACK = 0.8


class Curve(NamedTuple):
    """A function of arrays whose shapes follow from the number of elements."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[int], list[jax.ShapeDtypeStruct]]
    least: int = 1  # the smallest size for which the function is defined


class Point(NamedTuple):
    size: int
    fits: bool
    cycles: int

    @property
    def each(self) -> float:
        return self.cycles / self.size


def _array(shape: tuple[int, ...], dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _of(dtype: str) -> str:
    return "" if dtype == "float32" else f" {dtype}"


def _row(columns: int) -> tuple[int, ...]:
    return () if columns == 1 else (columns,)


def _lookup(rows: int, columns: int = 1, dtype: str = "float32") -> Curve:
    what = "x[i]" if columns == 1 else f"rows of {columns}"
    return Curve(
        f"{what}, table of {rows:,}{_of(dtype)}",
        lambda x, i: x[i],
        lambda n: [_array((rows, *_row(columns)), dtype), _array((n,), "int32")],
    )


def _lookup_of_as_many(columns: int = 1) -> Curve:
    what = "x[i]" if columns == 1 else f"rows of {columns}"
    return Curve(
        f"{what}, as many as in the table",
        lambda x, i: x[i],
        lambda n: [_array((n, *_row(columns))), _array((n,), "int32")],
    )


def _scatter(rows: int, columns: int = 1, dtype: str = "float32", combine: str = "add") -> Curve:
    what = f"x.at[i].{combine}(u)" if columns == 1 else f"{combine} rows of {columns}"
    return Curve(
        f"{what}, table of {rows:,}{_of(dtype)}",
        lambda x, i, u: getattr(x.at[i], combine)(u),
        lambda n: [
            _array((rows, *_row(columns)), dtype),
            _array((n,), "int32"),
            _array((n, *_row(columns)), dtype),
        ],
    )


def _add_as_many(columns: int = 1) -> Curve:
    what = "x.at[i].add(u)" if columns == 1 else f"add rows of {columns}"
    return Curve(
        f"{what}, as many as in the table",
        lambda x, i, u: x.at[i].add(u),
        lambda n: [_array((n, *_row(columns))), _array((n,), "int32"), _array((n, *_row(columns)))],
    )


def _top_k(k: int) -> Curve:
    return Curve(f"top_k(x, {k})", lambda x: jax.lax.top_k(x, k), lambda n: [_array((n,))], k)


def _columns(n: int) -> list[jax.ShapeDtypeStruct]:
    return [_array((n // 100, 100), "int8")]


CURVES = (
    _lookup(1_000),
    _lookup(1_000_000),
    _lookup(9_000_000),
    _lookup(100_000, 16),
    _lookup(100_000, 64),
    _lookup_of_as_many(),
    _lookup_of_as_many(16),
    _scatter(1_000),
    _scatter(1_000_000),
    _scatter(100_000, 16),
    _scatter(100_000, 64),
    _add_as_many(),
    _add_as_many(16),
    _scatter(1_000, combine="max"),
    _scatter(100_000, 16, combine="max"),
    _scatter(1_000, combine="set"),
    _scatter(100_000, 16, combine="set"),
    _lookup(1_000_000, dtype="float16"),
    _lookup(100_000, 16, dtype="float16"),
    _scatter(1_000, dtype="float16"),
    _scatter(100_000, 16, dtype="float16"),
    _scatter(1_000, dtype="int32"),
    _scatter(1_000, dtype="int8"),
    _scatter(1_000, dtype="bfloat16"),
    Curve("sort(x)", jnp.sort, lambda n: [_array((n,))]),
    Curve("sort(x) float16", jnp.sort, lambda n: [_array((n,), "float16")]),
    Curve("argsort(x)", jnp.argsort, lambda n: [_array((n,))]),
    Curve("argmax(x)", jnp.argmax, lambda n: [_array((n,))]),
    Curve("cumsum(x, 0) of 100 columns int8", lambda x: jnp.cumsum(x, 0), _columns),
    _top_k(1),
    _top_k(100),
    _top_k(1_000),
    _top_k(30_000),
)


def points(curve: Curve, sizes: Iterable[int] = SIZES) -> Iterator[Point]:
    """The costs at the sizes whose operands and results take at most half of an IPU."""
    for size in sizes:
        if size < curve.least:
            continue
        arguments = curve.arguments(size)
        results = jax.tree.leaves(jax.eval_shape(curve.function, *arguments))
        if sum(x.size * x.dtype.itemsize for x in [*arguments, *results]) > HALF_OF_AN_IPU:
            return
        estimate = jax_ipu.estimate(curve.function, *arguments, target=TARGET)
        yield Point(size, estimate.fits, estimate.cycles or 0)


def jumps(found: Sequence[Point]) -> list[str]:
    """What is wrong with a curve, in words."""
    wrong = [f"{point.size:,} do not fit" for point in found if not point.fits]
    for small, large in itertools.pairwise(found):
        if large.cycles < SLACK * small.cycles:
            wrong.append(f"{large.size:,} take {large.cycles:,} cycles, {small.size:,} take {small.cycles:,}")
        if large.each > 2 * small.each:
            wrong.append(f"{large.each:.3g} cycles each of {large.size:,}, {small.each:.3g} of {small.size:,}")
    return wrong


def table(found: dict[str, list[Point]]) -> str:
    """Cycles per element, as Markdown: a row for each curve."""
    lines = ["| | " + " | ".join(f"{size:,}" for size in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
    for name, curve in found.items():
        each = {point.size: f"{point.each:.3g}" for point in curve}
        lines.append(f"| `{name}` | " + " | ".join(each.get(size, "") for size in SIZES) + " |")
    return "\n".join(lines)


_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2")
_DASHES = ("", *(f' stroke-dasharray="{dashes}"' for dashes in ("5 3", "1 2", "8 2 2 2", "2 5")))


def plot(found: dict[str, list[Point]]) -> str:
    """The curves as an SVG with logarithmic axes, readable on light and dark pages."""
    left, top, width, legend = 60, 20, 520, 300
    height = max(380, 20 * len(found) - 30)
    low, high = -3, 3  # powers of ten of cycles per element

    def x(size: float) -> float:
        return left + width * (np.log10(size) - 2) / 5

    def y(each: float) -> float:
        return top + height * (high - np.log10(each)) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + legend} {top + height + 50}" '
        'font-family="sans-serif" font-size="12" fill="#777">'
    ]
    for power in range(2, 8):
        out.append(f'<path d="M{x(10**power):.0f} {top}v{height}" stroke="#8884"/>')
        out.append(f'<text x="{x(10**power):.0f}" y="{top + height + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in range(low, high + 1):
        out.append(f'<path d="M{left} {y(10.0**power):.0f}h{width}" stroke="#8884"/>')
        out.append(f'<text x="{left - 6}" y="{y(10.0**power) + 4:.0f}" text-anchor="end">{10.0**power:g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">elements</text>')
    out.append(f'<text x="{left}" y="13">cycles per element</text>')
    for i, (name, curve) in enumerate(found.items()):
        colour, dashes = _COLOURS[i % len(_COLOURS)], _DASHES[i // len(_COLOURS) % len(_DASHES)]
        path = "L".join(f"{x(point.size):.1f} {y(point.each):.1f}" for point in curve)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        at = top + 20 * i + 10
        out.append(f'<path d="M{left + width + 15} {at}h25" stroke="{colour}" stroke-width="2"{dashes}/>')
        out.append(f'<text x="{left + width + 46}" y="{at + 4}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"store the table in {PAGE.name}, and the plot")
    arguments = parser.parse_args()
    found: dict[str, list[Point]] = {}
    for curve in CURVES:
        found[curve.name] = list(points(curve))
        print(curve.name, *(f"{point.size:,}: {point.each:.3g}" for point in found[curve.name]), sep="  ", flush=True)
        for wrong in jumps(found[curve.name]):
            print(f"  jump: {wrong}", flush=True)
    if arguments.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.partition(END)[2]}")
        PLOT.write_text(plot(found))


if __name__ == "__main__":
    main()
