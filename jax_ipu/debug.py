"""Compiler reports: where the tensors of a jitted function live, and what its operations cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from jax_ipu.compiler.estimates import OperationCost
from jax_ipu.compiler.tables import text_table
from jax_ipu.compiler.tile_map import Placement
from jax_ipu.compiler.tile_map import tile_map as _tile_map
from jax_ipu.estimates import configured_target, estimate

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
    from jax_ipu.integration.programs import program_of

    program = program_of(fun, args, kwargs, donate_argnums)
    placements = _tile_map(program.mlir, "mlir", program.options, configured_target(), temporaries)
    rows = [("tensor", "type", "tiles", "elements per tile", "why")]
    for p in placements:
        elements = str(p.max_elements) if p.min_elements == p.max_elements else f"{p.min_elements}-{p.max_elements}"
        tiles = f"{p.first_tile}-{p.last_tile} ({p.tiles})" if p.tiles > 1 else str(p.first_tile)
        rows.append((p.name, f"{p.dtype}[{','.join(map(str, p.shape))}]", tiles, elements, p.reason))
    print("\n".join(text_table(rows, left=range(5))), file=file or sys.stdout)
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

    The same numbers as those of :func:`jax_ipu.estimate`, which returns them as one object.

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
    result = estimate(fun, *args, donate_argnums=donate_argnums, **kwargs)
    if not result.fits:
        raise RuntimeError(result.reason)
    out = file or sys.stdout
    rows = result.table(top)
    print("\n".join(text_table(rows, left=(0, len(rows[0]) - 1))), file=out)
    print(f"{len(result.operations)} operations; one call takes {result.cycles} cycles", file=out)
    if result.unknown_trip_counts:
        print(f"loops with an unknown trip count, counted as one trip each: {result.unknown_trip_counts}", file=out)
    return list(result.operations)
