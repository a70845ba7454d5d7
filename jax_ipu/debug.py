"""Looking into the compiler: where the tensors of a jitted function live on the tiles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from jax_ipu.compiler.tile_map import Placement
from jax_ipu.compiler.tile_map import tile_map as _tile_map
from jax_ipu.config import config

__all__ = ["Placement", "tile_map"]


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
        donate_argnums: as of ``jax.jit``; ignored when ``fun`` is jitted already.
        temporaries: how many of the largest intermediate values to list.
        file: where to print; standard output by default.

    Returns:
        The printed lines as :class:`Placement`, in elements.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support.
    """
    import jax

    jitted: Any = fun if hasattr(fun, "lower") else jax.jit(fun, donate_argnums=donate_argnums)
    lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=("ipu",))
    module = lowered.compiler_ir("stablehlo")
    target = config.model_version + (f":{config.model_num_tiles}" if config.model_num_tiles else "")
    placements = _tile_map(module.operation.get_asm(enable_debug_info=True).encode(), "mlir", b"", target, temporaries)
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
