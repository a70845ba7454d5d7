"""Rewrites scans of CHLO that jaxlib's pass expands wrongly: reverse ones, and those over no elements."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo


def prepare_scans(module: mlir.Module) -> bool:
    """Rewrites the scans in place; returns whether the module has scans at all.

    The pass ignores is_reverse, so the operands and results of reverse scans are reversed instead.
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
    """Replaces a scan over no elements: carried values pass through, the other results are empty."""
    carried = list(scan.operands)[scan.attributes["operandSegmentSizes"][0] :]
    outputs = scan.attributes["resultSegmentSizes"][0]
    with scan.context, scan.location, mlir.InsertionPoint(scan):
        nothing = [
            stablehlo.constant(mlir.Attribute.parse(f"dense<> : {r.type}")) for r in list(scan.results)[:outputs]
        ]
    for result, value in zip(scan.results, [*nothing, *carried], strict=True):
        result.replace_all_uses_with(value)
    scan.erase()
