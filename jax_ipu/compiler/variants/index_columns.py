"""Finds indices that count: in ``x[jnp.arange(n), labels]`` the first dimension of x is that of the labels."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.types import Shape, num_elements

# Ops that correct an index, or change its type.
_PASSED = frozenset(("add", "convert", "select", "compare", "clamp"))
_MOST_STEPS = 16


def indexed_dimensions(indices: Value, vector: int, targets: Sequence[int]) -> dict[int, int]:
    """Dimension of the table -> the dimension of `indices` along which its index counts 0, 1, 2, ....

    Args:
        indices: the indices of a gather or scatter.
        vector: the dimension with the parts of each index.
        targets: the dimension of the table that each part is an index of.
    """
    op = indices.op
    if op is None or op.name != "concatenate" or op.attrs["dimension"] != vector:
        return {}
    found = {}
    if len(op.operands) == len(targets):
        for target, column in zip(targets, op.operands, strict=True):
            dimension = _counted(column)
            if dimension is not None and dimension != vector:
                found[target] = dimension
    return found


def _counted(value: Value) -> int | None:
    """The dimension along which `value` counts; None where it is no iota."""
    steps: list[Op] = []
    while value.op is not None and value.op.name != "iota" and len(steps) < _MOST_STEPS:
        op = value.op
        if op.name in _PASSED:
            # The plain index, where it was corrected, is the last operand that comes from an iota.
            sources = [o for o in op.operands if _reaches_iota(o)]
            if not sources:
                return None
            value = sources[-1]
        elif op.name in ("broadcast_in_dim", "reshape"):
            value = op.operands[0]
        else:
            return None
        steps.append(op)
    if value.op is None or value.op.name != "iota":
        return None
    dimension: int | None = value.op.attrs["iota_dimension"]
    shape = value.shape
    for op in reversed(steps):
        assert dimension is not None
        if op.name == "broadcast_in_dim":
            dimension = op.attrs["broadcast_dimensions"][dimension]
        elif op.name == "reshape":
            dimension = _reshaped(shape, dimension, op.result.shape)
        if dimension is None:
            return None
        shape = op.result.shape
    return dimension


def _reaches_iota(value: Value) -> bool:
    for _ in range(_MOST_STEPS):
        op = value.op
        if op is None:
            return False
        if op.name == "iota":
            return True
        if op.name not in ("broadcast_in_dim", "reshape", "convert"):
            return op.name in _PASSED and op.name != "compare" and _reaches_iota(op.operands[-1])
        value = op.operands[0]
    return False


def _reshaped(before: Shape, dimension: int, after: Shape) -> int | None:
    """The dimension that `dimension` becomes; None where it is cut or joined."""
    outer = num_elements(before[:dimension])
    for d, size in enumerate(after):
        if size == before[dimension] and num_elements(after[:d]) == outer:
            return d
    return None
