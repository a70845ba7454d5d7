"""Lets XLA's partitioner split gradients of f16 pooling.

The partitioner splits `select_and_scatter` for f32 and bf16 only, and gathers whole operands of other types on every
IPU. So the op is made one of f32 between conversions before the program is partitioned, and one of f16 again after
that. Where an IPU needs rows of its neighbours, it stays one of f32.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.frontend.depth import nested_ops

_OP, _CONVERT, _RETURN = "stablehlo.select_and_scatter", "stablehlo.convert", "stablehlo.return"
# The frontend attribute of an op that was made one of f32; XLA keeps frontend attributes.
_MARK = "ipu_window_gradient_of_f16"
_ATTRIBUTES = "mhlo.frontend_attributes"


def widen(module: mlir.Module) -> None:
    """Makes each `select_and_scatter` of f16 one of f32, in place."""
    with module.context:
        for op in _ops(module, mlir.F16Type.get()):
            attributes = dict(op.attributes.items())
            known: Any = attributes.get(_ATTRIBUTES, ())
            attributes[_ATTRIBUTES] = mlir.DictAttr.get(
                {**{entry.name: entry.attr for entry in known}, _MARK: mlir.StringAttr.get("1")}
            )
            with op.location, mlir.InsertionPoint(op):
                wide = [_converted(operand, mlir.F32Type.get()) for operand in op.operands]
                result = _of_type(op, wide, mlir.F32Type.get(), attributes)
                op.results[0].replace_all_uses_with(_converted(result, mlir.F16Type.get()))
            op.erase()


def narrow(module: mlir.Module) -> None:
    """Makes what `widen` left in a partitioned module ops of f16 where their operands were converted from f16."""
    with module.context:
        half = mlir.F16Type.get()
        for op in _ops(module, mlir.F32Type.get()):
            known: Any = op.attributes[_ATTRIBUTES] if _ATTRIBUTES in op.attributes else ()
            if _MARK not in known:
                continue
            attributes = dict(op.attributes.items())
            attributes.pop(_ATTRIBUTES)
            others = {entry.name: entry.attr for entry in known if entry.name != _MARK}
            if others:
                attributes[_ATTRIBUTES] = mlir.DictAttr.get(others)
            sources = [_source(operand, half) for operand in list(op.operands)[:2]]
            users = [use.owner for use in op.results[0].uses]
            if any(source is None for source in sources) or any(user.operation.name != _CONVERT for user in users):
                continue
            if any(user.results[0].type.element_type != half for user in users):
                continue
            with op.location, mlir.InsertionPoint(op):
                result = _of_type(op, [*sources, _converted(op.operands[2], half)], half, attributes)
            for user in users:
                user.results[0].replace_all_uses_with(result)
                user.operation.erase()
            op.erase()


def _ops(module: mlir.Module, element_type: mlir.Type) -> list[Any]:
    """The ops over elements of the type whose regions are one binary op each."""
    found = [op.operation for op in nested_ops(module.operation) if op.operation.name == _OP]
    return [op for op in found if op.results[0].type.element_type == element_type and all(map(_is_simple, op.regions))]


def _is_simple(region: Any) -> bool:
    """Whether the region returns one binary op of its two arguments."""
    first, *others = list(region.blocks[0].operations)
    arguments = list(region.blocks[0].arguments)
    return (
        [op.operation.name for op in others] == [_RETURN]
        and len(first.operation.results) == 1
        and list(first.operation.operands) in (arguments, arguments[::-1])
        and list(others[0].operation.operands) == list(first.operation.results)
    )


def _of_type(op: Any, operands: list[Any], element_type: mlir.Type, attributes: dict[str, Any]) -> Any:
    """The result of the op over operands of another type, with the given attributes."""
    shape = mlir.RankedTensorType.get(op.results[0].type.shape, element_type)
    made = mlir.Operation.create(_OP, [shape], operands, attributes, regions=2)
    scalar = mlir.RankedTensorType.get((), element_type)
    for region, old in zip(made.regions, op.regions, strict=True):
        block = mlir.Block.create_at_start(region, [scalar, scalar], [op.location, op.location])
        first: Any = old.blocks[0].operations[0].operation
        places = [list(old.blocks[0].arguments).index(operand) for operand in first.operands]
        kind = first.results[0].type
        with mlir.InsertionPoint(block):
            value = mlir.Operation.create(
                first.name,
                [scalar if kind.element_type == op.results[0].type.element_type else kind],
                [block.arguments[place] for place in places],
                dict(first.attributes.items()),
            )
            mlir.Operation.create(_RETURN, [], value.results)
    return made.results[0]


def _converted(value: Any, element_type: mlir.Type) -> Any:
    return stablehlo.convert(mlir.RankedTensorType.get(value.type.shape, element_type), value)


def _source(value: Any, element_type: mlir.Type) -> Any:
    """What a value was converted from, if that is of the type."""
    owner: Any = value.owner
    if isinstance(owner, mlir.Block) or owner.operation.name != _CONVERT:
        return None
    source: Any = owner.operation.operands[0]
    return source if source.type.element_type == element_type else None
