"""Lets gathers and scatters wrap negative indices themselves, which saves an elementwise op on all indices.

JAX writes `x[i]` as a gather at `select(i < 0, i + n, i)`. The select becomes the attribute `index_wraps` of the gather
or scatter: for each component of its index vectors the number that is added to a negative index.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import SIGNED, Shape

# Ops that only move elements: wrapping can follow them.
_VIEWS = frozenset(("broadcast_in_dim", "reshape", "transpose"))


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


def _integer(value: Value) -> int | None:
    literal = splat_of(value)
    return None if literal is None else int(literal.scalar())


def _wrapped(op: Op) -> tuple[Value, int] | None:
    """(i, n) where `op` is select(i < 0, i + n, i); n >= 0, so i + n does not overflow where it is selected."""
    predicate, wrapped, index = op.operands
    compare, add = predicate.op, wrapped.op
    if compare is None or compare.name != "compare" or compare.attrs["comparison_direction"] != "LT":
        return None
    if compare.operands[0] is not index or _integer(compare.operands[1]) != 0:
        return None
    if add is None or add.name != "add" or index not in add.operands:
        return None
    extent = _integer(add.operands[1 if add.operands[0] is index else 0])
    return None if extent is None or extent < 0 else (index, extent)


def _unwrapped(value: Value, rewriter: Rewriter) -> tuple[Value, int]:
    """The value before its negative elements were wrapped, and n; `value` and 0 where they were not."""
    op = value.op
    if op is None or value.dtype not in SIGNED:
        return value, 0
    if op.name == "select":
        return _wrapped(op) or (value, 0)
    if op.name not in _VIEWS:
        return value, 0
    inner, wrap = _unwrapped(op.operands[0], rewriter)
    if wrap == 0:
        return value, 0
    return rewriter.emit(op.name, (inner,), value.shape, value.dtype, dict(op.attrs)), wrap


def _components(indices: Value, axis: int, rewriter: Rewriter) -> tuple[Value, Shape]:
    """The indices before they were wrapped, and the n of each component."""
    op = indices.op
    if op is None or op.name != "concatenate" or op.attrs["dimension"] != axis:
        count = indices.shape[axis] if axis < len(indices.shape) else 1
        value, wrap = _unwrapped(indices, rewriter)
        return value, (wrap,) * count
    parts = [_unwrapped(part, rewriter) for part in op.operands]
    wraps = tuple(wrap for part, wrap in parts for _ in range(part.shape[axis]))
    if not any(wraps):
        return indices, wraps
    values = [value for value, _ in parts]
    return rewriter.emit("concatenate", values, indices.shape, indices.dtype, dict(op.attrs)), wraps


def _wrap(op: Op, place: int, axis: int, rewriter: Rewriter) -> None:
    """Moves the wrap of the indices, operand `place` of `op`, into its attributes."""
    indices, wraps = _components(op.operands[place], axis, rewriter)
    if any(wraps):
        op.set_operands([*op.operands[:place], indices, *op.operands[place + 1 :]])
        op.attrs["index_wraps"] = wraps


def _gather(op: Op, rewriter: Rewriter) -> None:
    _wrap(op, 1, op.attrs["dimension_numbers"]["index_vector_dim"], rewriter)


def _scatter(op: Op, rewriter: Rewriter) -> None:
    _wrap(op, len(op.results), op.attrs["scatter_dimension_numbers"]["index_vector_dim"], rewriter)


RULES: dict[str, Rule] = {"gather": _gather, "scatter": _scatter}
