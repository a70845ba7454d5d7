"""Replaces calls in an MLIR module by the bodies of the functions, as XLA does before it optimises a program."""

from __future__ import annotations

import graphlib
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError

# The attributes of composites and custom calls that name functions.
_NAMES_FUNCTIONS = {"decomposition", "called_computations"}


def run(module: mlir.Module) -> None:
    """Replaces all calls of functions of `module`, and removes functions that only calls named.

    The explicit list of calls allows chains of thousands of functions.
    """
    functions = {f.operation.attributes["sym_name"].value: f.operation for f in _functions(module)}
    calls = {name: _calls(function) for name, function in functions.items()}
    called = {call.attributes["callee"].value for found in calls.values() for call in found} - _named(module)
    for name in functions.keys() - called:
        pending = calls[name]
        while pending:
            call = pending.pop()
            pending += _inline(call, functions[call.attributes["callee"].value])
    for name in called:
        functions[name].erase()


def longest_chain(module: mlir.Module) -> int:
    """The number of functions in the longest chain of calls.

    Raises:
        CompileError: a function calls itself, directly or through others (INVALID_ARGUMENT).
    """
    functions = {f.operation.attributes["sym_name"].value: f.operation for f in _functions(module)}
    callees = {name: {c.attributes["callee"].value for c in _calls(f)} for name, f in functions.items()}
    depth: dict[str, int] = {}
    try:
        for name in graphlib.TopologicalSorter(callees).static_order():  # callees first
            depth[name] = 1 + max((depth[callee] for callee in callees.get(name, ())), default=0)
    except graphlib.CycleError as error:
        raise CompileError(f"called function {error.args[1][0]} is recursive", INVALID_ARGUMENT) from None
    return max(depth.values(), default=0)


def _functions(module: mlir.Module) -> list[Any]:
    return [view for view in module.body.operations if view.operation.name == "func.func"]


def _calls(operation: Any) -> list[Any]:
    """The calls in `operation`, including itself."""
    found: list[Any] = []

    def visit(inner: mlir.Operation) -> mlir.WalkResult:
        if inner.name == "func.call":
            found.append(inner)
        return mlir.WalkResult.ADVANCE

    operation.walk(visit)
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


def _inline(call: Any, function: Any) -> list[Any]:
    """Puts a copy of the body in the place of the call; returns the calls in the copy."""
    block = function.regions[0].blocks[0]
    mapping: dict[Any, Any] = dict(zip(block.arguments, call.operands, strict=True))
    *body, terminator = [view.operation for view in block.operations]
    calls: list[Any] = []
    for original in body:
        copy = original.clone(mlir.InsertionPoint(call))
        copy.walk(lambda inner: _replace_operands(inner, mapping))
        calls += _calls(copy)
        mapping.update(zip(original.results, copy.results, strict=True))
    for result, value in zip(call.results, terminator.operands, strict=True):
        result.replace_all_uses_with(mapping[value])
    call.erase()
    return calls


def _replace_operands(operation: Any, mapping: dict[Any, Any]) -> mlir.WalkResult:
    for i, operand in enumerate(operation.operands):
        if operand in mapping:
            operation.operands[i] = mapping[operand]
    return mlir.WalkResult.ADVANCE
