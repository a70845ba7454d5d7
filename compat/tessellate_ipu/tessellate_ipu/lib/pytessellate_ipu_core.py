"""Descriptions of vertices as plain data."""

from tessellate_ipu.core.equations import (
    IpuTensorSlice,
    IpuTileMapEquation,
    IpuVertexAttributeF32,
    IpuVertexAttributeI32,
    IpuVertexIOInfo,
    IpuVertexIOType,
    TileDataBarrierParams,
)
from tessellate_ipu.core.tile_common_utils import Base64Data, IpuShapedArray, IpuType

__all__ = [
    "Base64Data",
    "IpuShapedArray",
    "IpuTensorSlice",
    "IpuTileMapEquation",
    "IpuType",
    "IpuVertexAttributeF32",
    "IpuVertexAttributeI32",
    "IpuVertexIOInfo",
    "IpuVertexIOType",
    "TileDataBarrierParams",
]
