"""Compiler reports: where the tensors of a jitted function live, and what its operations cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from jax_ipu.compiler.estimates import OPERATION_FIELDS, Estimate, OperationCost
from jax_ipu.compiler.tables import Row, html_table, text_table
from jax_ipu.compiler.tile_map import Placement
from jax_ipu.compiler.tile_map import tile_map as _tile_map
from jax_ipu.estimates import configured_target, estimate
from jax_ipu.integration.tracebacks import boundary

__all__ = ["OperationCost", "Placement", "Profile", "TileMap", "profile", "tile_map"]


class TileMap(list[Placement]):
    """What :func:`tile_map` returns: a list of placements; a notebook shows it as a table.

    Examples:
        >>> import io, jax.numpy as jnp, jax_ipu
        >>> placements = jax_ipu.debug.tile_map(jnp.sin, jnp.ones(64), file=io.StringIO())
        >>> len(placements), placements[0].shape
        (2, (64,))
    """

    def as_dict(self) -> dict[str, Any]:
        """{"placements": [...]}, each a dictionary of the fields of :class:`Placement`: what ``json.dumps`` takes.

        Examples:
            >>> import io, jax.numpy as jnp, jax_ipu
            >>> placements = jax_ipu.debug.tile_map(jnp.sin, jnp.ones(64), file=io.StringIO())
            >>> placements.as_dict()["placements"][0]["shape"]
            [64]
        """
        return {"placements": [{**p._asdict(), "shape": list(p.shape)} for p in self]}

    def table(self) -> list[Row]:
        """A header and a row for each tensor.

        Examples:
            >>> import io, jax.numpy as jnp, jax_ipu
            >>> jax_ipu.debug.tile_map(jnp.sin, jnp.ones(64), file=io.StringIO()).table()[0][:3]
            ('tensor', 'type', 'tiles')
        """
        rows: list[Row] = [("tensor", "type", "tiles", "elements per tile", "why")]
        for p in self:
            few, most = p.min_elements, p.max_elements
            tiles = f"{p.first_tile}-{p.last_tile} ({p.tiles})" if p.tiles > 1 else str(p.first_tile)
            shape = ",".join(map(str, p.shape))
            rows.append((p.name, f"{p.dtype}[{shape}]", tiles, str(most) if few == most else f"{few}-{most}", p.reason))
        return rows

    def _repr_html_(self) -> str:
        return html_table(self.table(), left=range(5))


class Profile(list[OperationCost]):
    """What :func:`profile` returns: a list of operations; a notebook shows it as a table.

    Attributes:
        estimate: the estimate that the operations are from.

    Examples:
        >>> import io, jax.numpy as jnp, jax_ipu
        >>> operations = jax_ipu.debug.profile(jnp.sin, jnp.ones(64), file=io.StringIO())
        >>> len(operations), operations.estimate.fits
        (1, True)
    """

    def __init__(self, operations: Iterable[OperationCost], estimate: Estimate) -> None:
        super().__init__(operations)
        self.estimate = estimate

    def as_dict(self) -> dict[str, Any]:
        """The program's name, target and cycles, and its operations with the fields of an estimate's, in this order.

        Examples:
            >>> import io, jax.numpy as jnp, jax_ipu
            >>> jax_ipu.debug.profile(jnp.sin, jnp.ones(64), file=io.StringIO()).as_dict()["name"]
            'jit_sin'
        """
        e = self.estimate
        known: dict[str, Any] = {"name": e.name, "target": e.target, "num_ipus": e.num_ipus, "cycles": e.cycles}
        values = ({name: getattr(row, name) for name in OPERATION_FIELDS} for row in self)
        known["operations"] = [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in values]
        return known

    def table(self, top: int | None = None) -> list[Row]:
        """A header and a row for each operation, or for the first `top`.

        Examples:
            >>> import io, jax.numpy as jnp, jax_ipu
            >>> jax_ipu.debug.profile(jnp.sin, jnp.ones(64), file=io.StringIO()).table()[0][:3]
            ('operation', 'runs', 'cycles')
        """
        return self.estimate.table(top)

    def _repr_html_(self) -> str:
        rows = self.table()
        return html_table(rows, left=(0, len(rows[0]) - 1))


@boundary
def tile_map(
    fun: Callable[..., Any],
    *args: Any,
    donate_argnums: int | tuple[int, ...] = (),
    temporaries: int = 8,
    file: TextIO | None = None,
    **kwargs: Any,
) -> TileMap:
    """Prints where each argument and the largest temporaries of ``jax.jit(fun)`` live on the IPU, and why.

    Args:
        fun: a function that ``jax.jit`` can trace, or a jitted one.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place. Nothing is run.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        temporaries: how many of the largest intermediate values to list.
        file: where to print; standard output by default.

    Returns:
        The printed lines as a list of :class:`Placement`, in elements.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support.

    Examples:
        >>> import io, jax, jax.numpy as jnp, jax_ipu
        >>> x, w = jax.ShapeDtypeStruct((32, 64), jnp.float32), jax.ShapeDtypeStruct((64, 16), jnp.float32)
        >>> placements = jax_ipu.debug.tile_map(jnp.dot, x, w, file=io.StringIO())
        >>> [placement.shape for placement in placements]
        [(32, 64), (64, 16), (32, 16)]
        >>> placements[0].reason.split(" at ")[0]
        'left side of dot_general'
    """
    from jax_ipu.integration.programs import program_of

    program = program_of(fun, args, kwargs, donate_argnums)
    placements = TileMap(_tile_map(program.mlir, "mlir", program.options, configured_target(), temporaries))
    print("\n".join(text_table(placements.table(), left=range(5))), file=file or sys.stdout)
    return placements


@boundary
def profile(
    fun: Callable[..., Any],
    *args: Any,
    donate_argnums: int | tuple[int, ...] = (),
    top: int = 20,
    file: TextIO | None = None,
    **kwargs: Any,
) -> Profile:
    """Prints the modelled cost of the operations of ``jax.jit(fun)`` on the IPU, in descending order.

    The same numbers as those of :func:`jax_ipu.estimate`, which returns them as one object.

    Args:
        fun: a function that ``jax.jit`` can trace, or a jitted one.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place. Nothing is run.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        top: how many operations to print.
        file: where to print; standard output by default.

    Returns:
        A list of all operations, the most expensive first, including those that are not printed.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support.
        RuntimeError: it does not fit into the memory of the tiles.

    Examples:
        >>> import io, jax, jax.numpy as jnp, jax_ipu
        >>> x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
        >>> operations = jax_ipu.debug.profile(lambda x: jnp.tanh(x @ x), x, file=io.StringIO())
        >>> sorted(operation.operation for operation in operations)
        ['dot_general', 'map']
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
    return Profile(result.operations, result)
