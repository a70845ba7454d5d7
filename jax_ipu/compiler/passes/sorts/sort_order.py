"""The order that the comparator of a sort makes."""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Value
from jax_ipu.compiler.types import FLOAT, INTEGER

# Elements of all kinds that a comparator can tell apart with the ops below.
_FLOATS = (-math.nan, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan)


def is_ascending(comparator: Block) -> bool:
    """Whether a comparator of one operand sorts numbers from the smallest on; NaN, equal to one another, come last.

    Zeros are equal.
    """
    if len(comparator.args) != 2:
        return False
    dtype = comparator.args[0].dtype
    if dtype in INTEGER:
        test = comparator.results[0].op
        if test is None or test.name != "compare" or test.operands not in (comparator.args, comparator.args[::-1]):
            return False
        return bool(test.attrs["comparison_direction"] == ("LT" if test.operands == comparator.args else "GT"))
    if dtype not in FLOAT:
        return False
    # Such ops change an element only where it is equal to a constant, or NaN.
    for op in comparator.ops[:-1]:
        if op.name not in ("constant", "compare", "select"):
            return False
    known: set[Value] = {
        *comparator.args,
        *(r for op in comparator.ops[:-1] if op.name != "constant" for r in op.results),
    }
    read = {o for op in comparator.ops for o in op.operands if o not in known}
    if not all(_is_zero_or_nan(value) for value in read):
        return False
    pairs = itertools.product(_FLOATS, repeat=2)
    return all(_result(comparator, a, b) == (_key(a) < _key(b)) for a, b in pairs)


def _is_zero_or_nan(value: Value) -> bool:
    literal = splat_of(value)
    return literal is not None and (literal.scalar() == 0 or math.isnan(literal.scalar()))


def _key(x: float) -> tuple[bool, float]:
    return (math.isnan(x), 0.0 if math.isnan(x) else x)


def _result(comparator: Block, a: float, b: float) -> Any:
    values: dict[Any, Any] = dict(zip(comparator.args, (a, b), strict=True))
    for op in comparator.ops[:-1]:
        if op.name == "constant":
            continue
        for operand in op.operands:
            if operand not in values:
                literal = splat_of(operand)
                values[operand] = math.nan if literal is None else float(literal.scalar())
        operands = [values[o] for o in op.operands]
        if op.name == "select":
            values[op.result] = operands[1] if operands[0] else operands[2]
            continue
        x, y = operands
        if op.attrs.get("compare_type") == "TOTALORDER":
            x, y = _total(x), _total(y)
        direction = op.attrs["comparison_direction"]
        tests = {"EQ": x == y, "NE": x != y, "LT": x < y, "LE": x <= y, "GT": x > y, "GE": x >= y}
        values[op.result] = tests[direction]
    return values.get(comparator.results[0])


def _total(x: float) -> int:
    """The place of a float in the total order."""
    bits: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1)) - 1
