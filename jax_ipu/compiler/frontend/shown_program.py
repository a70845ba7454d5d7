"""The optimised program that PJRT shows: the legalised module, with all-reduces combined as the passes did.

A call stands where a large constant is: programs are shown without them, as XLA prints them.
"""

from __future__ import annotations

import io
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.large_constants import LargeConstants
from jax_ipu.compiler.ir import Module

_SHARDING = "sdy.sharding"
# The target of the call that stands where a large constant is.
ELIDED = "ipu_large_constant"


def shown_program(module: Module, constants: LargeConstants) -> bytes:
    """MLIR bytecode, with the names and source lines of the operations. Rewrites `module.source`.

    Shardings of a program with a single partition are left out, and the elements of large constants.
    """
    source = module.source
    _elide_constants(module, constants)
    with source.context:
        for together in module.combined:
            _combine(together)
    if module.num_partitions == 1:
        _drop_shardings(source)
    buffer = io.BytesIO()
    source.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _elide_constants(module: Module, constants: LargeConstants) -> None:
    for operation in module.large_constants:
        if not constants.is_large(operation):
            continue
        result = operation.results[0]
        call = mlir.Operation.create(
            "stablehlo.custom_call",
            results=[result.type],
            attributes={"call_target_name": mlir.StringAttr.get(ELIDED, module.source.context)},
            loc=operation.location,
            ip=mlir.InsertionPoint(operation),
        )
        result.replace_all_uses_with(call.results[0])
        operation.erase()


def _drop_shardings(source: Any) -> None:
    for op in list(source.body.operations):
        if op.OPERATION_NAME == "sdy.mesh":
            op.operation.erase()
        elif op.OPERATION_NAME == "func.func":
            for attributes in ("arg_attrs", "res_attrs"):
                if attributes in op.attributes:
                    kept = [_without_sharding(entry) for entry in op.attributes[attributes]]
                    op.attributes[attributes] = mlir.ArrayAttr.get(kept, source.context)


def _without_sharding(attributes: Any) -> Any:
    if _SHARDING not in attributes:
        return attributes
    return mlir.DictAttr.get({a.name: a.attr for a in attributes if a.name != _SHARDING}, attributes.context)


def _combine(together: list[Any]) -> None:
    """Puts one all-reduce in the place of the last; operations that need results of the others move behind it.

    Does nothing where one needs another through operations that the passes have removed.
    """
    *_, last = together = sorted(together, key=lambda op: _position(op))
    dependent = {result for op in together for result in op.results}
    moved: list[Any] = []
    for view in list(last.block.operations)[_position(together[0]) : _position(last) + 1]:
        operation = view.operation
        if operation in together:
            if not dependent.isdisjoint(operation.operands):
                return
        elif not dependent.isdisjoint(_operands(operation)):
            dependent.update(operation.results)
            moved.append(operation)
    operands = [operand for op in together for operand in op.operands]
    results = [result for op in together for result in op.results]
    combined = mlir.Operation.create(
        last.name,
        results=[result.type for result in results],
        operands=operands,
        attributes={key: last.attributes[key] for key in last.attributes.keys()},
        regions=1,
        loc=last.location,
        ip=mlir.InsertionPoint(last),
    )
    last.regions[0].blocks[0].append_to(combined.regions[0])
    for operation in reversed(moved):
        operation.move_after(combined)
    for result, value in zip(results, combined.results, strict=True):
        result.replace_all_uses_with(value)
    for operation in together:
        operation.erase()


def _position(operation: Any) -> int:
    return [view.operation for view in operation.block.operations].index(operation)


def _operands(operation: Any) -> set[Any]:
    """The values that `operation` and the operations in its regions read."""
    found: set[Any] = set()

    def visit(inner: mlir.Operation) -> mlir.WalkResult:
        found.update(inner.operands)
        return mlir.WalkResult.ADVANCE

    operation.walk(visit)
    return found
