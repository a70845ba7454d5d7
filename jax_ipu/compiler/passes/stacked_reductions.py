"""Reductions over what has just been stacked (`jnp.stack([a, b, c]).max(0)`, `jnp.select`) become elementwise ops.

The body is applied to one operand of the concatenation after another, so that nothing is concatenated.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import identity_of, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import FLOAT, SIZE, Shape, pack_scalar

# The most elementwise ops that a reduction becomes.
_MAX_OPS = 64
# Exact in every type; reductions by other ops sum narrow floats in f32.
_CHOICES = frozenset(("maximum", "minimum", "and", "or"))


def run(module: Module) -> None:
    """Rewrites the reductions of main."""
    rewrite(module.main.block, RULES)


def _reduce(op: Op, rewriter: Rewriter) -> list[Value] | None:
    count = len(op.results)
    operands, inits, body = op.operands[:count], op.operands[count:], op.regions[0]
    if len(op.attrs["dimensions"]) != 1 or any(inner.regions for inner in body.ops):
        return None
    (dim,) = op.attrs["dimensions"]
    size = operands[0].shape[dim]
    if size * (len(body.ops) - 1) > _MAX_OPS or not any(_is_stack(value, dim) for value in operands):
        return None
    name = single_op(body) if count == 1 else None
    if name not in _CHOICES and any(r.dtype in FLOAT and SIZE[r.dtype] < 4 for r in op.results):
        return None
    if not all(_has_parts(value, dim) for value in operands):
        return None
    shape = op.results[0].shape
    parts = [[_part(value, dim, i, shape, rewriter) for value in operands] for i in range(size)]
    literal, identity = splat_of(inits[0]), None if name is None else identity_of(name, inits[0].dtype)
    if literal is not None and identity is not None and literal.data == pack_scalar(literal.dtype, identity):
        results = parts.pop(0)
    else:
        results = [rewriter.spread(init, shape) for init in inits]
    for part in parts:
        results = rewriter.apply(body, results + part, shape)
    return results


def _is_stack(value: Value, dim: int) -> bool:
    """Whether the value is made of parts of one index of the dimension each, only to be reduced over it."""
    op = value.op
    if op is None or op.name != "concatenate" or op.attrs["dimension"] != dim:
        return False
    if any(part.shape[dim] != 1 for part in op.operands):
        return False
    return all(user.name == "reduce" and tuple(user.attrs["dimensions"]) == (dim,) for user in value.users)


def _is_index(value: Value, dim: int) -> bool:
    """Whether each element is its index in the dimension."""
    op = value.op
    if op is not None and op.name == "broadcast_in_dim" and tuple(op.attrs["broadcast_dimensions"]) == (dim,):
        same = op.operands[0].shape == (value.shape[dim],)
        return same and _is_index(op.operands[0], 0)
    return op is not None and op.name == "iota" and op.attrs["iota_dimension"] == dim


def _has_parts(value: Value, dim: int) -> bool:
    return splat_of(value) is not None or _is_index(value, dim) or _is_stack(value, dim)


def _part(value: Value, dim: int, index: int, shape: Shape, rewriter: Rewriter) -> Value:
    """The value at an index of the dimension."""
    literal = splat_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    if _is_index(value, dim):
        return rewriter.full(shape, value.dtype, index)
    assert value.op is not None
    return rewriter.reshape(value.op.operands[index], shape)


RULES: dict[str, Rule] = {"reduce": _reduce}
