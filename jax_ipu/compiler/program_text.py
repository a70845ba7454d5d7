"""The optimised program as PJRT shows it."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir

_SHARDING = "sdy.sharding"


def program_text(module: Any) -> str:
    """The text of a program for one device; `module` loses its sharding, which says nothing there.

    JAX turns this text into HLO several times for each compilation, and Shardy attributes alone would cost it more than
    the rest of a small program.
    """
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
