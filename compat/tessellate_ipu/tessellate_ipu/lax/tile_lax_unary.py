"""Copies, and the vertices that PopLibs has for elementwise primitives of one operand."""

from typing import Any

from jax_ipu.tile import tile_copy
from tessellate_ipu.core.equations import IpuTileMapEquation, make_ipu_vertex_inputs, make_ipu_vertex_outputs
from tessellate_ipu.core.tile_common_utils import get_ipu_type_name

__all__ = ["ipu_unary_primitive_translation", "make_unary1d_vertex_fullname", "tile_copy"]

# Primitive -> popops::expr::UnaryOpType, where the names differ.
_POPLIBS = {
    "abs": "ABSOLUTE",
    "cbrt": "CBRT",
    "exp": "EXPONENT",
    "expm1": "EXPONENT_MINUS_ONE",
    "is_finite": "IS_FINITE",
    "log": "LOGARITHM",
    "log1p": "LOGARITHM_ONE_PLUS",
    "neg": "NEGATE",
    "not": "BITWISE_NOT",
    "population_count": "POPCOUNT",
    "sign": "SIGNUM",
}


def make_unary1d_vertex_fullname(opname: str, dtype: Any, inplace: bool = False) -> str:
    """The name of PopLibs' vertex for an operation of `popops::expr::UnaryOpType`."""
    vertex = "popops::UnaryOp1DInPlace" if inplace else "popops::UnaryOp1D"
    return f"{vertex}<popops::expr::UnaryOpType::{opname},{get_ipu_type_name(dtype)}>"


def ipu_unary_primitive_translation(
    p: Any, tiles: tuple[int, ...], inavals: list[Any], attributes: dict[str, Any] | None = None
) -> IpuTileMapEquation:
    """PopLibs' vertex for a primitive of one operand. `tile_map` runs a codelet of jax_ipu's own."""
    (aval,) = inavals
    name = make_unary1d_vertex_fullname(_POPLIBS.get(p.name, p.name.upper()), aval.dtype)
    inputs, outputs = make_ipu_vertex_inputs({"in": aval}), make_ipu_vertex_outputs({"out": aval})
    return IpuTileMapEquation(name, p.name, tiles, inputs, outputs)
