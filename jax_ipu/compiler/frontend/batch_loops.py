"""Loops over a batch that is split over IPUs: each IPU goes on for as long as its own part of the batch needs.

XLA's partitioner lets all devices agree on every condition, by an all-reduce in each step. A loop that is marked works
on every entry of its batch alone: what it reduces over the batch only says how long to go on.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.passmanager import PassManager

# Frontend attribute of the loops; XLA keeps it.
MARK = "ipu_entries_of_batch_are_independent"
_ATTRIBUTES = "mhlo.frontend_attributes"
_LOOP, _ALL_REDUCE, _CALL = "stablehlo.while", "stablehlo.all_reduce", "func.call"
_COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "reduce_scatter",
    )
)
# Reductions of conditions and of bounds of loops.
_CONDITIONS = frozenset(f"stablehlo.{name}" for name in ("and", "or", "minimum", "maximum"))


def separate(module: mlir.Module) -> None:
    """Takes the all-reduces out of marked loops, where these have no other collectives, in a partitioned module."""
    loops: list[mlir.Operation] = []

    def find(operation: mlir.Operation) -> mlir.WalkResult:
        if operation.name == _LOOP and _ATTRIBUTES in operation.attributes:
            attributes: Any = operation.attributes[_ATTRIBUTES]
            if MARK in attributes:
                loops.append(operation)
        return mlir.WalkResult.ADVANCE

    with module.context:
        # Inner loops come first.
        module.operation.walk(find)
        for loop in loops:
            _separate(loop)
        # Conversion from HLO leaves a function that nobody calls for every part of a loop, with its all-reduces.
        PassManager.parse("builtin.module(symbol-dce)").run(module.operation)


def _separate(loop: mlir.Operation) -> None:
    reductions: list[mlir.Operation] = []
    others: list[str] = []

    def visit(operation: mlir.Operation) -> mlir.WalkResult:
        if operation.name == _ALL_REDUCE and _is_condition(operation):
            reductions.append(operation)
        elif operation.name in (_ALL_REDUCE, _CALL) or operation.name in _COLLECTIVES:
            others.append(operation.name)
        return mlir.WalkResult.ADVANCE

    loop.walk(visit)
    if others:
        return
    for operation in reductions:
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()


def _is_condition(operation: mlir.Operation) -> bool:
    """Whether the all-reduce is of one integer or truth value."""
    if len(operation.operands) != 1:
        return False
    type_: Any = operation.operands[0].type
    body = operation.regions[0].blocks[0].operations
    return (
        isinstance(type_.element_type, mlir.IntegerType) and not type_.shape and body[0].operation.name in _CONDITIONS
    )
