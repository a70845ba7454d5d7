"""Descriptions of vertices, and what a primitive has."""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.tiles import has_batching_rule, has_reference
from jax_ipu.tile import make_ipu_vertex_name_templated as _templated
from jax_ipu.tile import primitive_clone
from tessellate_ipu.core.equations import (
    IpuTileMapEquation,
    IpuVertexIOType,
    make_ipu_vertex_attributes,
    make_ipu_vertex_constant_info,
    make_ipu_vertex_in_info,
    make_ipu_vertex_inout_info,
    make_ipu_vertex_inputs,
    make_ipu_vertex_io_info,
    make_ipu_vertex_out_info,
    make_ipu_vertex_outputs,
)
from tessellate_ipu.core.tile_common_utils import IpuType, from_numpy_dtype_to_ipu_type, get_ipu_type_name

__all__ = [
    "IpuTileMapEquation",
    "IpuType",
    "IpuVertexIOType",
    "from_numpy_dtype_to_ipu_type",
    "get_ipu_type_name",
    "make_ipu_vertex_attributes",
    "make_ipu_vertex_constant_info",
    "make_ipu_vertex_in_info",
    "make_ipu_vertex_inout_info",
    "make_ipu_vertex_inputs",
    "make_ipu_vertex_io_info",
    "make_ipu_vertex_name_templated",
    "make_ipu_vertex_out_info",
    "make_ipu_vertex_outputs",
    "primitive_clone",
    "primitive_has_batching",
    "primitive_has_impl",
    "primitive_num_inout_alias_args",
]


def make_ipu_vertex_name_templated(basename: str, *args: Any) -> str:
    """The name of a vertex class with template arguments."""
    return _templated(basename, *(get_ipu_type_name(a) if isinstance(a, IpuType) else a for a in args))


def primitive_has_impl(primitive: Any) -> bool:
    """Whether the primitive has a reference implementation."""
    return has_reference(primitive)


def primitive_has_batching(primitive: Any) -> bool:
    """Whether `jax.vmap` knows the primitive."""
    return has_batching_rule(primitive)


def primitive_num_inout_alias_args(primitive: Any) -> int:
    """How many operands the primitive writes over, where it says so."""
    return getattr(primitive, "num_inout_alias_args", 0)
