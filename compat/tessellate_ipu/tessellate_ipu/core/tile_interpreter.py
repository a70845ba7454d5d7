"""Primitives that have vertices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax_ipu import tile
from jax_ipu.tile.vertex import translations
from tessellate_ipu.core.equations import IpuTileMapEquation

_equations: dict[Any, Callable[..., IpuTileMapEquation]] = {}


def register_ipu_tile_primitive(primitive: Any, translation: Callable[..., IpuTileMapEquation]) -> None:
    """Gives a JAX primitive a vertex: (primitive, tiles, types of the operands, attributes) -> `IpuTileMapEquation`.

    Raises:
        KeyError: the primitive has a vertex.
    """
    tile.register_ipu_tile_primitive(primitive, lambda *call: translation(*call).vertex())
    _equations[primitive] = translation


def get_ipu_tile_primitive_translation(pname: str) -> tuple[Any, Any]:
    """The primitive of this name, and its translation. Raises KeyError if none has a vertex."""
    known = {primitive.name: primitive for primitive in translations()}
    primitive = known[pname]
    return primitive, _equations.get(primitive, translations()[primitive])


def tile_map(primitive: Any, *args: Any, **attributes: Any) -> Any:
    """Runs the vertex of a primitive on each tile; without a primitive, gives back the arrays.

    Attributes named `ipu_...` choose one of PopLibs' vertices in TessellateIPU. Here each primitive has one vertex, so
    they have no effect.
    """
    if primitive is None:
        return args
    given = {name: value for name, value in attributes.items() if not name.startswith("ipu_")}
    return tile.tile_map(primitive, *args, **given)
