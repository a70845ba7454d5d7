"""What a program costs on an IPU, and whether it fits, without running it: the data of jax_ipu.estimate."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler import accuracy, capacity
from jax_ipu.compiler.api import attempt, parse_target, reported
from jax_ipu.compiler.build import BuiltProgram
from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.contexts import inside
from jax_ipu.compiler.frontend.hlo import HLO_FORMATS, parse_hlo
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.programs import ParsedProgram
from jax_ipu.compiler.ir import size_in_bytes
from jax_ipu.compiler.options import compile_options
from jax_ipu.compiler.pipeline import Change
from jax_ipu.compiler.tables import Row, bytes_text, html_table, percent_text, seconds_text, text_table

OperationCost = _ipu.OperationCost

# The fields of an operation in the dictionary of an estimate.
OPERATION_FIELDS = (
    *("name", "operation", "kind", "codelets", "source_line", "scope", "executions"),
    *("cycles", "compute_cycles", "exchange_cycles", "sync_cycles", "exchange_bytes", "link_bytes", "code_bytes"),
    *("flops", "tiles"),
)
# The fields that follow from the others.
_DERIVED_FIELDS = frozenset(("operation", "source_line", "cycles"))
_SHOWN = 5


@dataclass(frozen=True, repr=False)
class Estimate:
    """What one call of a program costs on an IPU of `target`, and whether it fits.

    Of a program over several IPUs all numbers are those of one of them. Cycles are tile clock cycles of the slowest
    tile, all executions together; docs/model_accuracy.md says how accurate they are. What is not known is None: of a
    program whose variables alone do not fit, nothing else is planned.

    Attributes:
        name: the name of the program, "jit_" and that of the function.
        target: the chip and its number of tiles, e.g. "bow:1472".
        num_ipus: for how many IPUs the program is.
        fits: whether it fits into the memory of the tiles. If not, the numbers are those of the attempt that was
            nearest to fitting.
        reason: None, or why it does not fit, and what helps.
        savings: None, or what was done so that the program fits, such as repeated blocks as functions or smaller
            buffers, and the cycles with and without it. Both are those of plans.
        tile_memory_bytes: bytes of memory that each tile has.
        cycles: of one call, without the host link; of a conditional, those of the most expensive branch. The same as
            ``jax_ipu.counters(...).cycles`` counts for a run, if `unknown_trip_counts` is 0.
        compute_cycles: the part of `cycles` in compute sets.
        exchange_cycles: the part of `cycles` in exchanges between tiles and between IPUs.
        sync_cycles: the part of `cycles` in which tiles wait for each other.
        unknown_trip_counts: how many loops have a trip count that is only known at run time. Each is counted as one
            trip.
        seconds: `cycles` at the clock of the chip.
        host_bytes_in: bytes that the host sends for a call whose arguments are all new, except donated arguments that
            results replace: these are on the tiles already.
        host_bytes_out: bytes of the results that the host receives in a call.
        kept_bytes: the part of `host_bytes_in` that is not sent if a call gets the same arrays as the one before.
        state_bytes: bytes of the donated arguments that results replace: sent once, and kept on the tiles.
        host_seconds: how long the host link takes for `host_bytes_in` and `host_bytes_out`.
        streaming_bytes_in, streaming_bytes_out, streaming_seconds: the part of the three above that is of values in
            host memory (`pinned_host`) which the program reads and writes row by row, or puts there itself: these cross
            the link to the streaming memory.
        overlapped_seconds: the part of `host_seconds` in which the IPU computes: what is read ahead (`ipu_io_tiles`).
        link_bytes: bytes received from other IPUs.
        flops: arithmetic operations, as XLA's cost analysis counts them: of any type, without transcendental functions.
        utilisation: `flops` as a part of what the matrix units can do in `seconds` with f16 operands: 0 to 1. With f32
            operands they reach a quarter.
        fullest_tile_bytes: bytes on the fullest tile at its fullest moment.
        total_bytes: bytes on all tiles, each at its own fullest moment.
        cycles_error: how far `cycles` may be off, as a part of them (docs/model_accuracy.md); None where no part of
            them was compared with anything.
        cycles_error_known: the part of `cycles` that `cycles_error` is of, 0 to 1.
        memory_error: how far `total_bytes` may be off, in the same way.
        memory_error_known: the part of `total_bytes` that `memory_error` is of, 0 to 1.
        operations: the operations in falling order of cycles; all branches of conditionals.
        report: everything that the IPU model knows of the program; None where it came to no report.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
        >>> estimate = jax_ipu.estimate(jnp.dot, x, x, target="ipu2")
        >>> estimate.target, estimate.flops, estimate.host_bytes_out
        ('ipu2:1472', 33554432.0, 262144)
        >>> estimate.cycles == estimate.compute_cycles + estimate.exchange_cycles + estimate.sync_cycles
        True
        >>> [operation.operation for operation in estimate.operations]
        ['dot_general']

        A program that does not fit is no error:

        >>> large = jax.ShapeDtypeStruct((20000, 20000), jnp.float32)
        >>> estimate = jax_ipu.estimate(jnp.sin, large, target="ipu2")
        >>> estimate.fits, estimate.cycles
        (False, None)
    """

    name: str
    target: str
    num_ipus: int
    fits: bool
    reason: str | None
    tile_memory_bytes: int
    cycles: int | None = None
    compute_cycles: int | None = None
    exchange_cycles: int | None = None
    sync_cycles: int | None = None
    unknown_trip_counts: int = 0
    seconds: float | None = None
    host_bytes_in: int | None = None
    host_bytes_out: int | None = None
    kept_bytes: int | None = None
    state_bytes: int | None = None
    host_seconds: float | None = None
    streaming_bytes_in: int | None = None
    streaming_bytes_out: int | None = None
    streaming_seconds: float | None = None
    overlapped_seconds: float | None = None
    link_bytes: int | None = None
    flops: float | None = None
    utilisation: float | None = None
    fullest_tile_bytes: int | None = None
    total_bytes: int | None = None
    savings: str | None = None
    cycles_error: float | None = None
    cycles_error_known: float | None = None
    memory_error: float | None = None
    memory_error_known: float | None = None
    operations: tuple[OperationCost, ...] = ()
    report: _ipu.DeviceReport | None = field(default=None, compare=False)

    @property
    def call_seconds(self) -> float | None:
        """How long a call with new arguments takes: `seconds` and `host_seconds`, without `overlapped_seconds`.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> estimate = jax_ipu.estimate(jnp.sin, jnp.ones(8))
            >>> estimate.call_seconds == estimate.seconds + estimate.host_seconds
            True
        """
        if self.seconds is None or self.host_seconds is None:
            return None
        return self.seconds + self.host_seconds - (self.overlapped_seconds or 0.0)

    def as_dict(self) -> dict[str, Any]:
        """All attributes but `report`, and the operations as dictionaries: what ``json.dumps`` takes.

        Examples:
            >>> import json, jax.numpy as jnp, jax_ipu
            >>> estimate = jax_ipu.estimate(jnp.sin, jnp.ones(8))
            >>> json.loads(json.dumps(estimate.as_dict()))["cycles"] == estimate.cycles
            True
        """
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "report"}
        values["operations"] = [
            {name: list(v) if isinstance(v := getattr(row, name), tuple) else v for name in OPERATION_FIELDS}
            for row in self.operations
        ]
        return values

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Estimate:
        """The estimate whose :meth:`as_dict` returned `values`, without its `report`.

        Raises:
            TypeError: `values` is no such dictionary.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> estimate = jax_ipu.estimate(jnp.sin, jnp.ones(8))
            >>> jax_ipu.Estimate.from_dict(estimate.as_dict()) == estimate
            True
        """
        if "operations" not in values:
            raise TypeError("this is not the dictionary of an estimate: it has no operations")
        operations = tuple(
            OperationCost(**{name: row[name] for name in OPERATION_FIELDS if name not in _DERIVED_FIELDS})
            for row in values["operations"]
        )
        return Estimate(**{**values, "operations": operations})

    def summary(self, link_cycles: int = 0) -> list[tuple[str, str]]:
        """The most important numbers, as pairs of a label and a text.

        Args:
            link_cycles: the part of `exchange_cycles` over IPU-Links, if it shall have a number of its own: that of
                ``Report.link_cycles``.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> jax_ipu.estimate(jnp.sin, jnp.ones(8)).summary()[0]
            ('fits', 'yes')
        """
        rows = [("fits", "yes" if self.fits else "no")]
        if self.savings is not None:
            rows.append(("made to fit", self.savings))
        if self.cycles is not None and self.seconds is not None:
            parts = [("compute", self.compute_cycles), ("exchange", (self.exchange_cycles or 0) - link_cycles)]
            parts += [("IPU-Links", link_cycles)] if link_cycles else []
            parts += [("sync", self.sync_cycles)]
            shares = ", ".join(f"{name} {percent_text(part or 0, self.cycles) or '0 %'}" for name, part in parts)
            unknown = self.unknown_trip_counts
            more = f"; loops counted as one trip: {unknown}" if unknown else ""
            rows.append(("cycles", f"{self.cycles:,} ({shares}{more})"))
            rows.append(("time", seconds_text(self.seconds)))
        if self.host_seconds is not None and self.host_bytes_in is not None and self.host_bytes_out is not None:
            kept = f", of which {bytes_text(self.kept_bytes)} only for new arrays" if self.kept_bytes else ""
            moved = f"{bytes_text(self.host_bytes_in)} in{kept}, {bytes_text(self.host_bytes_out)} out"
            rows.append(("host link", f"{seconds_text(self.host_seconds)} ({moved})"))
            if streaming := self.streaming_seconds:
                moved = (
                    f"{bytes_text(self.streaming_bytes_in or 0)} in, {bytes_text(self.streaming_bytes_out or 0)} out"
                )
                rows.append(("streaming memory", f"{seconds_text(streaming)} of that ({moved})"))
            if beside := self.overlapped_seconds:
                rows.append(("overlap", f"{seconds_text(beside)} of that beside the program"))
        if self.flops is not None and self.utilisation is not None:
            rows.append(("FLOPs", f"{self.flops:,.0f}, {100 * self.utilisation:.2g} % of the peak for f16"))
        if self.fullest_tile_bytes is not None:
            used = percent_text(self.fullest_tile_bytes, self.tile_memory_bytes)
            limit = bytes_text(self.tile_memory_bytes)
            rows.append(("fullest tile", f"{bytes_text(self.fullest_tile_bytes)} of {limit} ({used})"))
        if self.total_bytes is not None:
            rows.append(("all tiles", bytes_text(self.total_bytes)))
        bands = (
            ("cycles", self.cycles_error, self.cycles_error_known),
            ("memory", self.memory_error, self.memory_error_known),
        )
        errors = [f"{name} {accuracy.Band(error, known)}" for name, error, known in bands if known is not None]
        if errors:
            rows.append(("expected error", "; ".join(errors)))
        return rows

    def table(self, top: int | None = None) -> list[Row]:
        """The operations as rows of text, after a header; `top`: only the first so many.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> jax_ipu.estimate(jnp.sin, jnp.ones(8)).table()[0][:3]
            ('operation', 'runs', 'cycles')
        """
        total = sum(row.cycles for row in self.operations)
        header = (
            "operation",
            "runs",
            "cycles",
            "share",
            "compute",
            "exchange",
            "sync",
            "exchange bytes",
            "source line",
        )
        rows: list[Row] = [header]
        for r in self.operations[:top]:
            numbers = (r.compute_cycles, r.exchange_cycles, r.sync_cycles, r.exchange_bytes)
            share = percent_text(r.cycles, total)
            rows.append((r.operation, str(r.executions), str(r.cycles), share, *map(str, numbers), r.source_line))
        return rows

    def title(self) -> str:
        """What the estimate is of.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> jax_ipu.estimate(jnp.sin, jnp.ones(8), target="bow").title()
            'jit_sin on bow:1472'
        """
        ipus = f"{self.num_ipus} IPUs of " if self.num_ipus > 1 else ""
        return f"{self.name} on {ipus}{self.target}"

    def __repr__(self) -> str:
        lines = [self.title(), *("  " + line for line in text_table(self.summary(), left=(0, 1)))]
        if self.reason is not None:
            lines += ["", self.reason]
        if self.operations:
            lines += ["", *text_table(self.table(_SHOWN), left=(0, len(self.table(0)[0]) - 1))]
            if len(self.operations) > _SHOWN:
                lines.append(f"and {len(self.operations) - _SHOWN} more operations")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.table(4 * _SHOWN)
        reason = f"<pre>{html.escape(self.reason)}</pre>" if self.reason is not None else ""
        operations = html_table(rows, left=(0, len(rows[0]) - 1)) if self.operations else ""
        summary = html_table([(self.title(), ""), *self.summary()], left=(0, 1))
        return f"<div>{summary}{reason}{operations}</div>"


@inside(reported)
def estimate(program: bytes, format: str, options: bytes, target: str, **changes: Any) -> Estimate:
    """The estimate of the program that `compile` makes; arguments and errors as for that.

    Args:
        changes: fields of `Options` with other values.

    Raises:
        CompileError: as `compile`, but not where a program does not fit: `Estimate.fits` says so.
    """
    compilation = compilation_of(program, format, options, target, **changes)
    result = of_compilation(compilation)
    if compilation.built is not None:
        compilation.built.module.release()
    return result


@inside(reported)
def compilation_of(
    program: bytes,
    format: str,
    options: bytes,
    target: str,
    detailed: bool = False,
    change: Change | None = None,
    **changes: Any,
) -> Compilation:
    """What `compile` does until the executable.

    Args:
        program, format, options, target: as for `compile`.
        detailed: whether there will be a profile of the program.
        change: makes another program of it, as for `attempt`.
        changes: fields of `Options` with other values.

    Raises:
        CompileError: as `compile`, but not where a program does not fit.
    """
    settings = compile_options(options)._replace(executable="", **changes)
    return attempt(parsed(program, format, options), settings, parse_target(target), detailed, change)


def parsed(program: bytes, format: str, options: bytes) -> ParsedProgram:
    """The program as it is read: MLIR, or HLO."""
    return (parse_hlo if format in HLO_FORMATS else parse)(program, format, options)


def of_compilation(compilation: Compilation) -> Estimate:
    """The estimate of a program whose compilation has ended."""
    ipu, error = compilation.target, compilation.error
    if error is None:
        assert compilation.built is not None
        report = compilation.built.compiled.report()
        return _of_report(compilation.name, compilation.num_ipus, ipu, report, compilation.built, None)
    if isinstance(error, _ipu.OutOfMemory):
        return _of_report(compilation.name, compilation.num_ipus, ipu, error.report, None, str(error))
    # These exist at the same time; nothing else is known.
    values = error.values if isinstance(error, capacity.TooLarge) else []
    least = sum(map(size_in_bytes, values)) or None
    return Estimate(
        name=compilation.name,
        target=f"{ipu.version}:{ipu.num_tiles}",
        num_ipus=compilation.num_ipus,
        fits=False,
        reason=str(error),
        tile_memory_bytes=ipu.bytes_per_tile,
        fullest_tile_bytes=least and math.ceil(least / ipu.num_tiles),
        total_bytes=least,
    )


def _of_report(
    name: str,
    num_ipus: int,
    ipu: _ipu.Target,
    report: _ipu.DeviceReport,
    built: BuiltProgram | None,
    reason: str | None,
) -> Estimate:
    clock = ipu.tile_clock_frequency
    planned = not report.peak.variables_only
    kept, state = _stored_bytes(built)
    seconds = report.cycles.total / clock
    # Each of these is written by a program of its own before the call.
    host_cycles = report.host_link_cycles + ipu.host_link_cycles(len(kept), sum(kept))
    of_cycles = accuracy.cycles_band((row.kind, row.cycles) for row in report.operations)
    of_memory = accuracy.memory_band(_memory_parts(report))
    return Estimate(
        name=name,
        target=f"{ipu.version}:{ipu.num_tiles}",
        num_ipus=num_ipus,
        fits=reason is None,
        reason=reason,
        cycles=report.cycles.total if planned else None,
        compute_cycles=report.cycles.compute if planned else None,
        exchange_cycles=report.cycles.exchange if planned else None,
        sync_cycles=report.cycles.sync if planned else None,
        unknown_trip_counts=len(report.loops),
        seconds=seconds if planned else None,
        host_bytes_in=report.stream_in_bytes + sum(kept) if planned else None,
        host_bytes_out=report.stream_out_bytes if planned else None,
        kept_bytes=sum(kept) if built is not None else None,
        state_bytes=state if built is not None else None,
        host_seconds=host_cycles / clock if planned else None,
        streaming_bytes_in=report.streaming_in_bytes if planned else None,
        streaming_bytes_out=report.streaming_out_bytes if planned else None,
        streaming_seconds=report.streaming_cycles / clock if planned else None,
        overlapped_seconds=report.overlapped_link_cycles / clock if planned else None,
        link_bytes=report.link_bytes if planned else None,
        flops=report.flops if planned else None,
        utilisation=(report.flops / (seconds * ipu.peak_flops) if seconds else 0.0) if planned else None,
        fullest_tile_bytes=report.max_tile_bytes,
        tile_memory_bytes=ipu.bytes_per_tile,
        total_bytes=report.total_bytes,
        savings=None if built is None or built.savings is None else str(built.savings),
        cycles_error=of_cycles.error if planned else None,
        cycles_error_known=of_cycles.known if planned else None,
        memory_error=of_memory.error if planned else None,
        memory_error_known=of_memory.known if planned else None,
        operations=tuple(sorted(report.operations, key=lambda row: -row.cycles)),
        report=report,
    )


def _memory_parts(report: _ipu.DeviceReport) -> dict[str, int]:
    """The bytes on all tiles, each at its fullest moment, by parts as a report names them."""
    return {
        "variables": report.variable_bytes,
        "constants": report.constant_bytes,
        "temporaries": report.temporary_bytes,
        "exchange_buffers": report.exchange_buffer_bytes,
        "vertex_state": report.vertex_bytes,
        "code": report.code_bytes,
    }


def _stored_bytes(built: BuiltProgram | None) -> tuple[list[int], int]:
    """The bytes of each argument that is kept in SRAM, and those of all state together."""
    if built is None:
        return [], 0
    stored = [a for a in built.signature.arguments if a.index in built.lowered.state_programs]
    kept = [size_in_bytes(a.value) for a in stored if not a.resident]
    return kept, sum(size_in_bytes(a.value) for a in stored if a.resident)
