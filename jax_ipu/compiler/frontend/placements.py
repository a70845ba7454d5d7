"""Keeps what a program puts into a memory there while XLA's partitioner splits it.

XLA's CPU compiler refuses some of JAX's custom calls for this and drops the others. An optimization barrier is kept and
has the sharding of its operand, so the placements are barriers while the program is partitioned. Those into host memory
have their operand twice: XLA takes barriers for equal that differ in frontend attributes alone.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.ir import HOST_MEMORY, PLACEMENT, PLACEMENT_KIND

_CALL, _BARRIER = "stablehlo.custom_call", "stablehlo.optimization_barrier"
_FRONTEND = "mhlo.frontend_attributes"


def hide(module: mlir.Module) -> None:
    """Makes the placements barriers, in place."""
    with module.context:
        for call in _all(module, _CALL):
            if call.attributes["call_target_name"].value == PLACEMENT and _FRONTEND in call.attributes:
                frontend: Any = call.attributes[_FRONTEND]
                times = 2 if frontend[PLACEMENT_KIND].value == HOST_MEMORY else 1
                _replace(call, _BARRIER, [call.operands[0]] * times, {_FRONTEND: frontend})


def show(module: mlir.Module) -> None:
    """Makes the barriers of the partitioned module the placements that they were, in place."""
    with module.context:
        for barrier in _all(module, _BARRIER):
            frontend: Any = barrier.attributes[_FRONTEND] if _FRONTEND in barrier.attributes else {}
            if PLACEMENT_KIND in frontend:
                kind = {PLACEMENT_KIND: frontend[PLACEMENT_KIND]}
                target = {"call_target_name": mlir.StringAttr.get(PLACEMENT)}
                _replace(barrier, _CALL, [barrier.operands[0]], target | {_FRONTEND: mlir.DictAttr.get(kind)})


def _all(module: mlir.Module, name: str) -> list[Any]:
    return [op.operation for op in nested_ops(module.operation) if op.operation.name == name]


def _replace(op: Any, name: str, operands: list[Any], attributes: dict[str, Any]) -> None:
    with op.location, mlir.InsertionPoint(op):
        types = [operand.type for operand in operands]
        made = mlir.Operation.create(name, types, operands, attributes)
    for result in op.results:
        result.replace_all_uses_with(made.results[0])
    op.erase()
