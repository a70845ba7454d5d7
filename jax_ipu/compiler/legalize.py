"""Brings a module to what the importer reads, by jaxlib's own passes: CHLO, dynamic shapes and quantised types.

Asynchronous operations become synchronous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError

_DYNAMIC = frozenset(
    (
        *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad"),
        *("dynamic_reshape", "get_dimension_size", "real_dynamic_slice", "set_dimension_size"),
    )
)
_QUANTIZED = frozenset(("uniform_quantize", "uniform_dequantize"))


def load_quantized_types(context: mlir.Context) -> None:
    """Makes `!quant` types readable: jaxlib loads their dialect only as a dependency of this pass."""
    _run(mlir.Module.parse("module {}", context), "vhlo-legalize-to-stablehlo")


# Unsigned storage of quantised types, and its range if that is not all of it.
_UNSIGNED = re.compile(r"(?<=!quant\.uniform<)u(4|8|16)(<[-\d:]+>)?(?=:)")


def run(module: mlir.Module) -> mlir.Module:
    """The module in the ops that the importer reads: rewritten in place where it can be.

    Costs one walk when there is nothing to do. Shapes become static where they follow from constants and argument
    types; what stays dynamic is refused by the importer. Quantised arithmetic is, as StableHLO defines it, that of the
    dequantised values.
    """
    names = {op.operation.name for op in _nested_ops(module.operation)}
    if _short(names) & _QUANTIZED:
        module = _with_signed_storage(module)
        _run(module, "func.func(stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-quant-to-math)")
        names.add("chlo.")  # what the pass writes
        _make_broadcasts_explicit(module)
    if "stablehlo.async_start" in names:
        _make_synchronous(module)
    if any(name.startswith("chlo.") for name in names):
        if "chlo.scan" in names:
            prepare_scans(module)
        _run(module, "func.func(chlo-legalize-to-stablehlo)")
        names = {op.operation.name for op in _nested_ops(module.operation)}
    if _short(names) & _DYNAMIC or _has_dynamic_types(module):
        # Refining shapes folds what the next pass needs as constants, and the reverse.
        for _ in range(2):
            _run(module, "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism)")
    return module


def _with_signed_storage(module: mlir.Module) -> mlir.Module:
    """The pass that expands quantised types stores unsigned integers in signed ones of the same width: wider ones."""
    text = str(module.operation.get_asm(enable_debug_info=True))
    if not _UNSIGNED.search(text):
        return module
    with module.context:
        return mlir.Module.parse(_UNSIGNED.sub(_signed, text))


def _signed(storage: re.Match[str]) -> str:
    bits = int(storage[1])
    return f"i{2 * bits}{storage[2] or f'<0:{2**bits - 1}>'}"


def _make_broadcasts_explicit(module: mlir.Module) -> None:
    """Scales along a dimension that is not the last one: the pass that expands CHLO's broadcasts takes no others."""
    for op in [op.operation for op in _nested_ops(module.operation) if op.operation.name.startswith("chlo.broadcast_")]:
        if "broadcast_dimensions" not in op.attributes:
            continue
        shape, dims = mlir.RankedTensorType(op.results[0].type).shape, op.attributes["broadcast_dimensions"]
        for i, operand in enumerate(op.operands):
            kind = mlir.RankedTensorType(operand.type)
            if kind.rank and kind.rank < len(shape):
                with module.context, op.location, mlir.InsertionPoint(op):
                    whole = mlir.RankedTensorType.get(shape, kind.element_type)
                    op.operands[i] = stablehlo.broadcast_in_dim(whole, operand, dims)
        if all(mlir.RankedTensorType(o.type).rank == len(shape) for o in op.operands):
            del op.attributes["broadcast_dimensions"]


def for_partitioner(module: mlir.Module) -> mlir.Module:
    """The module without what XLA has no way back from: loops in place of scans of CHLO, floats for quantised types."""
    composites, quantized = [], []

    def find(operation: Any) -> mlir.WalkResult:
        if operation.name == "stablehlo.composite" and operation.attributes["name"].value == "chlo.scan":
            composites.append(operation)
        if operation.name.removeprefix("stablehlo.") in _QUANTIZED:
            quantized.append(operation)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(find)
    for scan in composites:
        with module.context, scan.location, mlir.InsertionPoint(scan):
            types, callee = [r.type for r in scan.results], {"callee": scan.attributes["decomposition"]}
            call = mlir.Operation.create("func.call", types, list(scan.operands), callee)
        for result, value in zip(scan.results, call.results, strict=True):
            result.replace_all_uses_with(value)
        scan.erase()
    if not prepare_scans(module) and not composites and not quantized:
        return module
    module = run(module)
    for op in [op.operation for op in _nested_ops(module.operation)]:
        if op.name == "stablehlo.real_dynamic_slice":
            _make_sizes_static(op)
    return module


def _make_sizes_static(slice_op: Any) -> None:
    """The slice at a position of a scan, in its expansion: within bounds, with steps of 1."""
    operand, starts, _, _ = slice_op.operands
    sizes = mlir.RankedTensorType(slice_op.results[0].type).shape
    with slice_op.context, slice_op.location, mlir.InsertionPoint(slice_op):
        scalar = mlir.RankedTensorType.get((), mlir.RankedTensorType(starts.type).element_type)
        first = [stablehlo.reshape(scalar, stablehlo.slice(starts, [d], [d + 1], [1])) for d in range(len(sizes))]
        slice_op.results[0].replace_all_uses_with(stablehlo.dynamic_slice(operand, first, sizes))
    slice_op.erase()


def prepare_scans(module: mlir.Module) -> bool:
    """Rewrites reverse scans of CHLO and those over no position, which the pass that expands scans gets wrong.

    It takes no notice of is_reverse: what a reverse scan reads and writes is reversed instead. Returns whether there
    are scans, of either direction.
    """
    scans: list[Any] = []

    def find(operation: Any) -> mlir.WalkResult:
        if operation.name == "chlo.scan":
            scans.append(operation)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(find)
    for scan in scans:
        attributes = scan.attributes
        if mlir.RankedTensorType(scan.operands[0].type).shape[attributes["dimension"].value] == 0:
            _replace_empty_scan(scan)
            continue
        if "is_reverse" not in attributes or not attributes["is_reverse"].value:
            continue
        dims, location = [attributes["dimension"].value], scan.location
        with module.context, location:
            for i in range(attributes["operandSegmentSizes"][0]):
                with mlir.InsertionPoint(scan):
                    scan.operands[i] = stablehlo.reverse(scan.operands[i], dims)
            for i in range(attributes["resultSegmentSizes"][0]):
                with mlir.InsertionPoint.after(scan):
                    forward = stablehlo.reverse(scan.results[i], dims)
                scan.results[i].replace_all_uses_except(forward, forward.owner.operation)
            attributes["is_reverse"] = mlir.BoolAttr.get(False)
    return bool(scans)


def _replace_empty_scan(scan: Any) -> None:
    """What is carried passes through, and the other results have no elements."""
    carried = list(scan.operands)[scan.attributes["operandSegmentSizes"][0] :]
    outputs = scan.attributes["resultSegmentSizes"][0]
    with scan.context, scan.location, mlir.InsertionPoint(scan):
        nothing = [
            stablehlo.constant(mlir.Attribute.parse(f"dense<> : {r.type}")) for r in list(scan.results)[:outputs]
        ]
    for result, value in zip(scan.results, [*nothing, *carried], strict=True):
        result.replace_all_uses_with(value)
    scan.erase()


def _make_synchronous(module: mlir.Module) -> None:
    """What an async_start begins is done there: the order of a program's steps is the compiler's choice anyway."""
    starts = [op.operation for op in _nested_ops(module.operation) if op.operation.name == "stablehlo.async_start"]
    for start in starts:
        dones = [use.owner.operation for use in start.results[0].uses]
        if any(done.name != "stablehlo.async_done" for done in dones):
            continue  # the importer says that it is not supported
        block = start.regions[0].blocks[0]
        for argument, operand in zip(block.arguments, start.operands, strict=True):
            argument.replace_all_uses_with(operand)
        *body, terminator = [op.operation for op in block.operations]
        results = list(terminator.operands)
        for op in body:
            op.move_before(start)
        for done in dones:
            for result, value in zip(done.results, results, strict=True):
                result.replace_all_uses_with(value)
            done.erase()
        start.erase()


def _short(names: set[str]) -> set[str]:
    return {name.removeprefix("stablehlo.") for name in names}


def _run(module: mlir.Module, passes: str) -> None:
    stablehlo.register_stablehlo_passes()
    try:
        with module.context:
            PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except Exception as error:
        raise CompileError(f"the program is not valid StableHLO: {error}", INVALID_ARGUMENT) from error


def _has_dynamic_types(module: mlir.Module) -> bool:
    functions = (f.operation for f in module.body.operations if f.operation.name == "func.func")
    return any("?" in str(f.attributes["function_type"]) for f in functions)


def _nested_ops(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op
                yield from _nested_ops(op.operation)
