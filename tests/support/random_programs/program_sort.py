"""Sorts of random programs."""

from __future__ import annotations

from support.programs import COMPLEX, EPSILON, FLOATS, INTS, ORDERED, REAL, Drawer, Step, copy
from support.random_programs.program_bodies import call
from support.stablehlo_text import region, tensor


def sort(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX), exact=True, min_rank=1)
    axis = d.integer(0, v.rank - 1)
    kind = d.integer(0, 3)
    if kind == 0:
        return copy(v, f"lax.sort({v.name}, dimension={axis})")
    if kind == 1:
        return Step(f"jnp.argsort({v.name}, {axis}, stable=True, descending={d.flag()})")
    if kind == 2:
        second, third = d.value(ORDERED, exact=True), d.value()
        fitted = [f"fit({w.name}, {v.shape})" for w in (second, third)]
        text = f"lax.sort(({v.name}, {', '.join(fitted)}), dimension={axis}, num_keys=2, is_stable=True)"
        floats = [w for w in (v, second, third) if w.dtype in EPSILON]
        return Step(text, max([w.bound for w in floats], default=0), max([w.error for w in floats], default=0))
    other = d.value()
    text = f"lax.sort(({v.name}, fit({other.name}, {v.shape})), dimension={axis}, num_keys=1, is_stable=True)"
    return Step(text, max(v.bound, other.bound) if other.dtype in EPSILON else v.bound, other.error)


def top_k(d: Drawer) -> Step:
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    return copy(v, f"lax.top_k({v.name}, {d.integer(0, v.shape[-1])})")


# Computes %p from %a0, %b0, %a1, %b1 of the types T0 and T1; the types are those that the first operand may have.
_LESS = "%p = stablehlo.compare {}, %a{}, %b{} : (T{}, T{}) -> tensor<i1>"


_SIGNED = ("int8", "int16", "int32", "int64", *FLOATS)


COMPARATORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_LESS.format("LT", 0, 0, 0, 0), ORDERED),
    (_LESS.format("GT", 0, 0, 0, 0), ORDERED),
    (_LESS.format("LT", 1, 1, 1, 1), ORDERED),
    (_LESS.format("GT", 1, 1, 1, 1), ORDERED),
    ("%p = stablehlo.compare GT, %b0, %a0 : (T0, T0) -> tensor<i1>", ORDERED),
    (
        "%x = stablehlo.abs %a0 : T0 %y = stablehlo.abs %b0 : T0 "
        "%p = stablehlo.compare LT, %x, %y : (T0, T0) -> tensor<i1>",
        _SIGNED,
    ),
    (
        "%x = stablehlo.negate %a0 : T0 %y = stablehlo.negate %b0 : T0 "
        "%p = stablehlo.compare LT, %x, %y : (T0, T0) -> tensor<i1>",
        (*FLOATS, *INTS),
    ),
    (
        "%k = stablehlo.constant dense<3> : T0 %x = stablehlo.remainder %a0, %k : T0 "
        "%y = stablehlo.remainder %b0, %k : T0 %p = stablehlo.compare GT, %x, %y : (T0, T0) -> tensor<i1>",
        INTS,
    ),
    (
        "%e = stablehlo.compare EQ, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%g = stablehlo.compare GT, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%l = stablehlo.compare LT, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%s = stablehlo.and %e, %l : tensor<i1> %p = stablehlo.or %g, %s : tensor<i1>",
        ORDERED,
    ),
    (
        "%e = stablehlo.compare EQ, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%g = stablehlo.compare GT, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%l = stablehlo.compare GT, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%p = stablehlo.select %e, %l, %g : tensor<i1>, tensor<i1>",
        ORDERED,
    ),
)


def sort_by_body(d: Drawer) -> Step:
    """Sorts two to four operands by any comparator."""
    comparator, dtypes = d.pick(COMPARATORS)
    v = d.value(dtypes, exact=True, finite=True, min_rank=1)
    operands = [v, d.value(ORDERED, exact=True, finite=True), *(d.value() for _ in range(d.integer(0, 2)))]
    kinds = [tensor((), w.dtype) for w in operands]
    arguments = [(f"%{side}{i}", kinds[i]) for i in range(len(operands)) for side in "ab"]
    body = comparator.replace("T0", kinds[0]).replace("T1", kinds[1])
    tail = (
        f"{region(arguments, body, [('%p', 'tensor<i1>')])} "
        f"{{dimension = {d.integer(0, v.rank - 1)} : i64, is_stable = true}}"
    )
    names = [w.name if w.shape == v.shape else f"fit({w.name}, {v.shape})" for w in operands]
    shapes = [(v.shape, w.dtype) for w in operands]
    floats = [w for w in operands if w.dtype in EPSILON]
    bound, error = (max([getattr(w, k) for w in floats], default=0) for k in ("bound", "error"))
    return Step(call("sort", shapes, names, [], shapes, tail), bound, error)


OPERATIONS = (sort, sort_by_body, top_k)
