"""Small concatenations of concatenations, such as `jnp.array([[a, b], [c, d]])`, become one of all parts.

So every part is copied once and in one superstep, and a list of many scalars is no op for each of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jax_ipu.compiler.ir import Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.arithmetic.joined import SMALL, keeps_order
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import num_elements


def run(module: Module) -> None:
    """Rewrites every block of main."""
    rewrite(module.main.block, {"concatenate": _flat})


def _flat(op: Op, rewriter: Rewriter) -> Value | None:
    if size_in_bytes(op.result) > SMALL or num_elements(op.result.shape) == 0:
        return None
    lines = _lines(op)
    parts = [part for value in op.operands for part in _parts(value, lines)]
    if len(parts) == len(op.operands):
        return None
    length = num_elements(op.result.shape) // lines
    flat = [rewriter.reshape(part, (lines, num_elements(part.shape) // lines)) for part in parts]
    joined = rewriter.emit("concatenate", flat, (lines, length), op.result.dtype, {"dimension": 1})
    return rewriter.reshape(joined, op.result.shape)


def _lines(op: Op) -> int:
    """How many pieces of memory, one after another, a concatenation takes from each of its operands."""
    return math.prod(op.result.shape[: op.attrs["dimension"]])


def _parts(value: Value, lines: int) -> Sequence[Value]:
    """What a value is a concatenation of, if that is all it is used for and it has as many lines; else itself."""
    source = value
    while source.op is not None and len(source.users) == 1 and keeps_order(source.op):
        source = source.op.operands[0]
    maker = source.op
    if maker is None or maker.name != "concatenate" or len(source.users) > 1 or _lines(maker) != lines:
        return (value,)
    return [operand for operand in maker.operands if num_elements(operand.shape) > 0]
