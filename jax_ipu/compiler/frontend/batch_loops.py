"""Lets each IPU leave a loop over a sharded batch as soon as its own part of the batch is finished.

XLA's partitioner adds an all-reduce to each step, by which all IPUs agree on the condition. In a marked loop the
entries of the batch are independent, and a reduction over the batch only decides whether to continue: the all-reduces
are removed.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.passmanager import PassManager

# The frontend attribute that marks a loop; XLA keeps frontend attributes.
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
# The bodies of all-reduces of conditions and of trip counts.
_CONDITIONS = frozenset(f"stablehlo.{name}" for name in ("and", "or", "minimum", "maximum"))


def separate(module: mlir.Module) -> None:
    """Removes the all-reduces from marked loops of a partitioned module that have no other collectives."""
    loops: list[mlir.Operation] = []

    def find(operation: mlir.Operation) -> mlir.WalkResult:
        if operation.name == _LOOP and _ATTRIBUTES in operation.attributes:
            attributes: Any = operation.attributes[_ATTRIBUTES]
            if MARK in attributes:
                loops.append(operation)
        return mlir.WalkResult.ADVANCE

    with module.context:
        # The walk visits inner loops first.
        module.operation.walk(find)
        for loop in loops:
            _separate(loop)
        # The conversion from HLO leaves an unused function for each region of a loop, with the all-reduces in it.
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
    """Whether the all-reduce combines one integer or one boolean."""
    if len(operation.operands) != 1:
        return False
    type_: Any = operation.operands[0].type
    body = operation.regions[0].blocks[0].operations
    return (
        isinstance(type_.element_type, mlir.IntegerType) and not type_.shape and body[0].operation.name in _CONDITIONS
    )
