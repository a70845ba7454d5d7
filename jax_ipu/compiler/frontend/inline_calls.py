"""Replaces calls in an MLIR module by the bodies of the functions, as XLA does before it optimises a program."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir

# Attributes of composites and of custom calls.
_NAMES_FUNCTIONS = {"decomposition", "called_computations"}


def run(module: mlir.Module) -> None:
    """Leaves no call of a function of `module`; private functions that nothing names any more are removed."""
    functions = {f.operation.attributes["sym_name"].value: f.operation for f in _functions(module)}
    called: set[str] = set()
    for function in functions.values():
        while calls := _calls(function):
            for call in calls:
                callee = call.attributes["callee"].value
                called.add(callee)
                _inline(call, functions[callee])
    for name in called - _named(module):
        functions[name].erase()


def _functions(module: mlir.Module) -> list[Any]:
    return [view for view in module.body.operations if view.operation.name == "func.func"]


def _calls(function: Any) -> list[Any]:
    found: list[Any] = []

    def visit(operation: mlir.Operation) -> mlir.WalkResult:
        if operation.name == "func.call":
            found.append(operation)
        return mlir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _named(module: mlir.Module) -> set[str]:
    """The functions that operations other than calls name."""
    names: set[str] = set()

    def visit(operation: mlir.Operation) -> mlir.WalkResult:
        for key in _NAMES_FUNCTIONS & set(operation.attributes.keys()):
            attribute: Any = operation.attributes[key]
            listed: Any = attribute if isinstance(attribute, mlir.ArrayAttr) else (attribute,)
            names.update(symbol.value for symbol in listed)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names


def _inline(call: Any, function: Any) -> None:
    block = function.regions[0].blocks[0]
    mapping: dict[Any, Any] = dict(zip(block.arguments, call.operands, strict=True))
    *body, terminator = [view.operation for view in block.operations]
    for original in body:
        copy = original.clone(mlir.InsertionPoint(call))
        copy.walk(lambda inner: _replace_operands(inner, mapping))
        mapping.update(zip(original.results, copy.results, strict=True))
    for result, value in zip(call.results, terminator.operands, strict=True):
        result.replace_all_uses_with(mapping[value])
    call.erase()


def _replace_operands(operation: Any, mapping: dict[Any, Any]) -> mlir.WalkResult:
    for i, operand in enumerate(operation.operands):
        if operand in mapping:
            operation.operands[i] = mapping[operand]
    return mlir.WalkResult.ADVANCE
