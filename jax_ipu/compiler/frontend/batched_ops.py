"""Lets XLA's partitioner split batches of FFTs and of top_k.

The partitioner gathers the whole operands of these ops on every IPU. It splits custom calls along their first
dimensions where they say how many of them are a batch, so the ops are such calls while the program is partitioned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.depth import nested_ops

_CALL, _COMPOSITE, _TARGET = "stablehlo.custom_call", "stablehlo.composite", "ipu_batched_op"
# Attributes of the calls: what kind of op a call was and its attributes, and how many dimensions are a batch, as XLA
# reads it; XLA keeps frontend attributes.
_FRONTEND, _NAME, _ATTRIBUTES, _BATCH_DIMS = "mhlo.frontend_attributes", "ipu_op", "ipu_attributes", "num_batch_dims"
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")
# How many of the last dimensions are one problem, from the attributes.
_INNER_DIMS: dict[str, Callable[[dict[str, Any]], int]] = {
    "stablehlo.fft": lambda attributes: len(attributes["fft_length"]),
    "chlo.top_k": lambda attributes: 1,
}
# The names of dimensions in Shardy's rules, in their order.
_LETTERS = "ijklmnopqrstuvwxyz"


def hide(module: mlir.Module) -> None:
    """Makes the ops that have a batch custom calls, in place."""
    with module.context:
        for op in [op.operation for op in nested_ops(module.operation)]:
            name = op.attributes["name"].value if op.name == _COMPOSITE else op.name
            if name not in _INNER_DIMS:
                continue
            own = _attributes(op)
            inner, rank = _INNER_DIMS[name](own), op.operands[0].type.rank
            static = all(value.type.has_static_shape for value in (*op.operands, *op.results))
            if static and rank > inner and rank + inner <= len(_LETTERS):
                _replace(op, _CALL, _call_attributes(op, name, own, rank - inner))


def show(module: mlir.Module) -> None:
    """Makes the custom calls of the partitioned module the ops that they were, in place."""
    with module.context:
        for call in [op.operation for op in nested_ops(module.operation) if op.operation.name == _CALL]:
            if call.attributes["call_target_name"].value == _TARGET:
                given: Any = call.attributes[_FRONTEND]
                attributes: Any = mlir.DictAttr(mlir.Attribute.parse(given[_ATTRIBUTES].value))
                _replace(call, given[_NAME].value, {entry.name: entry.attr for entry in attributes})


def targets(module: mlir.Module) -> list[str]:
    """The targets of all custom calls that say how many of their dimensions are a batch."""
    found = set()
    for call in [op.operation for op in nested_ops(module.operation) if op.operation.name == _CALL]:
        if _FRONTEND in call.attributes and _BATCH_DIMS in call.attributes[_FRONTEND]:
            found.add(str(call.attributes["call_target_name"].value))
    return sorted(found)


def _attributes(op: Any) -> dict[str, Any]:
    """Those of the op, or of the op that a composite stands for, without shardings."""
    if op.name == _COMPOSITE:
        return {entry.name: entry.attr for entry in op.attributes["composite_attributes"]}
    return {name: op.attributes[name] for name in op.attributes if name not in _SHARDINGS}


def _call_attributes(op: Any, name: str, own: dict[str, Any], batch: int) -> dict[str, Any]:
    shardings = {name: op.attributes[name] for name in _SHARDINGS if name in op.attributes}
    texts = {_NAME: name, _ATTRIBUTES: str(mlir.DictAttr.get(own)), _BATCH_DIMS: str(batch)}
    return shardings | {
        "call_target_name": mlir.StringAttr.get(_TARGET),
        _FRONTEND: mlir.DictAttr.get({name: mlir.StringAttr.get(text) for name, text in texts.items()}),
        # XLA takes calls for equal that differ in frontend attributes alone.
        "backend_config": mlir.StringAttr.get(name + texts[_ATTRIBUTES]),
        # XLA ends the process where it splits a call without them.
        "operand_layouts": _layouts(op.operands),
        "result_layouts": _layouts(op.results),
        "sdy.sharding_rule": mlir.Attribute.parse(_rule(op, batch)),
    }


def _layouts(values: Any) -> mlir.ArrayAttr:
    """Row-major layouts."""
    orders: Any = [np.arange(value.type.rank - 1, -1, -1) for value in values]
    index = mlir.IndexType.get()
    return mlir.ArrayAttr.get([mlir.DenseIntElementsAttr.get(order, type=index) for order in orders])


def _rule(op: Any, batch: int) -> str:
    """Shardy's own rule for the op: what is equally long is split alike, and whole while the op is computed."""
    operand, results = op.operands[0].type.shape, [result.type.shape for result in op.results]
    letters = iter(_LETTERS)
    first = [next(letters) for _ in operand]
    second = [old if size == n else next(letters) for old, size, n in zip(first, operand, results[0], strict=True)]
    sizes = dict(zip(first + second, [*operand, *results[0]], strict=True))
    dims = ", ".join(f"{letter}={sizes[letter]}" for letter in sorted(sizes))
    target = ", ".join(f"[{', '.join(second)}]" for _ in results)
    whole = ", ".join(sorted({*first[batch:], *second[batch:]}))
    return f"#sdy.op_sharding_rule<([{', '.join(first)}])->({target}) {{{dims}}} need_replication={{{whole}}}, custom>"


def _replace(op: Any, name: str, attributes: dict[str, Any]) -> None:
    """Replaces the op by one of another name; XLA gives a call with several results one tuple."""
    results, parts = list(op.results), []
    if isinstance(results[0].type, mlir.TupleType):
        parts = [use.owner.operation for use in results[0].uses]
        whole = mlir.TupleType(results[0].type)
        types = [whole.get_type(i) for i in range(whole.num_types)]
    else:
        types = [result.type for result in results]
    with op.location, mlir.InsertionPoint(op):
        made = mlir.Operation.create(name, types, list(op.operands), attributes)
    for part in parts:
        part.results[0].replace_all_uses_with(made.results[part.attributes["index"].value])
        part.erase()
    if not parts:
        for old, new in zip(results, made.results, strict=True):
            old.replace_all_uses_with(new)
    op.erase()
