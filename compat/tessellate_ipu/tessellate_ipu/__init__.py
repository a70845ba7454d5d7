"""The names of TessellateIPU, on `jax_ipu.tile`.

Modules that are not here, as `tessellate_ipu.linalg`, are those of TessellateIPU's own source, where the Python path
has it.
"""

from pkgutil import extend_path

from jax_ipu.tile import (
    TileShardedArray,
    create_ipu_tile_primitive,
    declare_ipu_tile_primitive,
    ipu_cycle_count,
    is_ipu_model,
    tile_constant_replicated,
    tile_constant_sharded,
    tile_data_barrier,
    tile_gather,
    tile_put_replicated,
    tile_put_sharded,
)
from tessellate_ipu import core, lax, utils
from tessellate_ipu.core import tile_map

__path__ = extend_path(__path__, __name__)
__version__ = "0.2.0"
__all__ = [
    "TileShardedArray",
    "core",
    "create_ipu_tile_primitive",
    "declare_ipu_tile_primitive",
    "ipu_cycle_count",
    "is_ipu_model",
    "lax",
    "tile_constant_replicated",
    "tile_constant_sharded",
    "tile_data_barrier",
    "tile_gather",
    "tile_map",
    "tile_put_replicated",
    "tile_put_sharded",
    "utils",
]
