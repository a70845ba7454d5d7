"""The vertices that PopLibs has for reductions."""

from typing import Any

from tessellate_ipu.core.tile_common_utils import get_ipu_type_name

_POPLIBS = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min", "and": "LogicalAnd", "or": "LogicalOr"}


def make_continuous_reduce_vertex_fullname(reduce_p: Any, dtype: Any, outdtype: Any, isupdate: bool) -> str:
    """The name of PopLibs' vertex that reduces one vector."""
    operation = _POPLIBS[reduce_p.name.removeprefix("reduce_")]
    types = f"{get_ipu_type_name(dtype)},{get_ipu_type_name(outdtype)}"
    return f"popops::ContinuousReduce<popops::Reduce{operation},{types},{str(isupdate).lower()}>"
