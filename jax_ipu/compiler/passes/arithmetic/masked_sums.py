"""Sums of gradients under a mask: `select(p, a, 0) + select(p, 0, b)` becomes `select(p, a, b)`.

The gradient of `where(done, x, x.at[i].set(row))` is the sum of what flows through both sides, each zero where the
other is not. The side of the update also has its rows set to zero, which is moved behind the select. What is left is a
masked update of the gradient (`masked_updates.py`), so a loop carries it in place. As with all sums of zeros that the
compiler leaves out, -0 may stay -0 where the sum is 0.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import replaces_state, splat_of
from jax_ipu.compiler.ir import Module, Op, Value, clone_block
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.passes.state.branch_state import UPDATES
from jax_ipu.compiler.types import FLOAT


def run(module: Module) -> None:
    """Rewrites the sums of main."""
    rewrite(module.main.block, RULES)


def _is_zero(value: Value) -> bool:
    literal = splat_of(value)
    return literal is not None and not any(literal.data)


def _add(op: Op, rewriter: Rewriter) -> Value | None:
    if op.result.dtype not in FLOAT:
        return None
    for masked, other in (op.operands, op.operands[::-1]):
        select = masked.op
        if select is None or select.name != "select":
            continue
        predicate, chosen, rejected = select.operands
        for place, kept, zero in ((2, chosen, rejected), (1, rejected, chosen)):
            if not _is_zero(zero):
                continue
            found = _behind(other, predicate, place, rewriter)
            if found is None:
                continue
            sides = (kept, found) if place == 2 else (found, kept)
            return rewriter.emit("select", (predicate, *sides), op.result.shape, op.result.dtype)
    return None


def _behind(value: Value, predicate: Value, place: int, rewriter: Rewriter) -> Value | None:
    """What `value` is where the select by this predicate takes operand `place`; None where it is not 0 elsewhere."""
    op = value.op
    if op is None:
        return None
    if op.name == "select":
        others_are_zero = op.operands[0] is predicate and _is_zero(op.operands[3 - place])
        return op.operands[place] if others_are_zero else None
    if op.name not in UPDATES or len(op.results) != 1 or not _writes_zeros(op):
        return None
    inner = _behind(op.operands[0], predicate, place, rewriter)
    if inner is None:
        return None
    regions = [clone_block(body) for body in op.regions]
    return rewriter.emit(op.name, (inner, *op.operands[1:]), value.shape, value.dtype, dict(op.attrs), regions)


def _writes_zeros(update: Op) -> bool:
    if update.name != "scatter":
        return _is_zero(update.operands[1])
    return _is_zero(update.operands[2]) and replaces_state(update.regions[0])


RULES: dict[str, Rule] = {"add": _add}
