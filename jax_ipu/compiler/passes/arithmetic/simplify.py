"""Algebraic simplification and folding of constants.

Every rule keeps the result exactly, except for three that XLA has as well: a division by a constant becomes a product,
a product with a mask is 0 where the mask is false, also for NaN, infinities and negative numbers, and (i / n) * x of an
iota i becomes i * (x / n), which is exact where the step x / n is an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax_ipu.compiler.expression import identity_of, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.arithmetic import simplify_views
from jax_ipu.compiler.passes.arithmetic.simplify_views import SMALL, literal_of
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import COMPLEX, FLOAT, INTEGER, UNSIGNED, Literal, num_elements, numpy_dtype, pack_scalar

# How many selects and constants a comparison looks at.
_MAX_CHOICES = 64


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


# Arithmetic -------------------------------------------------------------------------------------------------------

_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negate": np.negative,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "sign": np.sign,
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_FOLDABLE = INTEGER | {"pred", "f32", "f64"}


def _fold(op: Op, rewriter: Rewriter) -> Value | None:
    """The constant result of an op on splats, where NumPy computes exactly what the device would."""
    literals = [splat_of(o) for o in op.operands]
    if any(literal is None for literal in literals):
        return None
    values = [literal.element() for literal in literals if literal is not None and literal.data]
    if len(values) != len(literals) or op.operands[-1].dtype not in _FOLDABLE:
        return None
    if op.name == "compare":
        if op.attrs.get("compare_type") == "TOTALORDER":
            return None
        result = _COMPARE[op.attrs["comparison_direction"]](*values)
    elif op.name == "select":
        result = values[1] if values[0] else values[2]
    elif op.name in ("divide", "remainder"):
        if op.result.dtype in INTEGER:
            result = _divided(op.name, int(values[0]), int(values[1]))
        elif op.name == "divide":
            with np.errstate(all="ignore"):
                result = np.divide(*values)
        else:
            return None
    elif op.name in ("maximum", "minimum"):
        result = (np.maximum if op.name == "maximum" else np.minimum)(*values)
    else:
        if op.name == "negate" and op.result.dtype == "pred":
            return None
        with np.errstate(all="ignore"):
            if op.result.dtype == "pred" and op.name in ("add", "subtract", "multiply"):
                return None
            result = _NUMPY[op.name](*values)
    number = result.item() if hasattr(result, "item") else result
    if op.result.dtype in FLOAT and number == number and number != 0 and abs(number) < 1.2e-38:
        return None  # the device flushes denormals to zero
    return rewriter.constant(Literal(op.result.dtype, op.result.shape, pack_scalar(op.result.dtype, number), True))


def _divided(name: str, a: int, b: int) -> int:
    """Rounded towards zero; a division by zero gives -1 and leaves the dividend."""
    quotient = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if name == "divide" else a - quotient * b


def _is_number(value: Value, number: float) -> bool:
    literal = splat_of(value)
    if literal is None or literal.dtype == "pred":
        return False
    scalar = literal.scalar()
    return bool(scalar == number) and str(scalar)[0] == str(number)[0]


def _add(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    if op.result.dtype in INTEGER:
        if _is_number(b, 0):
            return a
        if _is_number(a, 0):
            return b
    return _fold(op, rewriter)


def _subtract(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    literal = splat_of(b)
    if literal is not None and op.result.dtype != "pred" and not any(literal.data):
        return a
    return _fold(op, rewriter)


def _multiply(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    if op.result.dtype not in ("c64", "c128"):
        if _is_number(b, 1):
            return a
        if _is_number(a, 1):
            return b
    for factor, other in ((b, a), (a, b)):
        predicate = _predicate_of(factor, rewriter)
        if predicate is not None:
            zero = rewriter.full(op.result.shape, op.result.dtype, 0)
            return rewriter.elementwise("select", predicate, other, zero, dtype=op.result.dtype)
    folded = _fold(op, rewriter)
    return _steps(op, rewriter) if folded is None else folded


def _steps(op: Op, rewriter: Rewriter) -> Value | None:
    """(i / n) * x as i * (x / n): of an iota i, a constant n and a broadcast x, as in `jnp.linspace`."""
    for a, x in (op.operands, reversed(op.operands)):
        views: list[Op] = []
        while a.op is not None and a.op.name in ("reshape", "broadcast_in_dim"):
            views.append(a.op)
            a = a.op.operands[0]
        step = _step(a, x, rewriter) if a.dtype in FLOAT else None
        if step is None or a.op is None:
            continue
        iota = a.op.operands[0]
        for view in reversed(views):
            if view.name == "reshape":
                iota = rewriter.reshape(iota, view.result.shape)
            else:
                iota = rewriter.broadcast(iota, view.result.shape, tuple(view.attrs["broadcast_dimensions"]))
        return rewriter.elementwise("multiply", iota, step)
    return None


def _step(parts: Value, x: Value, rewriter: Rewriter) -> Value | None:
    """x / n if `parts` is i / n, or i times the rounded reciprocal of n, and `x` is the same for many i."""
    op = parts.op
    literal = splat_of(op.operands[1]) if op is not None and op.name in ("multiply", "divide") else None
    if op is None or literal is None or not literal.data:
        return None
    counted = op.operands[0].op
    while counted is not None and counted.name in ("convert", "reshape", "broadcast_in_dim"):
        counted = counted.operands[0].op
    if counted is None or counted.name != "iota":
        return None
    name, number = op.name, float(literal.scalar())
    # A step that is larger than x may be infinite where x is not.
    if not (abs(number) <= 1 if name == "multiply" else abs(number) >= 1):
        return None
    count = round(1 / number) if name == "multiply" and abs(number) > 2.0**-24 else 0
    if count and x.dtype in ("f32", "f64") and numpy_dtype(x.dtype).type(1 / count) == literal.element():
        name, number = "divide", float(count)
    constant = splat_of(x)
    if constant is not None:
        value = float(constant.scalar())
        return rewriter.full(x.shape, x.dtype, value / number if name == "divide" else value * number)
    view = x.op
    if view is None or view.name != "broadcast_in_dim":
        return None
    source = view.operands[0]
    if num_elements(source.shape) >= num_elements(x.shape):
        return None
    step = rewriter.elementwise(name, source, rewriter.full(source.shape, source.dtype, number))
    return rewriter.broadcast(step, x.shape, tuple(view.attrs["broadcast_dimensions"]))


def _predicate_of(value: Value, rewriter: Rewriter) -> Value | None:
    """The predicate that `value` is as a number, or None; also of a predicate that was reshaped as numbers."""
    source = value
    while source.op is not None and source.op.name == "reshape":
        source = source.op.operands[0]
    if source.op is None or source.op.name != "convert" or source.op.operands[0].dtype != "pred":
        return None
    return rewriter.reshape(source.op.operands[0], value.shape)


def _divide(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    if op.result.dtype not in ("c64", "c128") and _is_number(b, 1):
        return a
    exponent = _power_of_two(b) if op.result.dtype in UNSIGNED else None
    if exponent is not None:
        return rewriter.elementwise("shift_right_logical", a, rewriter.full(b.shape, b.dtype, exponent))
    folded = _fold(op, rewriter)
    return _product(op, rewriter) if folded is None else folded


def _product(op: Op, rewriter: Rewriter) -> Value | None:
    """a / constant as a * (1 / constant): in f32 and f64 with one more rounding, in other floats only where exact."""
    a, b = op.operands
    shape, dtype = op.result.shape, op.result.dtype
    literal = splat_of(b)
    if dtype not in FLOAT:
        return None
    if literal is not None:
        if not literal.data or not _has_reciprocal(float(literal.scalar()), dtype):
            return None
        return rewriter.elementwise("multiply", a, rewriter.full(shape, dtype, 1 / float(literal.scalar())))
    view = b.op if b.op is not None and b.op.name == "broadcast_in_dim" else None
    literal = literal_of(b if view is None else view.operands[0])
    if literal is None or dtype not in ("f32", "f64") or num_elements(literal.shape) > SMALL:
        return None
    divisors = literal.numpy().astype(np.float64)
    if not all(_has_reciprocal(divisor, dtype) for divisor in divisors.flat):
        return None
    factors = rewriter.constant(Literal.from_numpy(dtype, 1 / divisors))
    if view is not None:
        factors = rewriter.broadcast(factors, shape, tuple(view.attrs["broadcast_dimensions"]))
    return rewriter.elementwise("multiply", a, factors)


def _has_reciprocal(divisor: float, dtype: str) -> bool:
    mantissa, exponent = math.frexp(divisor)
    # Reciprocals of others may be denormal, or too large for a narrow type.
    if divisor == 0 or not -14 <= exponent <= 14:
        return False
    return abs(mantissa) == 0.5 or dtype in ("f32", "f64")


def _power_of_two(value: Value) -> int | None:
    """The exponent where all elements are the same power of two."""
    literal = splat_of(value)
    number = literal.scalar() if literal is not None and literal.data else 0
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def _remainder(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    exponent = _power_of_two(b) if op.result.dtype in UNSIGNED else None
    if exponent is None:
        if op.result.dtype in INTEGER and _is_number(b, 1):
            return rewriter.full(op.result.shape, op.result.dtype, 0)
        return _fold(op, rewriter)
    return rewriter.elementwise("and", a, rewriter.full(b.shape, b.dtype, (1 << exponent) - 1))


def _logical(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    if op.result.dtype == "pred":
        for value, other in ((a, b), (b, a)):
            literal = splat_of(value)
            if literal is not None and literal.data:
                if literal.scalar() == (op.name == "and"):
                    return other
                return value if op.name != "xor" else None
    return _fold(op, rewriter)


def _maximum(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    if op.result.dtype in FLOAT:
        neutral = float("-inf") if op.name == "maximum" else float("inf")
        if _is_number(a, neutral):
            return b
        if _is_number(b, neutral):
            return a
    return _fold(op, rewriter)


def _sign(op: Op, rewriter: Rewriter) -> Value | None:
    return _fold(op, rewriter) if op.result.dtype in INTEGER else None  # NumPy's of -0 is 0


def _compare(op: Op, rewriter: Rewriter) -> Value | None:
    a, b = op.operands
    order = op.attrs["comparison_direction"]
    if op.attrs.get("compare_type") == "TOTALORDER" or a.dtype in COMPLEX:
        return None
    known = None
    if a is b and a.dtype not in FLOAT:
        known = order in ("EQ", "LE", "GE")
    elif (order == "GT" and (_is_extreme(a, "maximum") or _is_extreme(b, "minimum"))) or (
        order == "LT" and (_is_extreme(a, "minimum") or _is_extreme(b, "maximum"))
    ):
        known = False  # nothing is less than the lowest, or greater than the highest
    elif a.dtype in INTEGER:
        outcomes = {_COMPARE[order](x, y) for x in _choices(a) for y in _choices(b)}
        known = bool(outcomes.pop()) if len(outcomes) == 1 else None
    if known is not None:
        return rewriter.full(op.result.shape, "pred", known)
    return _of_predicates(op, rewriter) if a.dtype == "pred" else _fold(op, rewriter)


def _is_extreme(value: Value, name: str) -> bool:
    """Whether the value is neutral for the maximum or the minimum."""
    literal = splat_of(value)
    if literal is None or not literal.data:
        return False
    if literal.dtype == "pred":
        return bool(literal.scalar()) == (name == "minimum")
    identity = identity_of(name, literal.dtype)
    return identity is not None and literal.data == pack_scalar(literal.dtype, identity)


def _choices(value: Value) -> set[Any]:
    """All numbers among which selects choose an element of the value; none if others are possible."""
    numbers: set[Any] = set()
    open_values, seen = [value], {value}
    while open_values:
        value = open_values.pop()
        literal = splat_of(value)
        if literal is not None and literal.data:
            numbers.add(literal.scalar())
        elif value.op is not None and value.op.name == "select" and len(seen) < _MAX_CHOICES:
            new = [v for v in value.op.operands[1:] if v not in seen]
            open_values += new
            seen.update(new)
        else:
            return set()
    return numbers


def _of_predicates(op: Op, rewriter: Rewriter) -> Value | None:
    """A comparison with a constant predicate is the other one, its negation, or known."""
    a, b = op.operands
    first, second = splat_of(a), splat_of(b)
    literal = second if first is None else first
    if literal is None or not literal.data:
        return None
    constant, other, compare = literal.scalar(), a if first is None else b, _COMPARE[op.attrs["comparison_direction"]]
    of_false, of_true = (bool(compare(x, constant) if first is None else compare(constant, x)) for x in (False, True))
    if of_false == of_true:
        return rewriter.full(op.result.shape, "pred", of_true)
    return other if of_true else rewriter.elementwise("not", other)


def _select(op: Op, rewriter: Rewriter) -> Value | None:
    predicate, a, b = op.operands
    if a is b:
        return a
    literal = splat_of(predicate)
    if literal is not None and literal.data:
        return a if literal.scalar() else b
    return None


def _convert(op: Op, rewriter: Rewriter) -> Value | None:
    value, dtype = op.operands[0], op.result.dtype
    if value.dtype == dtype:
        return value
    literal = splat_of(value)
    if literal is not None and literal.data and (dtype in FLOAT or literal.dtype in INTEGER | {"pred"}):
        if literal.dtype in ("c64", "c128") or dtype in ("c64", "c128", "pred"):
            return None
        return rewriter.constant(Literal(dtype, op.result.shape, pack_scalar(dtype, literal.scalar()), True))
    return None


# Reductions -------------------------------------------------------------------------------------------------------


def _reduce(op: Op, rewriter: Rewriter) -> list[Value] | None:
    count = len(op.results)
    operands, inits = op.operands[:count], op.operands[count:]
    dims = tuple(op.attrs["dimensions"])
    name = single_op(op.regions[0]) if count == 1 else None
    if name is None:
        return None
    operand, init = operands[0], inits[0]
    literal = splat_of(init)
    identity = identity_of(name, init.dtype)
    starts_neutral = literal is not None and identity is not None and literal.data == pack_scalar(init.dtype, identity)
    if all(operand.shape[d] == 1 for d in dims):
        kept = rewriter.reshape(operand, op.result.shape)
        if starts_neutral:
            return [kept]
        start = rewriter.broadcast(init, op.result.shape, ())
        return [rewriter.emit(name, (start, kept), op.result.shape, op.result.dtype)]
    inner = operand.op
    if not starts_neutral or inner is None or len(operand.users) != 1 or len(inner.results) != 1:
        return None
    if inner.name == "reduce" and single_op(inner.regions[0]) == name and _same_start(inner.operands[1], literal):
        source = inner.operands[0]
        inner_dims = set(inner.attrs["dimensions"])
        outer = [d for d in range(len(source.shape)) if d not in inner_dims]
        merged = tuple(sorted(inner_dims | {outer[d] for d in dims}))
        region = op.regions.pop()
        attrs = {"dimensions": merged}
        return [rewriter.emit("reduce", (source, init), op.result.shape, op.result.dtype, attrs, (region,))]
    return None


def _same_start(value: Value, literal: Literal | None) -> bool:
    other = splat_of(value)
    return other is not None and literal is not None and other.data == literal.data


RULES: dict[str, Rule] = {
    **simplify_views.RULES,
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "remainder": _remainder,
    "maximum": _maximum,
    "minimum": _maximum,
    "and": _logical,
    "or": _logical,
    "xor": _logical,
    "not": _fold,
    "negate": _fold,
    "sign": _sign,
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "reduce": _reduce,
}
