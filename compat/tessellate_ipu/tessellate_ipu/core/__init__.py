"""Arrays on tiles, vertices and their descriptions."""

from jax_ipu.tile import ipu_cycle_count, ipu_cycle_count_overhead, ipu_hw_cycle_count
from tessellate_ipu.core.tile_array import *  # noqa: F403
from tessellate_ipu.core.tile_common_utils import from_ipu_type_to_numpy_dtype, make_ipu_shaped_array
from tessellate_ipu.core.tile_interpreter import *  # noqa: F403
from tessellate_ipu.core.tile_interpreter_primitives import *  # noqa: F403
from tessellate_ipu.core.tile_interpreter_vertex_utils import *  # noqa: F403

__all__ = [  # noqa: F405
    "from_ipu_type_to_numpy_dtype",
    "ipu_cycle_count",
    "ipu_cycle_count_overhead",
    "ipu_hw_cycle_count",
    "make_ipu_shaped_array",
    *(name for name in globals() if name.startswith(("Ipu", "Tile", "tile_", "make_", "primitive_", "from_", "get_"))),
    *("create_ipu_tile_primitive", "create_ipu_tile_primitive_v2", "declare_ipu_tile_primitive"),
    "register_ipu_tile_primitive",
]
