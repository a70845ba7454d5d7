"""Constants that are updated part by part at fixed positions become concatenations of the parts.

So `jnp.zeros(3).at[0].set(a).at[1].set(b)` is no superstep for each update, and parts are computed in their place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.arithmetic.joined import SMALL
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import num_elements


def run(module: Module) -> None:
    """Rewrites every block of main."""
    rewrite(module.main.block, {"ipu.update_slice": _joined})


class _Part(NamedTuple):
    """The elements [begin, end) of a result in row-major order, or of one dimension, which `value` has."""

    begin: int
    end: int
    value: Value


def _joined(op: Op, rewriter: Rewriter) -> Value | None:
    if size_in_bytes(op.result) > SMALL or _next_update(op.result) is not None:
        return None
    chain = [op]
    while (before := chain[-1].operands[0].op) is not None and _next_update(before.result) is chain[-1]:
        chain.append(before)
    base = chain[-1].operands[0]
    if splat_of(base) is None:
        return None
    shape = op.result.shape
    for dim in (None, *range(1, len(shape))):
        parts = _parts(chain, dim)
        if parts is not None:
            break
    else:
        return None
    extent = num_elements(shape) if dim is None else shape[dim]
    values, at = [], 0
    for part in [*parts, _Part(extent, extent, base)]:
        if at < part.begin:
            rest = (part.begin - at,) if dim is None else (*shape[:dim], part.begin - at, *shape[dim + 1 :])
            values.append(rewriter.broadcast(base, rest, ()))
        if part.begin < part.end:
            length = part.end - part.begin
            values.append(rewriter.reshape(part.value, (length,)) if dim is None else part.value)
        at = part.end
    joined = (extent,) if dim is None else shape
    result = rewriter.emit("concatenate", values, joined, op.result.dtype, {"dimension": dim or 0})
    return rewriter.reshape(result, shape)


def _next_update(value: Value) -> Op | None:
    """The op that updates the value, if that is all it is used for."""
    if value.op is None or value.op.name != "ipu.update_slice" or len(value.users) != 1:
        return None
    user = value.users[0]
    return user if user.name == "ipu.update_slice" and user.operands[0] is value else None


def _parts(chain: list[Op], dim: int | None) -> list[_Part] | None:
    """What the updates leave of each other, in order; None where one is no interval of `dim`, or is hidden in part."""
    parts: list[_Part] = []
    for op in chain:  # the last update first
        interval = _interval(op, dim)
        if interval is None:
            return None
        begin, end = interval
        hidden = [p for p in parts if p.begin < end and begin < p.end]
        if begin == end or any(p.begin <= begin and end <= p.end for p in hidden):
            continue
        if hidden:
            return None
        parts.append(_Part(begin, end, op.operands[1]))
    return sorted(parts, key=lambda part: part.begin)


def _interval(op: Op, dim: int | None) -> tuple[int, int] | None:
    """The elements that an update writes, as an interval of the dimension, or in row-major order."""
    shape, update, begins = op.result.shape, op.operands[1].shape, op.attrs["start_indices"]
    if any(stride != 1 and n > 1 for stride, n in zip(op.attrs["strides"], update, strict=True)):
        return None
    if dim is not None:
        whole = all(n == m for d, (n, m) in enumerate(zip(update, shape, strict=True)) if d != dim)
        return (begins[dim], begins[dim] + update[dim]) if whole else None
    # Dimensions of which it has one element, one of which it has some, and whole ones.
    split = next((d for d, n in enumerate(update) if n != 1), len(shape))
    if any(n != m for n, m in zip(update[split + 1 :], shape[split + 1 :], strict=True)):
        return None
    begin = sum(b * math.prod(shape[d + 1 :]) for d, b in enumerate(begins))
    return begin, begin + num_elements(update)
