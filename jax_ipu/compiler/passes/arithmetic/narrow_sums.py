"""Sums of narrow values that JAX makes in a wide type read the narrow values: no array of the wide type exists.

`jnp.sum`, `jnp.mean` and `softmax` convert f16 to f32, sum, and convert what they make of the result back. An IPU's
vertices of f16 sums have partial sums in f32, so the value is the same, and half of the memory and one pass over the
values are saved. A sum that is only converted back is made in f16; others have a result in f32.

Sums of narrow integers that JAX makes in wide ones and converts back (`jnp.packbits`) are made in the narrow type as
well: the low bits of a sum depend on the low bits of what is summed only.

A narrow sum and its conversions must be in one block: a branch or loop that reads a sum from outside must not make its
own.
"""

from __future__ import annotations

from collections.abc import Iterator

from jax_ipu.compiler.expression import single_op, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, blocks_of
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import INTEGER, SIZE

_NARROW, _WIDE = "f16", "f32"
# Integers that fill their bytes.
_BYTES = frozenset(("s8", "s16", "u8", "u16"))
# What only moves a sum between the reduction and its conversion.
_VIEWS = frozenset(("reshape", "broadcast_in_dim", "transpose"))


def run(module: Module) -> None:
    """Rewrites the conversions of main, and then the sums that are left."""
    made: dict[Value, Value] = {}
    blocks = blocks_of(module.main.block)
    rewrite(module.main.block, {"convert": lambda op, rewriter: _convert(op, rewriter, blocks, made)})
    rewrite(module.main.block, {"reduce": _reduce})


def _reduce(op: Op, rewriter: Rewriter) -> Value | None:
    values = _summed(op.results[0])
    if values is None or values.dtype != _NARROW or not any(True for _ in op.result.users):
        return None
    return rewriter.reduce("add", values, op.attrs["dimensions"], 0, _WIDE)


def _convert(op: Op, rewriter: Rewriter, blocks: dict[Op, Block], made: dict[Value, Value]) -> Value | None:
    """`made`: the narrow sums, by the wide ones."""
    narrow = op.result.dtype
    if not _may_be_narrow(narrow, op.operands[0].dtype):
        return None
    views: list[Op] = []
    wide = op.operands[0]
    while wide.op is not None and wide.op.name in _VIEWS:
        views.append(wide.op)
        wide = wide.op.operands[0]
    values = _summed(wide)
    if values is None or values.dtype != narrow or wide.op is None:
        return None
    block = blocks[wide.op]
    if any(blocks.get(user) is not block or not _narrows(user, narrow) for user in _users(wide)):
        return None
    if wide not in made:
        made[wide] = rewriter.sum(values, wide.op.attrs["dimensions"])
    value = made[wide]
    for view in reversed(views):
        value = rewriter.emit(view.name, (value,), view.result.shape, narrow, dict(view.attrs))
    return value


def _summed(wide: Value) -> Value | None:
    """The narrow values whose sum in f32 this is."""
    reduce = wide.op
    if reduce is None or reduce.name != "reduce" or len(reduce.results) != 1 or single_op(reduce.regions[0]) != "add":
        return None
    values, first = reduce.operands
    literal = splat_of(first)
    if literal is None or any(literal.data) or values.op is None or values.op.name != "convert":
        return None
    narrow = values.op.operands[0]
    return narrow if _may_be_narrow(narrow.dtype, values.dtype) else None


def _may_be_narrow(narrow: str, wide: str) -> bool:
    """Whether a sum in the wide type, converted to the narrow one, is what the narrow values sum up to."""
    if narrow in _BYTES and wide in INTEGER:
        return SIZE[narrow] < SIZE[wide]
    return (narrow, wide) == (_NARROW, _WIDE)


def _users(value: Value) -> Iterator[Op]:
    """The ops that read the value or a view of it."""
    for user in value.users:
        if user.name in _VIEWS:
            yield from _users(user.result)
        else:
            yield user


def _narrows(user: Op, narrow: str) -> bool:
    return user.name == "convert" and user.result.dtype == narrow
