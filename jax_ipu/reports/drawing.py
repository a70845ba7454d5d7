"""A picture as SVG text: shapes in colours that are read on light and on dark pages."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

# Light and dark. Phases and categories as on the report's page: told apart by all kinds of colour vision.
COLOURS = {
    "surface": ("#ffffff", "#191f27"),
    "text": ("#1b2430", "#e4e9ef"),
    "muted": ("#5b6675", "#9aa6b5"),
    "grid": ("#e6e9ee", "#2e3743"),
    "compute": ("#2f74b5", "#4a8fd2"),
    "exchange": ("#e39a1b", "#dd9f3c"),
    "links": ("#0a9271", "#34c39b"),
    "sync": ("#9aa3af", "#7d8794"),
    "limit": ("#b3380b", "#ff9a6b"),
    "first": ("#cfe0f3", "#27415d"),
    "second": ("#f5dfb8", "#54431f"),
}
# From nothing to the most.
HEAT = (
    ("#eef3f8", "#232f3c"),
    ("#c6dbee", "#23425f"),
    ("#9dc2e0", "#25537d"),
    ("#6ea8d2", "#2c6a9a"),
    ("#438dc0", "#2f7cb3"),
    ("#2468a6", "#52a5d9"),
    ("#164b83", "#7dbde6"),
    ("#0b2f5e", "#a5d8f4"),
)


class Drawing:
    """Shapes that are collected into an SVG image of one size; each has the name of a colour.

    Examples:
        >>> from jax_ipu.reports.drawing import Drawing
        >>> drawing = Drawing("a square", 20, 20)
        >>> drawing.rectangle("compute", 2, 2, 16, 16)
        >>> drawing.svg().count("<rect")
        2
    """

    def __init__(self, title: str, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._title = title
        self._used: set[str] = {"surface"}
        self._parts: list[str] = []

    def rectangle(self, colour: str, x: float, y: float, width: float, height: float, tip: str = "") -> None:
        """A filled rectangle; `tip` is shown where the pointer is."""
        size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        inside = f"<title>{html.escape(tip)}</title>" if tip else ""
        self._add(f'<rect class="{self._class(colour)}" {size}>{inside}</rect>')

    def cells(self, colour: str, corners: Iterable[tuple[float, float]], size: float) -> None:
        """Equal squares, as one shape."""
        side = _n(size)
        path = "".join(f"M{_n(x)} {_n(y)}h{side}v{side}h-{side}z" for x, y in corners)
        self._add(f'<path class="{self._class(colour)}" d="{path}"/>')

    def area(self, colour: str, points: Sequence[tuple[float, float]]) -> None:
        """A filled shape."""
        text = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(f'<polygon class="{self._class(colour)}" points="{text}"/>')

    def circle(self, colour: str, x: float, y: float, radius: float, tip: str = "") -> None:
        """A disc that lets through what is below it."""
        inside = f"<title>{html.escape(tip)}</title>" if tip else ""
        size = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill-opacity=".75"'
        self._add(f'<circle class="{self._class(colour)}" {size}>{inside}</circle>')

    def line(self, colour: str, points: Sequence[tuple[float, float]], width: float = 1, dash: str = "") -> None:
        """A line through points."""
        text = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        more = f'fill="none" stroke-width="{_n(width)}"{dashes}'
        self._add(f'<polyline class="{self._class(colour)}-line" {more} points="{text}"/>')

    def text(self, colour: str, x: float, y: float, text: str, anchor: str = "start", size: float = 11) -> None:
        """A line of text; `y` is its middle."""
        place = f'x="{_n(x)}" y="{_n(y + size * 0.35)}" text-anchor="{anchor}" font-size="{_n(size)}"'
        self._add(f'<text class="{self._class(colour)}" {place}>{html.escape(text)}</text>')

    def legend(self, x: float, y: float, entries: Iterable[tuple[str, str]]) -> None:
        """Names of colours in a row: (colour, name)."""
        for colour, name in entries:
            self.rectangle(colour, x, y - 5, 10, 10)
            self.text("muted", x + 14, y, name)
            x += 30 + 6.2 * len(name)

    def svg(self) -> str:
        """The image."""
        rules = ["".join(self._rule(name, shade) for name in sorted(self._used)) for shade in (0, 1)]
        style = f"{rules[0]}@media (prefers-color-scheme:dark){{{rules[1]}}}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="system-ui,DejaVu Sans,sans-serif">'
            f"<title>{html.escape(self._title)}</title><style>{style}</style>"
            f'<rect class="ipu-surface" width="{self.width}" height="{self.height}" rx="8"></rect>'
            + "\n".join(self._parts)
            + "</svg>\n"
        )

    def _add(self, part: str) -> None:
        self._parts.append(part)

    def _class(self, colour: str) -> str:
        self._used.add(colour)
        return f"ipu-{colour}"

    @staticmethod
    def _rule(name: str, shade: int) -> str:
        colour = (HEAT[int(name[4:])] if name.startswith("heat") else COLOURS[name])[shade]
        return f".ipu-{name}{{fill:{colour}}}.ipu-{name}-line{{stroke:{colour}}}"


def _n(value: float) -> str:
    """A number in as few letters as the eye needs."""
    return f"{value:.1f}".rstrip("0").rstrip(".") or "0"
