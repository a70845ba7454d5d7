"""Plots of a report without its page: for notebooks and documents, as SVG, without any plotting library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax_ipu.compiler.tables import bytes_text, percent_text, seconds_text
from jax_ipu.files import explained
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.reports.drawing import HEAT, Drawing
from jax_ipu.reports.insights import expanded

_WIDTH = 720
_PHASES = (("exchange", "exchange"), ("links", "IPU-Links"), ("compute", "compute"), ("sync", "sync"))


class Plot:
    """A plot, which a notebook shows.

    Examples:
        >>> import jax.numpy as jnp, jax_ipu
        >>> plot = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").plot("memory")
        >>> plot.svg.startswith("<svg")
        True
    """

    def __init__(self, svg: str, title: str) -> None:
        self.svg = svg
        """The plot as text, an SVG image."""
        self.title = title
        """What it shows, in a line."""

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @boundary
    def save(self, path: str | Path) -> Path:
        """Writes the plot to a file .svg, in a folder that is made if there is none.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu, tempfile
            >>> plot = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").plot("steps")
            >>> plot.save(tempfile.mkdtemp() + "/steps.svg").suffix
            '.svg'
        """
        where = Path(path)
        if where.suffix != ".svg":
            raise ValueError(f"{where}: the name of a plot ends in .svg")
        with explained("the plot cannot be written", "give another path"):
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(self.svg, "utf-8")
        return where


def plot(data: Mapping[str, Any], kind: str) -> Plot:
    """The plot of a kind, from the data of a report.

    Raises:
        ValueError: there is no such kind, or the report does not know what it shows.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no plot {kind!r}: take one of {', '.join(KINDS)}")
    title, needs, draw = KINDS[kind]
    if data["memory"] is None or (kind in _PLANNED and data["estimate"]["cycles"] is None):
        raise ValueError(f"the program was not planned, so there is no plot {kind!r} of it")
    if not data[needs] or (needs == "liveness" and not data[needs]["steps"]):
        raise ValueError(f"the program has no {needs}, so there is no plot {kind!r} of it")
    title = f"{title} of {data['program']['name']} on {data['program']['target']}"
    return Plot(draw(data, title).svg(), title)


def _memory(data: Mapping[str, Any], title: str) -> Drawing:
    """The fullest tile in each step, below the memory that it has."""
    steps = expanded(data["liveness"]["max_tile"])
    limit = data["chip"]["tile_memory_bytes"]
    drawing = Drawing(title, _WIDTH, 240)
    left, right, top, bottom = 70, _WIDTH - 16, 34, 204
    most = max([*steps, limit if max(steps) > limit / 3 else 0])
    y = _axis(drawing, left, right, top, bottom, most, bytes_text)
    width = (right - left) / len(steps)
    outline = [(left, bottom), *_stairs(steps, left, width, y), (right, bottom)]
    drawing.area("compute", [(float(a), float(b)) for a, b in outline])
    if most >= limit:
        drawing.line("limit", [(left, y(limit)), (right, y(limit))], 1.5, "6 4")
        drawing.text("limit", right, y(limit) - 8, f"{bytes_text(limit)} a tile", "end")
    drawing.text("text", 12, 16, title, size=13)
    at = max(range(len(steps)), key=steps.__getitem__)
    share = percent_text(steps[at], limit)
    drawing.text(
        "muted", left, 224, f"step of the program; the fullest is step {at}: {bytes_text(steps[at])}, {share} of a tile"
    )
    return drawing


def _floor_plan(data: Mapping[str, Any], title: str) -> Drawing:
    """The memory of each tile at its fullest moment, where the tile is drawn."""
    plan, total = data["chip"]["floor_plan"], expanded(data["memory"]["total"])
    size = max(4.0, min(14.0, (_WIDTH - 24) / plan["columns"], 420 / plan["rows"]))
    drawing = Drawing(title, max(480, round(24 + size * plan["columns"])), round(92 + size * plan["rows"]))
    drawing.text("text", 12, 16, title, size=13)
    low, high = min(total), max(total)
    cells: dict[int, list[tuple[float, float]]] = {}
    for tile, bytes_ in enumerate(total):
        level = round((bytes_ - low) / ((high - low) or 1) * (len(HEAT) - 1))
        x, y = plan["tiles"][2 * tile : 2 * tile + 2]
        cells.setdefault(level, []).append((12 + x * size, 32 + y * size))
    for level in sorted(cells):
        drawing.cells(f"heat{level}", cells[level], size - 1)
    y = 52 + size * plan["rows"]
    drawing.text("muted", 12, y, f"memory of a tile: {bytes_text(low)}")
    x = 24 + 6.2 * len(f"memory of a tile: {bytes_text(low)}")
    for level in range(len(HEAT)):
        drawing.rectangle(f"heat{level}", x + 16 * level, y - 5, 16, 10)
    drawing.text("muted", x + 16 * len(HEAT) + 8, y, bytes_text(high))
    drawing.text("muted", 12, y + 18, "schematic: no plan of the chip is public")
    return drawing


def _steps(data: Mapping[str, Any], title: str) -> Drawing:
    """The supersteps in time, all executions of each together, by phase."""
    costs = {name: expanded(data["steps"][name]) for name in ("compute", "exchange", "links", "sync")}
    counted, executions = expanded(data["steps"]["counted"]), expanded(data["steps"]["executions"])
    whole = data["estimate"]["cycles"] or 1
    drawing = Drawing(title, _WIDTH, 150)
    drawing.text("text", 12, 16, title, size=13)
    left, right, top, height = 12, _WIDTH - 12, 34, 56
    scale, x = (right - left) / whole, float(left)
    sums = dict.fromkeys(costs, 0)
    for step, name in enumerate(data["steps"]["operation"]):
        times = counted[step] * executions[step]
        parts = {key: values[step] * times for key, values in costs.items()}
        parts["exchange"] -= parts["links"]
        for key, cycles in parts.items():
            sums[key] += cycles
        width = sum(parts.values()) * scale
        if width > 0.1:
            called = data["operations"][name]["title"] if name is not None else "decision"
            _stack(drawing, parts, x, top, width, height, f"{called}: {sum(parts.values()):,} cycles")
        x += width
    seconds = data["estimate"]["seconds"] or 0
    drawing.line("muted", [(left, top + height + 6), (right, top + height + 6)])
    drawing.text("muted", left, top + height + 18, "0")
    drawing.text("muted", right, top + height + 18, f"{whole:,} cycles, {seconds_text(seconds)}", "end")
    named = [(key, f"{text} {percent_text(sums[key], whole)}") for key, text in _PHASES if sums[key]]
    drawing.legend(left, 132, named)
    return drawing


def _roofline(data: Mapping[str, Any], title: str) -> Drawing:
    """The speed of the operations below what exchange and matrix units allow."""
    chip = data["chip"]
    peak, clock = chip["peak_flops"], chip["clock_hz"]
    bandwidth = chip["exchange_bytes_per_cycle"] * chip["num_tiles"] * clock
    rows = [row for row in data["operations"] if row["flops"] and row["cycles"] and row["exchange_bytes"]]
    drawing = Drawing(title, _WIDTH, 320)
    drawing.text("text", 12, 16, title, size=13)
    points = [(row["flops"] / row["exchange_bytes"], row["flops"] / (row["cycles"] / clock), row) for row in rows]
    x0 = math.floor(min([math.log10(a) for a, _, _ in points] + [0]))
    x1 = math.ceil(max([math.log10(a) for a, _, _ in points] + [math.log10(peak / bandwidth) + 0.5]))
    y0 = math.floor(min([math.log10(b) for _, b, _ in points] + [math.log10(peak) - 3]))
    y1 = math.ceil(math.log10(peak))
    left, right, top, bottom = 64, _WIDTH - 20, 36, 276

    def at(intensity: float, speed: float) -> tuple[float, float]:
        return (
            left + (math.log10(intensity) - x0) / (x1 - x0) * (right - left),
            bottom - (math.log10(speed) - y0) / (y1 - y0) * (bottom - top),
        )

    for power in range(x0, x1 + 1):
        x, _ = at(10.0**power, 10.0**y0)
        drawing.line("grid", [(x, top), (x, bottom)])
        drawing.text("muted", x, bottom + 12, f"{10.0**power:g}", "middle")
    for power in range(y0, y1 + 1):
        _, y = at(10.0**x0, 10.0**power)
        drawing.line("grid", [(left, y), (right, y)])
        drawing.text("muted", left - 6, y, _flops(10.0**power), "end")
    start = max(10.0**x0, 10.0**y0 / bandwidth)
    roof = [at(start, start * bandwidth), at(peak / bandwidth, peak), at(10.0**x1, peak)]
    drawing.line("text", roof, 2)
    most = max((row["cycles"] for row in rows), default=1)
    for intensity, speed, row in points:
        tip = f"{row['title']}: {_flops(speed)}FLOP/s, {row['cycles']:,} cycles"
        drawing.circle("compute", *at(intensity, speed), 3 + 9 * math.sqrt(row["cycles"] / most), tip)
    drawing.text(
        "muted",
        left,
        306,
        "FLOPs for each byte that tiles exchange; areas are cycles. The roof: exchange, then the f16 peak",
    )
    return drawing


def _layers(data: Mapping[str, Any], title: str) -> Drawing:
    """What the costliest layers take, by phase."""
    nodes = [node for node in data["layers"] if node["cycles"]]
    inner = {node["parent"] for node in nodes}
    shown = sorted(
        (n for n in nodes if n["parent"] is not None or n["id"] not in inner), key=lambda n: (-n["cycles"], n["id"])
    )[:10]
    drawing = Drawing(title, _WIDTH, 66 + 24 * max(1, len(shown)))
    drawing.text("text", 12, 16, title, size=13)
    whole = data["estimate"]["cycles"] or 1
    left, right = 250, _WIDTH - 110
    most = max((node["cycles"] for node in shown), default=1)
    for number, node in enumerate(shown):
        names: list[str] = []
        y, at = 36 + 24 * number, node
        while at is not None:
            names.insert(0, at["name"])
            at = data["layers"][at["parent"]] if at["parent"] is not None else None
        name = " / ".join(names[1:] or names)
        drawing.text("text", left - 8, y + 8, name if len(name) < 38 else "…" + name[-36:], "end")
        parts = {key: node[f"{key}_cycles"] or 0 for key in ("compute", "exchange", "sync")}
        parts["links"] = node["link_cycles"] or 0
        parts["exchange"] -= parts["links"]
        x = float(left)
        for key, _ in _PHASES:
            width = parts[key] / most * (right - left)
            if width > 0.05:
                drawing.rectangle(key, x, y, width, 16, f"{name}: {parts[key]:,} cycles of {key}")
            x += width
        drawing.text("muted", x + 6, y + 8, f"{node['cycles']:,}, {percent_text(node['cycles'], whole)}")
    drawing.legend(
        left,
        52 + 24 * max(1, len(shown)),
        [(key, text) for key, text in _PHASES if key != "links" or any(n["link_cycles"] for n in shown)],
    )
    return drawing


def _stack(
    drawing: Drawing, parts: Mapping[str, int], x: float, top: float, width: float, height: float, tip: str
) -> None:
    """The phases of a step on top of each other, as parts of its width in time."""
    whole, y = sum(parts.values()), float(top)
    for key, _ in _PHASES:
        part = parts[key] / whole * height
        if part > 0.05:
            drawing.rectangle(key, x, y, max(0.3, width), part, tip)
        y += part


def _stairs(
    values: Sequence[float], left: float, width: float, y: Callable[[float], float]
) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for step, value in enumerate(values):
        # What does not change needs no point.
        if step and value == values[step - 1]:
            points.pop()
        else:
            points.append((left + step * width, y(value)))
        points.append((left + (step + 1) * width, y(value)))
    return points


def _axis(
    drawing: Drawing, left: float, right: float, top: float, bottom: float, most: float, text: Callable[[float], str]
) -> Callable[[float], float]:
    """Draws the marks of an axis from zero to `most`; returns where a value is on it."""

    def y(value: float) -> float:
        return bottom - value / (most or 1) * (bottom - top)

    for part in range(5):
        value = most * part / 4
        drawing.line("grid", [(left, y(value)), (right, y(value))])
        drawing.text("muted", left - 6, y(value), text(value), "end")
    return y


def _flops(value: float) -> str:
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} "


_PLANNED = frozenset(("steps", "roofline", "layers"))
# Title, what of the data it needs, and the function that draws it.
KINDS: dict[str, tuple[str, str, Callable[[Mapping[str, Any], str], Drawing]]] = {
    "memory": ("Memory of the fullest tile", "liveness", _memory),
    "floor plan": ("Memory of each tile", "memory", _floor_plan),
    "steps": ("Supersteps", "steps", _steps),
    "roofline": ("Roofline", "operations", _roofline),
    "layers": ("Cycles by layer", "layers", _layers),
}
