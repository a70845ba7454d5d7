"""Reductions of random programs."""

from __future__ import annotations

import math

from support.programs import COMPLEX, FLOATS, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, copy
from support.random_programs.program_bodies import body_text, call, grown_step, others, reducer_for
from support.stablehlo_text import array

# Among equal values, the smaller index wins, so that the order of the reduction does not matter.
LARGER = (
    "lambda a, b: ((lambda first: (lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])))"
    "((a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))))"
)


def least(dtype: str) -> str:
    """Returns the text of the smallest value."""
    return f"jnp.asarray({'-jnp.inf' if dtype in FLOATS else f'jnp.iinfo({dtype!r}).min'}, '{dtype}')"


def reduce_sum(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX), min_rank=1)
    dims = d.dims(v)
    count = max(1, math.prod(v.shape[i] for i in dims))
    if v.dtype in INTS and d.flag():
        return Step(f"lax.reduce_prod({v.name}, {dims})")
    # XLA:CPU may round half-precision sums after each term.
    return Step(f"lax.reduce_sum({v.name}, {dims})", v.bound * count, v.error * count, count)


def reduce_order(d: Drawer) -> Step:
    v = d.value(ORDERED, min_rank=1)
    dims = d.dims(v)
    if v.dtype == "bool" or (v.dtype in INTS and d.flag()):
        return Step(f"lax.{d.pick(('reduce_and', 'reduce_or', 'reduce_xor'))}({v.name}, {dims})")
    if 0 in v.shape:
        raise Unsuitable
    if v.error == 0 and d.integer(0, 2) == 0:
        return Step(f"lax.{d.pick(('argmax', 'argmin'))}({v.name}, {dims[0]}, 'int32')")
    return copy(v, f"lax.{d.pick(('reduce_max', 'reduce_min'))}({v.name}, {dims})")


def reduce_pair(d: Drawer) -> Step:
    """A reduction with two operands and a body that is not a single operation."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    operands = f"({v.name}, lax.broadcasted_iota('int32', {v.shape}, {d.integer(0, v.rank - 1)}))"
    text = f"lax.reduce({operands}, ({least(v.dtype)}, jnp.int32(99)), {LARGER}, {d.dims(v)})"
    return Step(text, v.bound, 0, special=True)


def reduce(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    reducer, dims = reducer_for(d, v.dtype), d.dims(v)
    n = len(reducer.identities)
    names, bound, error = others(d, v, n - 1)
    result = [n for i, n in enumerate(v.shape) if i not in dims]
    text = call(
        "reduce", [(v.shape, v.dtype)] * n, names, [(x, v.dtype) for x in reducer.identities],
        [(result, v.dtype)] * n, f"{body_text(reducer, v.dtype)} {{dimensions = {array(dims)}}}",
    )  # fmt: skip
    return grown_step(text, reducer, bound, error, math.prod(v.shape[i] for i in dims))


OPERATIONS = (reduce, reduce_order, reduce_pair, reduce_sum)
