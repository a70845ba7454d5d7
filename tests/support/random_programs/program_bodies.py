"""Bodies of reductions and the like, which jax.lax does not write: as StableHLO text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import jax.numpy as jnp

from support.programs import COMPLEX, FLOATS, Drawer, Step, Value
from support.stablehlo_text import region, tensor


@dataclasses.dataclass(frozen=True)
class Reducer:
    """An associative, commutative body over as many values as there are identities.

    body computes %c0, %c1, ... from %a0, %b0, %a1, %b1, ...; "T" stands for their type. grows: whether the result grows
    with the number of terms.
    """

    body: str
    identities: tuple[str, ...]
    grows: bool


def _one(name: str, identity: str, *, grows: bool = False) -> Reducer:
    return Reducer(f"%c0 = stablehlo.{name} %a0, %b0 : T", (identity,), grows)


_PRODUCT_OF_PAIRS = (
    "%p = stablehlo.multiply %a0, %b0 : T %q = stablehlo.multiply %a1, %b1 : T "
    "%s = stablehlo.multiply %b0, %a1 : T %t = stablehlo.multiply %a0, %b1 : T "
    "%c0 = stablehlo.subtract %p, %q : T %c1 = stablehlo.add %t, %s : T"
)


_SUM_AND_LARGEST = "%c1 = stablehlo.maximum %b1, %a1 : T %c0 = stablehlo.add %b0, %a0 : T"


_LARGEST_AND_ITS_SMALLEST = (
    "%g = stablehlo.compare GT, %a0, %b0 : (T, T) -> tensor<i1> %e = stablehlo.compare EQ, %a0, %b0 : (T, T) -> "
    "tensor<i1> %m = stablehlo.minimum %a1, %b1 : T %w = stablehlo.select %g, %a1, %b1 : tensor<i1>, T "
    "%c0 = stablehlo.maximum %a0, %b0 : T %c1 = stablehlo.select %e, %m, %w : tensor<i1>, T"
)


_SUM_WITHOUT_PRODUCT = (  # a + b - a b
    "%p = stablehlo.multiply %a0, %b0 : T %s = stablehlo.add %a0, %b0 : T %c0 = stablehlo.subtract %s, %p : T"
)


_IF_LARGER = (
    "%g = stablehlo.compare LT, %a0, %b0 : (T, T) -> tensor<i1> "
    '%c0 = "stablehlo.if"(%g) ({ stablehlo.return %b0 : T }, { stablehlo.return %a0 : T }) : (tensor<i1>) -> T'
)


def reducers(dtype: str) -> list[Reducer]:
    """Returns the reducers for values of a type."""
    if dtype == "bool":
        return [_one("and", "true"), _one("or", "false"), _one("xor", "false")]
    if dtype in COMPLEX:
        return [_one("add", "(0.0, 0.0)", grows=True)]
    if dtype in FLOATS:
        width = {"float16": 4, "bfloat16": 4, "float32": 8, "float64": 16}[dtype]
        infinities = {"float16": ("7C00", "FC00"), "bfloat16": ("7F80", "FF80"), "float32": ("7F800000", "FF800000")}
        infinities["float64"] = ("7FF" + "0" * 13, "FFF" + "0" * 13)
        high, low = (f"0x{bits}" for bits in infinities[dtype])
        assert len(high) == width + 2
        pair = Reducer(_SUM_AND_LARGEST, ("0.0", low), True)
        return [_one("add", "0.0", grows=True), _one("maximum", low), _one("minimum", high), pair]
    info = jnp.iinfo(dtype)
    low, high = str(info.min), str(info.max)
    return [
        _one("add", "0"),
        _one("multiply", "1"),
        _one("xor", "0"),
        _one("and", "-1" if info.min else high),
        _one("or", "0"),
        _one("maximum", low),
        _one("minimum", high),
        Reducer(_PRODUCT_OF_PAIRS, ("1", "0"), False),
        Reducer(_SUM_AND_LARGEST, ("0", low), False),
        Reducer(_LARGEST_AND_ITS_SMALLEST, (low, high), False),
        Reducer(_SUM_WITHOUT_PRODUCT, ("0",), False),
        Reducer(_IF_LARGER, (low,), False),
    ]


def typed(body: str, scalar: str) -> str:
    """Returns the body with a type in place of T."""
    return re.sub(r"\bT\b", scalar, body)


def body_text(reducer: Reducer, dtype: str) -> str:
    """Returns the text of the region. StableHLO lists all %a first, then all %b."""
    scalar = tensor((), dtype)
    count = range(len(reducer.identities))
    arguments = [(f"%{side}{i}", scalar) for side in "ab" for i in count]
    return region(arguments, typed(reducer.body, scalar), [(f"%c{i}", scalar) for i in count])


def call(
    name: str,
    shapes: Sequence[tuple[Sequence[int], str]],
    operands: Sequence[str],
    constants: Sequence[tuple[str, str]],
    results: Sequence[tuple[Sequence[int], str]],
    tail: str,
) -> str:
    """Returns the text of hlo(...) for one generic operation over operands and scalar constants (number, dtype)."""
    made = " ".join(f"%k{i} = stablehlo.constant dense<{x}> : {tensor((), t)}" for i, (x, t) in enumerate(constants))
    names = [f"%{i}" for i in range(len(operands))] + [f"%k{i}" for i in range(len(constants))]
    types = [tensor(s, t) for s, t in shapes] + [tensor((), t) for _, t in constants]
    left = "%r" if len(results) == 1 else f"%r:{len(results)}"
    given = ", ".join(tensor(s, t) for s, t in results)
    body = f'{made} {left} = "stablehlo.{name}"({", ".join(names)}) {tail} : ({", ".join(types)}) -> ({given})'
    return f"hlo({body!r}, {[(tuple(s), t) for s, t in results]}, {', '.join(operands)})"


def others(d: Drawer, v: Value, count: int, **kind: bool) -> tuple[list[str], float, float]:
    """Returns the text of `count` more values like v, and the largest bound and error of all."""
    names, bound, error = [v.name], v.bound, v.error
    for _ in range(count):
        name, w = d.partner(v, **kind)
        names.append(name)
        bound, error = max(bound, w.bound), max(error, w.error)
    return names, bound, error


def reducer_for(d: Drawer, dtype: str) -> Reducer:
    return d.pick(reducers(dtype))


def grown_step(text: str, reducer: Reducer, bound: float, error: float, terms: int) -> Step:
    terms = max(1, terms) if reducer.grows else 1
    return Step(text, bound * terms, error * terms, terms if reducer.grows else 0, special=True)
