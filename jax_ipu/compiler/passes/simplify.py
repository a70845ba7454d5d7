"""Algebraic simplification and folding of constants.

Every rule keeps the result exactly, except for two that XLA has as well: a division by a constant becomes a product,
and a product with a mask is 0 where the mask is false, also for NaN, infinities and negative numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax_ipu.compiler.expression import identity_of, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import COMPLEX, FLOAT, INTEGER, UNSIGNED, Literal, Shape, num_elements, pack_scalar

# Views of constants with up to this many elements are computed at compile time.
_SMALL = 1024
# How many selects and constants a comparison looks at.
_MAX_CHOICES = 64


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


def _literal(value: Value) -> Literal | None:
    op = value.op
    return op.attrs["value"] if op is not None and op.name == "constant" else None


# Views ------------------------------------------------------------------------------------------------------------


def compose_broadcast(op: Op, rewriter: Rewriter) -> Value | None:
    """A broadcast of a broadcast, of a constant, or of a reshape that adds dimensions of one element, as one op."""
    value, shape, dims = op.operands[0], op.result.shape, tuple(op.attrs["broadcast_dimensions"])
    if value.shape == shape and dims == tuple(range(len(shape))):
        return value
    literal = splat_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    inner = value.op
    if inner is not None and inner.name == "broadcast_in_dim":
        composed = tuple(dims[d] for d in inner.attrs["broadcast_dimensions"])
        return rewriter.broadcast(inner.operands[0], shape, composed)
    if inner is not None and inner.name == "reshape":
        source = inner.operands[0]
        added = inserted_units(source.shape, value.shape)
        if added is not None:
            kept = [d for d in range(len(value.shape)) if d not in added]
            return rewriter.broadcast(source, shape, tuple(dims[d] for d in kept))
        if source.op is not None and source.op.name == "broadcast_in_dim":
            return _broadcast_before_merging(source.op, value.shape, shape, dims, rewriter)
    return None


def _broadcast_before_merging(inner: Op, merged: Shape, shape: Shape, dims: Shape, rewriter: Rewriter) -> Value | None:
    """The broadcast of a reshape that merges dimensions of a broadcast, as one broadcast whose result is reshaped.

    So values that are repeated along several dimensions (`jnp.repeat`, nearest neighbours) are written once.
    """
    if any(shape[d] != extent for d, extent in zip(dims, merged, strict=True)):
        return None
    source = inner.result
    extents = [[extent] for extent in shape]
    positions: list[tuple[int, int]] = []  # of the dimensions of the source: in the result, and among what is merged
    i = 0
    for d, extent in zip(dims, merged, strict=True):
        parts: list[int] = []
        while i < len(source.shape) and (math.prod(parts) < extent or (source.shape[i] == 1 and extent > 0)):
            positions.append((d, len(parts)))
            parts.append(source.shape[i])
            i += 1
        if math.prod(parts) != extent:
            return None
        extents[d] = parts
    if i < len(source.shape):
        return None
    begins = [0, *itertools.accumulate(map(len, extents))]
    apart = tuple(extent for parts in extents for extent in parts)
    places = [begins[d] + k for d, k in positions]
    composed = tuple(places[d] for d in inner.attrs["broadcast_dimensions"])
    return rewriter.reshape(rewriter.broadcast(inner.operands[0], apart, composed), shape)


def inserted_units(small: tuple[int, ...], large: tuple[int, ...]) -> set[int] | None:
    """The dimensions of one element that turn `small` into `large`; None where that takes more."""
    added: set[int] = set()
    i = 0
    for d, extent in enumerate(large):
        if i < len(small) and small[i] == extent:
            i += 1
        elif extent == 1:
            added.add(d)
        else:
            return None
    return added if i == len(small) else None


def _reshape(op: Op, rewriter: Rewriter) -> Value | None:
    value, shape = op.operands[0], op.result.shape
    if value.shape == shape:
        return value
    literal = _literal(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    if value.op is not None and value.op.name == "reshape":
        return rewriter.reshape(value.op.operands[0], shape)
    return None


def _transpose(op: Op, rewriter: Rewriter) -> Value | None:
    value, permutation = op.operands[0], tuple(op.attrs["permutation"])
    if permutation == tuple(range(len(permutation))):
        return value
    literal = _literal(value)
    if literal is not None and (literal.splat or num_elements(literal.shape) <= _SMALL):
        if literal.splat:
            return rewriter.constant(literal.reshaped(op.result.shape))
        return rewriter.constant(Literal.from_numpy(literal.dtype, literal.numpy().transpose(permutation)))
    inner = value.op
    if inner is not None and inner.name == "transpose":
        composed = tuple(inner.attrs["permutation"][p] for p in permutation)
        source = inner.operands[0]
        if composed == tuple(range(len(composed))):
            return source
        return rewriter.emit("transpose", (source,), op.result.shape, source.dtype, {"permutation": composed})
    if inner is not None and inner.name == "dot_general" and len(value.users) == 1:
        return _transposed_dot(inner, permutation, rewriter)
    return None


def _transposed_dot(dot: Op, permutation: tuple[int, ...], rewriter: Rewriter) -> Value | None:
    """transpose(dot(a, b)) = dot(b, a), where the transpose swaps the free dimensions of both operands."""
    numbers = dot.attrs["dot_dimension_numbers"]
    lhs, rhs = dot.operands
    batch = len(numbers["lhs_batching_dimensions"])
    lhs_free = len(lhs.shape) - batch - len(numbers["lhs_contracting_dimensions"])
    rank = len(dot.result.shape)
    swapped = (*range(batch), *range(batch + lhs_free, rank), *range(batch, batch + lhs_free))
    if permutation != swapped:
        return None
    flipped = {
        "lhs_batching_dimensions": numbers["rhs_batching_dimensions"],
        "rhs_batching_dimensions": numbers["lhs_batching_dimensions"],
        "lhs_contracting_dimensions": numbers["rhs_contracting_dimensions"],
        "rhs_contracting_dimensions": numbers["lhs_contracting_dimensions"],
    }
    attrs = dict(dot.attrs)
    attrs["dot_dimension_numbers"] = flipped
    shape = tuple(dot.result.shape[p] for p in permutation)
    return rewriter.emit("dot_general", (rhs, lhs), shape, dot.result.dtype, attrs)


def _slice(op: Op, rewriter: Rewriter) -> Value | None:
    value = op.operands[0]
    if value.shape == op.result.shape:
        return value
    literal = _literal(value)
    if literal is not None:
        if literal.splat:
            return rewriter.constant(literal.reshaped(op.result.shape))
        if num_elements(literal.shape) <= _SMALL:
            index = tuple(
                slice(b, e, s)
                for b, e, s in zip(
                    op.attrs["start_indices"], op.attrs["limit_indices"], op.attrs["strides"], strict=True
                )
            )
            return rewriter.constant(Literal.from_numpy(literal.dtype, literal.numpy()[index]))
    if value.op is not None and value.op.name == "concatenate":
        return _slice_of_part(op, value.op, rewriter)
    return None


def _slice_of_part(op: Op, concatenation: Op, rewriter: Rewriter) -> Value | None:
    """A slice that lies in one of the values that are concatenated, as a slice of that."""
    dim = concatenation.attrs["dimension"]
    begins, ends = list(op.attrs["start_indices"]), list(op.attrs["limit_indices"])
    first = 0
    for part in concatenation.operands:
        size = part.shape[dim]
        if first <= begins[dim] and ends[dim] <= first + size:
            begins[dim] -= first
            ends[dim] -= first
            return rewriter.slice(part, tuple(begins), tuple(ends), tuple(op.attrs["strides"]))
        first += size
    return None


def _concatenate(op: Op, rewriter: Rewriter) -> Value | None:
    dim = op.attrs["dimension"]
    parts = [p for o in op.operands for p in _parts(o, dim)]
    if len(parts) > len(op.operands):
        return rewriter.emit("concatenate", parts, op.result.shape, op.result.dtype, {"dimension": dim})
    pieces = [o for o in op.operands if o.shape[dim] != 0]
    if len(pieces) == len(op.operands):
        return pieces[0] if len(pieces) == 1 else None
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return op.operands[0]
    return rewriter.emit("concatenate", pieces, op.result.shape, op.result.dtype, {"dimension": dim})


def _parts(value: Value, dim: int) -> list[Value]:
    """What a value is concatenated of along `dim`, if that is all it is used for."""
    inner = value.op
    if inner is None or inner.name != "concatenate" or inner.attrs["dimension"] != dim or len(value.users) > 1:
        return [value]
    return inner.operands


def _reverse(op: Op, rewriter: Rewriter) -> Value | None:
    value = op.operands[0]
    dims = tuple(d for d in op.attrs["dimensions"] if value.shape[d] > 1)
    return value if not dims or splat_of(value) is not None else None


def _pad(op: Op, rewriter: Rewriter) -> Value | None:
    value, padding = op.operands
    if not any(any(op.attrs[k]) for k in ("edge_padding_low", "edge_padding_high", "interior_padding")):
        return value
    literal = splat_of(padding)
    if literal is not None and num_elements(value.shape) == 0:
        return rewriter.constant(literal.reshaped(op.result.shape))
    return None


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
    elif op.name == "divide":
        if op.result.dtype not in FLOAT:
            return None
        with np.errstate(all="ignore"):
            result = np.divide(*values)
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
    return _fold(op, rewriter)


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
    literal = _literal(b if view is None else view.operands[0])
    if literal is None or dtype not in ("f32", "f64") or num_elements(literal.shape) > _SMALL:
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
        return None
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
    "broadcast_in_dim": compose_broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "pad": _pad,
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
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "reduce": _reduce,
}
