"""Rewrites what XLA's partitioner does not split correctly, before it splits a program.

Each rule names the defect, as seen in jaxlib 0.10: a wrong value, an invalid module, or the end of XLA's process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.frontend.depth import nested_ops

_WINDOWS = ("window_dimensions", "window_strides")
_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


def run(module: mlir.Module) -> None:
    """Applies all rules, in place."""
    with module.context:
        for op in [op.operation for op in nested_ops(module.operation)]:
            rule = _RULES.get(op.name)
            if rule is not None and all(_is_static(value) for value in (*op.operands, *op.results)):
                with op.location, mlir.InsertionPoint(op):
                    rule(op)


def simplify(module: mlir.Module) -> None:
    """Drops limits of positions that the slices of a partitioned module have themselves, in place."""
    with module.context:
        for op in [op.operation for op in nested_ops(module.operation)]:
            if op.name == "stablehlo.dynamic_slice":
                _drop_clamps(op, 1, op.results[0].type.shape)
            elif op.name == "stablehlo.dynamic_update_slice":
                _drop_clamps(op, 2, op.operands[1].type.shape)


def _is_static(value: Any) -> bool:
    return isinstance(value.type, mlir.RankedTensorType) and value.type.has_static_shape


def _replace(op: Any, value: Any) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _concatenate(op: Any) -> None:
    """Without empty operands, with which the parts of the others do not make the result."""
    operands = [operand for operand in op.operands if 0 not in operand.type.shape]
    if operands and len(operands) < len(op.operands):
        attributes = dict(op.attributes.items())
        made = mlir.Operation.create(op.name, [op.results[0].type], operands, attributes)
        _replace(op, made.results[0])


def _scalar_constraint(op: Any) -> None:
    """None for scalars of an op's region: JAX 0.12 constrains them, and a region with one is not what XLA knows."""
    value = op.operands[0]
    if not value.type.shape and op.parent.name not in ("func.func", "sdy.manual_computation"):
        _replace(op, value)


def _pad(op: Any) -> None:
    """Negative padding beside interior padding as a slice behind: XLA ends its process."""
    low, high, interior = (list(op.attributes[name]) for name in _PADDING)
    if not any(inner and min(a, b) < 0 for a, b, inner in zip(low, high, interior, strict=True)):
        return
    source, value = op.operands
    padded: Any = stablehlo.pad(source, value, [max(n, 0) for n in low], [max(n, 0) for n in high], interior)
    begins = [max(-n, 0) for n in low]
    ends = [size - max(-n, 0) for size, n in zip(padded.type.shape, high, strict=True)]
    _replace(op, stablehlo.slice(padded, begins, ends, [1] * len(low)))


def _gather(op: Any) -> None:
    _widen(op, 1)


def _scatter(op: Any) -> None:
    _widen(op, len(op.operands) // 2)


def _widen(op: Any, position: int) -> None:
    """Gives an operand of indices 32 bits where it has fewer: XLA ends its process."""
    index = op.operands[position]
    element: Any = mlir.IntegerType(index.type.element_type)
    if element.width < 32:
        make = mlir.IntegerType.get_unsigned if element.is_unsigned else mlir.IntegerType.get_signless
        op.operands[position] = stablehlo.convert(mlir.RankedTensorType.get(index.type.shape, make(32)), index)


def _dynamic_slice(op: Any) -> None:
    _keep_within(op, 1, op.results[0].type.shape)


def _dynamic_update_slice(op: Any) -> None:
    _keep_within(op, 2, op.operands[1].type.shape)


def _keep_within(op: Any, first: int, part: list[int]) -> None:
    """Moves the positions, the operands from `first` on, into the operand: XLA splits what lies beyond it wrongly."""
    for position, (size, taken) in enumerate(zip(op.operands[0].type.shape, part, strict=True), first):
        _widen(op, position)
        op.operands[position] = _clamped(op.operands[position], size - taken)


def _clamped(start: Any, last: int) -> Any:
    """A scalar index of at least 0 and at most `last`."""
    scalar = mlir.RankedTensorType(start.type)

    def constant(value: int) -> Any:
        attribute = mlir.IntegerAttr.get(scalar.element_type, value)
        return stablehlo.constant(mlir.DenseElementsAttr.get_splat(scalar, attribute))

    known = _number(start)
    if known is not None:
        return start if 0 <= known <= last else constant(min(max(known, 0), last))
    return stablehlo.clamp(constant(0), start, constant(last))


def _number(value: Any) -> int | None:
    """The number that a scalar is, if it is a constant."""
    owner: Any = value.owner
    if isinstance(owner, mlir.Block) or owner.operation.name != "stablehlo.constant":
        return None
    return int(np.asarray(owner.operation.attributes["value"]).item())


def _drop_clamps(op: Any, first: int, part: list[int]) -> None:
    for position, (size, taken) in enumerate(zip(op.operands[0].type.shape, part, strict=True), first):
        owner: Any = op.operands[position].owner
        if isinstance(owner, mlir.Block) or owner.operation.name != "stablehlo.clamp":
            continue
        low, start, high = owner.operation.operands
        bounds = _number(low), _number(high)
        if bounds[0] == 0 and bounds[1] is not None and bounds[1] >= size - taken:
            op.operands[position] = start


def _select_and_scatter(op: Any) -> None:
    """Keeps dimensions whole whose windows are two steps or longer: XLA loses what windows of other parts add."""
    ones = [1] * op.operands[0].type.rank
    windows, strides = (list(op.attributes[name]) if name in op.attributes else ones for name in _WINDOWS)
    whole = [window > 1 and window >= 2 * stride for window, stride in zip(windows, strides, strict=True)]
    if not any(whole):
        return
    mesh = _mesh_of(op)
    for position in range(2):
        op.operands[position] = _unsplit(op.operands[position], whole, mesh)
    users = [(use.owner.operation, use.operand_number) for use in op.results[0].uses]
    with mlir.InsertionPoint.after(op):
        result = _unsplit(op.results[0], whole, mesh)
    for user, position in users:
        user.operands[position] = result


def _mesh_of(op: Any) -> str:
    """The name of a mesh of Shardy in the module of an op; empty in one of GSPMD."""
    module = op
    while module.parent is not None:
        module = module.parent.operation
    ops = [op.operation for op in module.regions[0].blocks[0].operations]
    return next((op.attributes["sym_name"].value for op in ops if op.name == "sdy.mesh"), "")


def _unsplit(value: Any, whole: list[bool], mesh: str) -> Any:
    """The value with the `whole` dimensions on every device, and the others as the partitioner decides."""
    if not mesh:
        open_dims = ",".join(str(dim) for dim, closed in enumerate(whole) if not closed)
        attributes: dict[str, mlir.Attribute] = {
            "call_target_name": mlir.StringAttr.get("Sharding"),
            "backend_config": mlir.StringAttr.get(f"unspecified_dims=[{open_dims}]"),
            "mhlo.sharding": mlir.StringAttr.get("{replicated}"),
        }
        return mlir.Operation.create("stablehlo.custom_call", [value.type], [value], attributes).results[0]
    dims = ", ".join("{}" if closed else "{?}" for closed in whole)
    sharding = mlir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{dims}]>")
    return mlir.Operation.create("sdy.sharding_constraint", [value.type], [value], {"sharding": sharding}).results[0]


_RULES: dict[str, Callable[[Any], None]] = {
    "sdy.sharding_constraint": _scalar_constraint,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
