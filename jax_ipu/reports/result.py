"""A report on one program, two of them compared, and how they are saved and shown."""

from __future__ import annotations

import base64
import errno
import html as _html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax_ipu.compiler.estimates import Estimate
from jax_ipu.compiler.tables import html_table, seconds_text, text_table
from jax_ipu.files import explained
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.reports import html
from jax_ipu.reports.data import FORMAT, VERSION, plain
from jax_ipu.reports.insights import link_cycles
from jax_ipu.reports.plots import Plot, plot
from jax_ipu.reports.runs import run_data

_SHOWN = 5
_WRITING = explained("the report cannot be written", "give another path")


def checked_path(path: str | Path) -> Path:
    """The path of a report that is to be written, without writing it.

    Raises:
        ValueError: the name ends in neither .html nor .json.
        IsADirectoryError: there is a folder of that name.
    """
    where = Path(path)
    if where.suffix not in (".html", ".json"):
        raise ValueError(f"{where}: the name of a report ends in .html, or in .json for its data")
    with _WRITING:
        if where.is_dir():
            raise IsADirectoryError(errno.EISDIR, "", str(where))
    return where


class _Saved:
    """What can be saved as .html or .json."""

    path: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def _text(self) -> str:
        return html.text_of(self.as_dict())

    def _page(self) -> str:
        raise NotImplementedError

    def text(self, suffix: str) -> str:
        """What `save` writes to a file whose name ends in ".html" or ".json"."""
        return self._text() if suffix == ".json" else self._page()

    @boundary
    def save(self, path: str | Path) -> Path:
        """Writes the report: one HTML file, or its data if the name ends in .json.

        Returns:
            The path, also as the attribute `path`.

        Raises:
            ValueError: the name ends in neither .html nor .json.
            NoFrontEnd: it ends in .html, and this installation has no front end for reports.
            OSError: the file cannot be written.
        """
        where = checked_path(path)
        text = self.text(where.suffix)
        with _WRITING:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(text, "utf-8")
        self.path = where
        return where

    def _link(self) -> str:
        """HTML that opens the report: its file, or the page itself where there is no file."""
        if self.path is not None and self.path.suffix == ".html":
            where = _html.escape(self.path.as_posix())
            return f'<p><a href="{where}" target="_blank">Open the report</a> ({where})</p>'
        try:
            page = base64.b64encode(self._page().encode()).decode()
        except html.NoFrontEnd as error:
            return f"<p>{_html.escape(str(error))}</p>"
        return (
            '<p><button onclick="const b=Uint8Array.from(atob(this.dataset.page),c=>c.charCodeAt(0));'
            "window.open(URL.createObjectURL(new Blob([b],{type:'text/html'})))\" "
            f'data-page="{page}">Open the report</button></p>'
        )


class Report(_Saved):
    """What the IPU model knows of a program: see :func:`jax_ipu.report`.

    Attributes:
        path: where it was saved last, or None.
        fits: whether the program fits into the memory of the tiles.
        estimate: the numbers of :func:`jax_ipu.estimate`, without `report`.

    Examples:
        >>> import jax.numpy as jnp, jax_ipu
        >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
        >>> report.fits, report.estimate.target
        (True, 'ipu2:4')
        >>> import pathlib, tempfile
        >>> path = report.save(pathlib.Path(tempfile.mkdtemp()) / "sin.json")
        >>> report.path == path
        True
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        self._is_plain = False
        self.path: Path | None = None

    def __getattr__(self, name: str) -> Any:  # called for names that do not exist
        of_estimate = name in Estimate.__annotations__
        hint = f". Its estimate has: report.estimate.{name}" if of_estimate else ""
        raise AttributeError(f"'Report' object has no attribute {name!r}{hint}", name=name, obj=self)

    @property
    def fits(self) -> bool:
        """Whether the program fits into the memory of the tiles.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.fits
            True
        """
        return bool(self._data["program"]["fits"])

    @property
    def estimate(self) -> Estimate:
        """The numbers of :func:`jax_ipu.estimate`, without its operations and `report`.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.estimate.cycles == jax_ipu.estimate(jnp.sin, jnp.ones(64), target="ipu2:4").cycles
            True
        """
        return Estimate.from_dict({**self._data["estimate"], "operations": []})

    @property
    def insights(self) -> list[dict[str, Any]]:
        """What there is to say and to do; `id`, `title`, `detail`, `action` and `saving` of each.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> all(insight["title"] for insight in report.insights)
            True
        """
        return list(self._data["insights"])

    def as_dict(self) -> dict[str, Any]:
        """The data of the report: docs/report_format.md describes it.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.as_dict()["program"]["name"]
            'jit_sin'
        """
        if not self._is_plain:
            self._data, self._is_plain = plain(self._data), True
        return self._data

    def _text(self) -> str:
        return html.text_of(self._data)

    @staticmethod
    @boundary
    def load(path: str | Path) -> Report:
        """Reads a report that was saved as .json.

        Raises:
            ValueError: the file is no report, or one of a later version of the format.
            OSError: it cannot be read.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> import tempfile
            >>> path = report.save(tempfile.mkdtemp() + "/sin.json")
            >>> jax_ipu.Report.load(path).estimate == report.estimate
            True
        """
        with explained("the report cannot be read", "give the path that Report.save was given"):
            found = Path(path).read_bytes()
        try:
            data = json.loads(found.decode("utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no report: it is not JSON ({error})") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{path} is no report of jax_ipu: it has no format {FORMAT!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"{path} has version {data.get('version')} of the format; this release reads {VERSION}")
        report = Report(data)
        report.path = Path(path)
        return report

    @boundary
    def with_profile(self, path: str | Path) -> Report:
        """This report with a run of its program: what the host did (measured) beside what the chip did (modelled).

        Args:
            path: what `jax.profiler.trace` has written while the program ran: its folder, of which the newest profile
                is taken, or a file that ends in .xplane.pb.

        Raises:
            ValueError: the profile has no run of this program on an IPU, or nothing of the host.
            OSError: there is no such profile.

        Examples:
            >>> import jax, jax.numpy as jnp, jax_ipu, tempfile
            >>> f, x = jax.jit(jnp.sin, backend="ipu"), jnp.ones(64)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with jax.profiler.trace(folder):
            ...         y = f(x).block_until_ready()
            ...     report = jax_ipu.report(f, x).with_profile(folder)
            >>> len(report.as_dict()["run"]["runs"])
            1
        """
        return self._with("run", run_data(path, self._data["program"]["name"]))

    def with_schedule(self, schedule: Mapping[str, Any]) -> Report:
        """This report with the schedule of a pipeline: `schedule` of docs/report_format.md.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").with_schedule({"kind": "grouped"})
            >>> report.as_dict()["schedule"]["kind"]
            'grouped'
        """
        return self._with("schedule", schedule)

    def _with(self, key: str, value: Mapping[str, Any]) -> Report:
        report = Report({**self._data, key: value})
        report._is_plain = self._is_plain
        return report

    @boundary
    def plot(self, kind: str) -> Plot:
        """A plot of the report, which a notebook shows and `save` writes as .svg.

        Args:
            kind: "memory" (of the fullest tile, step by step), "floor plan" (the memory of each tile), "steps" (the
                supersteps in time), "roofline" (operations below what the chip can do), or "layers" (their cycles).

        Raises:
            ValueError: there is no such kind, or the program does not fit and was not planned.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").plot("floor plan")
            <Memory of each tile of jit_sin on ipu2:4>
        """
        return plot(self._data, kind)

    @boundary
    def compare(self, other: Report, path: str | Path | None = None) -> ReportComparison:
        """This report beside another one: before and after a change, two chips, one that fits and one that does not.

        Args:
            other: the second report.
            path: where to save the comparison, .html or .json; by default it is not saved.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> larger = jax_ipu.report(jnp.sin, jnp.ones(6400), target="ipu2:4")
            >>> report.compare(larger).difference()["cycles"] > 0
            True
        """
        if not isinstance(other, Report):
            given = type(other).__name__
            raise TypeError(f"a report is compared with another report, as jax_ipu.report returns it, not with {given}")
        comparison = ReportComparison(self, other)
        if path is not None:
            comparison.save(path)
        return comparison

    def _page(self) -> str:
        return html.page(self._data)

    def summary(self) -> list[tuple[str, str]]:
        """The most important numbers, as pairs of a label and a text.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.summary()[0]
            ('fits', 'yes')
        """
        rows = self.estimate.summary(self.link_cycles or 0)
        if (call := self.estimate.call_seconds) is not None:
            batch = self._data["program"].get("batch")
            speed = f"; {batch / call:,.0f} rows a second in batches of {batch}" if batch and call else ""
            after = next((i + 1 for i, (name, _) in enumerate(rows) if name == "host link"), len(rows))
            rows.insert(after, ("call", f"{seconds_text(call)} with the host link{speed}"))
        return rows

    @property
    def link_cycles(self) -> int | None:
        """The part of the estimate's `exchange_cycles` in which data moves over IPU-Links; None where it is not known.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").link_cycles
            0
        """
        steps = self._data["steps"]
        return None if steps is None or steps.get("links") is None else link_cycles(steps)

    def __repr__(self) -> str:
        lines = [self.estimate.title(), *("  " + line for line in text_table(self.summary(), left=(0, 1)))]
        if reason := self._data["program"]["reason"]:
            lines += ["", reason]
        shown = self._data["insights"][:_SHOWN]
        if shown:
            lines += ["", *(f"* {insight['title']}" for insight in shown)]
        if self.path is not None:
            lines += ["", f"saved as {self.path}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        summary = html_table([(self.estimate.title(), ""), *self.summary()], left=(0, 1))
        reason = self._data["program"]["reason"]
        text = f"<pre>{_html.escape(reason)}</pre>" if reason else ""
        items = "".join(f"<li>{_html.escape(i['title'])}</li>" for i in self._data["insights"][:_SHOWN])
        return f"<div>{summary}{text}{f'<ul>{items}</ul>' if items else ''}{self._link()}</div>"


class ReportComparison(_Saved):
    """Two reports side by side, as :meth:`Report.compare` returns them.

    Attributes:
        first: the report that the differences are from.
        second: the report that they lead to.
        path: where the comparison was saved last, or None.

    Examples:
        >>> import jax.numpy as jnp, jax_ipu
        >>> one, two = (jax_ipu.report(jnp.sin, jnp.ones(64), target=chip) for chip in ("ipu2:4", "bow:4"))
        >>> both = one.compare(two)
        >>> both.first.estimate.target, both.second.estimate.target
        ('ipu2:4', 'bow:4')
    """

    def __init__(self, first: Report, second: Report) -> None:
        self.first, self.second = first, second
        self.path: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """The data of both reports, and the difference of each number of the estimate (second - first).

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> sorted(report.compare(report).as_dict())
            ['difference', 'first', 'format', 'second', 'version']
        """
        return {
            "format": f"{FORMAT} comparison",
            "version": VERSION,
            "first": self.first.as_dict(),
            "second": self.second.as_dict(),
            "difference": self.difference(),
        }

    def difference(self) -> dict[str, float]:
        """By how much each number of the second estimate is larger; without those that one of them lacks.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.compare(report).difference()["cycles"]
            0
        """
        one, two = self.first._data["estimate"], self.second._data["estimate"]
        return {
            name: two[name] - one[name]
            for name in one
            if _is_number(one[name]) and _is_number(two.get(name)) and name != "num_ipus"
        }

    def _page(self) -> str:
        return html.page(self.first._data, self.second._data)

    def table(self) -> list[tuple[str, str, str]]:
        """A header, and a row for each number of a summary.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> report = jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4")
            >>> report.compare(report).table()[1]
            ('fits', 'yes', 'yes')
        """
        one, two = dict(self.first.summary()), dict(self.second.summary())
        rows = [("", self.first.estimate.title(), self.second.estimate.title())]
        return rows + [(name, one.get(name, ""), two.get(name, "")) for name in {**one, **two}]

    def __repr__(self) -> str:
        return "\n".join(text_table(self.table(), left=range(3)))

    def _repr_html_(self) -> str:
        return f"<div>{html_table(self.table(), left=range(3))}{self._link()}</div>"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
