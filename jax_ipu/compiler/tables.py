"""Tables of text and of HTML, and the units in them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Row = Sequence[str]


def text_table(rows: Sequence[Row], left: Iterable[int] = (0,)) -> list[str]:
    """The lines of a table; the columns in `left` are aligned to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    to_left = frozenset(left)
    return [
        "  ".join(
            c.ljust(w) if i in to_left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html_table(rows: Sequence[Row], left: Iterable[int] = (0,)) -> str:
    """The same as an HTML table; the first row is its header."""
    to_left = frozenset(left)

    def line(row: Row, tag: str) -> str:
        cells = (
            f'<{tag} style="text-align:{"left" if i in to_left else "right"}">{html.escape(cell)}</{tag}>'
            for i, cell in enumerate(row)
        )
        return f"<tr>{''.join(cells)}</tr>"

    header, *body = rows
    return (
        f"<table><thead>{line(header, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in body)}</tbody></table>"
    )


def bytes_text(count: float) -> str:
    """A number of bytes, such as "1.5 MiB"; exact below 10 KiB."""
    if count < 10 * 1024:
        return f"{count:,.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 10 * 1024 or unit == "GiB":
            break
    return f"{count:,.1f} {unit}"


def seconds_text(seconds: float) -> str:
    """A time, such as "12.3 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:,.3g} {unit}" if seconds < 100 * scale else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds * 1e6:,.3g} us" if seconds < 1e-4 else f"{seconds * 1e6:,.0f} us"


def percent_text(part: float, whole: float) -> str:
    """A part in percent; "" where the whole is zero."""
    return f"{100 * part / whole:.1f} %" if whole else ""
