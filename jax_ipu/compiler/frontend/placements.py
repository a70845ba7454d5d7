"""Keeps what a program puts into a memory there while XLA's partitioner splits it.

XLA's CPU compiler refuses some of JAX's custom calls for this and drops the others. An optimization barrier is kept and
has the sharding of its operand, so the placements are barriers while the program is partitioned.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.ir import PLACEMENT, PLACEMENT_KIND

_CALL, _BARRIER = "stablehlo.custom_call", "stablehlo.optimization_barrier"
_FRONTEND = "mhlo.frontend_attributes"
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")


def hide(module: mlir.Module) -> None:
    """Makes the placements barriers, in place."""
    with module.context:
        for call in _all(module, _CALL):
            if call.attributes["call_target_name"].value == PLACEMENT:
                kept = (_FRONTEND, *_SHARDINGS)
                _replace(call, _BARRIER, {name: call.attributes[name] for name in kept if name in call.attributes})


def show(module: mlir.Module) -> None:
    """Makes the barriers of the partitioned module the placements that they were, in place."""
    with module.context:
        for barrier in _all(module, _BARRIER):
            frontend: Any = barrier.attributes[_FRONTEND] if _FRONTEND in barrier.attributes else {}
            if PLACEMENT_KIND in frontend:
                kind = {PLACEMENT_KIND: frontend[PLACEMENT_KIND]}
                target = {"call_target_name": mlir.StringAttr.get(PLACEMENT)}
                _replace(barrier, _CALL, target | {_FRONTEND: mlir.DictAttr.get(kind)})


def _all(module: mlir.Module, name: str) -> list[Any]:
    return [op.operation for op in nested_ops(module.operation) if op.operation.name == name]


def _replace(op: Any, name: str, attributes: dict[str, Any]) -> None:
    with op.location, mlir.InsertionPoint(op):
        made = mlir.Operation.create(name, [op.results[0].type], list(op.operands), attributes)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
