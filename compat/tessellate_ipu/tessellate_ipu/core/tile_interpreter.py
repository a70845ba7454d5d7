"""Primitives that have vertices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax_ipu import tile
from jax_ipu.tile import create_ipu_tile_primitive, create_ipu_tile_primitive_v2, declare_ipu_tile_primitive
from jax_ipu.tile.vertex import translations
from tessellate_ipu.core.equations import IpuTileMapEquation

__all__ = [
    "create_ipu_tile_primitive",
    "create_ipu_tile_primitive_v2",
    "declare_ipu_tile_primitive",
    "get_ipu_tile_primitive_translation",
    "register_ipu_tile_primitive",
    "tile_map",
]
_equations: dict[Any, Callable[..., IpuTileMapEquation]] = {}


def register_ipu_tile_primitive(primitive: Any, translation: Callable[..., IpuTileMapEquation]) -> None:
    """Gives a JAX primitive a vertex: (primitive, tiles, types of the operands, attributes) -> `IpuTileMapEquation`.

    Raises:
        KeyError: the primitive has a vertex.
    """
    _equations[primitive] = translation
    tile.register_ipu_tile_primitive(primitive, lambda *call: translation(*call).vertex())


def get_ipu_tile_primitive_translation(pname: str) -> tuple[Any, Any]:
    """The primitive of this name, and its translation. Raises KeyError if none has a vertex."""
    known = {primitive.name: primitive for primitive in translations()}
    primitive = known[pname]
    return primitive, _equations.get(primitive, translations()[primitive])


def tile_map(primitive: Any, *args: Any, **attributes: Any) -> Any:
    """Runs the vertex of a primitive on each tile; without a primitive, gives back the arrays."""
    if primitive is None:
        return args
    given = {name: value for name, value in attributes.items() if not name.startswith("ipu_")}
    return tile.tile_map(primitive, *args, **given)
