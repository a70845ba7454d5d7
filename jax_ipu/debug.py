"""Compiler reports: where the tensors of a jitted function live, and what its operations cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from jax_ipu.compiler.profile import OperationCost
from jax_ipu.compiler.profile import profile as _profile
from jax_ipu.compiler.tile_map import Placement
from jax_ipu.compiler.tile_map import tile_map as _tile_map
from jax_ipu.config import config

__all__ = ["OperationCost", "Placement", "profile", "tile_map"]


def tile_map(
    fun: Callable[..., Any],
    *args: Any,
    donate_argnums: int | tuple[int, ...] = (),
    temporaries: int = 8,
    file: TextIO | None = None,
    **kwargs: Any,
) -> list[Placement]:
    """Prints where each argument and the largest temporaries of ``jax.jit(fun)`` live on the IPU, and why.

    Args:
        fun: a function that ``jax.jit`` can trace, or a jitted one.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place. Nothing is run.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        temporaries: how many of the largest intermediate values to list.
        file: where to print; standard output by default.

    Returns:
        The printed lines as :class:`Placement`, in elements.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support.
    """
    placements = _tile_map(_program(fun, args, kwargs, donate_argnums), "mlir", b"", _target(), temporaries)
    rows = [("tensor", "type", "tiles", "elements per tile", "why")]
    for p in placements:
        elements = str(p.max_elements) if p.min_elements == p.max_elements else f"{p.min_elements}-{p.max_elements}"
        tiles = f"{p.first_tile}-{p.last_tile} ({p.tiles})" if p.tiles > 1 else str(p.first_tile)
        rows.append((p.name, f"{p.dtype}[{','.join(map(str, p.shape))}]", tiles, elements, p.reason))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)]
        print("  ".join([*cells, row[4]]), file=file or sys.stdout)
    return placements


def profile(
    fun: Callable[..., Any],
    *args: Any,
    donate_argnums: int | tuple[int, ...] = (),
    top: int = 20,
    file: TextIO | None = None,
    **kwargs: Any,
) -> list[OperationCost]:
    """Prints the modelled cost of the operations of ``jax.jit(fun)`` on the IPU, in descending order.

    Cycles are those of the slowest tile; docs/model_accuracy.md says how accurate they are. A loop whose trip count is
    known at run time only counts as one trip, and every branch of a conditional is listed.

    Args:
        fun: a function that ``jax.jit`` can trace, or a jitted one.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place. Nothing is run.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        top: how many operations to print.
        file: where to print; standard output by default.

    Returns:
        All operations, the most expensive first, including those that are not printed.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support.
        RuntimeError: it does not fit into the memory of the tiles.
    """
    result = _profile(_program(fun, args, kwargs, donate_argnums), "mlir", b"", _target())
    total = sum(row.cycles for row in result.operations)
    rows: list[tuple[str, ...]] = [
        ("operation", "runs", "cycles", "share", "compute", "exchange", "sync", "exchange bytes", "source line")
    ]
    for r in result.operations[:top]:
        share = f"{100 * r.cycles / total:.1f} %" if total else ""
        parts = map(str, (r.compute_cycles, r.exchange_cycles, r.sync_cycles, r.exchange_bytes))
        rows.append((r.operation, str(r.executions), str(r.cycles), share, *parts, r.source_line))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    out = file or sys.stdout
    for operation, *numbers, source_line in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        print("  ".join([operation.ljust(widths[0]), *cells, source_line]).rstrip(), file=out)
    print(f"{len(result.operations)} operations; one call takes {result.cycles} cycles", file=out)
    if result.unknown_trip_counts:
        print(f"loops with an unknown trip count, counted as one trip each: {result.unknown_trip_counts}", file=out)
    return result.operations


def _program(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], donate_argnums: int | tuple[int, ...]
) -> bytes:
    """StableHLO text of the function, with source lines."""
    import jax

    jitted: Any = fun if hasattr(fun, "lower") else jax.jit(fun, donate_argnums=donate_argnums)
    lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=("ipu",))
    return str(lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)).encode()


def _target() -> str:
    return config.model_version + (f":{config.model_num_tiles}" if config.model_num_tiles else "")
