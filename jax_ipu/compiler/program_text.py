"""The optimised program as PJRT shows it."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir

_SHARDING = "sdy.sharding"


def program_text(module: Any, num_partitions: int) -> str:
    """The text of a program; that of a single partition loses its sharding, which says nothing there."""
    if num_partitions > 1:
        return str(module)
    for op in list(module.body.operations):
        if op.OPERATION_NAME == "sdy.mesh":
            op.operation.erase()
        elif op.OPERATION_NAME == "func.func":
            for attributes in ("arg_attrs", "res_attrs"):
                if attributes in op.attributes:
                    kept = [_without_sharding(entry) for entry in op.attributes[attributes]]
                    op.attributes[attributes] = mlir.ArrayAttr.get(kept, module.context)
    return str(module)


def _without_sharding(attributes: Any) -> Any:
    if _SHARDING not in attributes:
        return attributes
    return mlir.DictAttr.get({a.name: a.attr for a in attributes if a.name != _SHARDING}, attributes.context)
