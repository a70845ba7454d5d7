"""Windows of random programs: pooling and its gradient, cumulative operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from support.programs import COMPLEX, FLOATS, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, copy
from support.random_programs.program_bodies import body_text, call, grown_step, others, reducer_for, reducers
from support.random_programs.program_reduce import LARGER, least
from support.stablehlo_text import array, region, tensor


def cumulative(d: Drawer) -> Step:
    v = d.value(REAL, min_rank=1)
    axis = d.integer(0, v.rank - 1)
    count = max(1, v.shape[axis])
    if v.dtype in INTS and d.flag():
        return Step(f"lax.cumprod({v.name}, {axis}, {d.flag()})")
    if v.dtype in FLOATS and not v.special and d.integer(0, 3) == 0:
        text = f"lax.cumlogsumexp({v.name}, {axis}, {d.flag()})"
        return Step(text, v.bound + math.log(count) + 1, v.error, 4 * count, inexact=True)
    if d.flag():
        return copy(v, f"lax.{d.pick(('cummax', 'cummin'))}({v.name}, {axis}, {d.flag()})")
    return Step(f"lax.cumsum({v.name}, {axis}, {d.flag()})", v.bound * count, v.error * count, count)


def reduce_window(d: Drawer) -> Step:
    v = d.value(REAL, min_rank=1)
    window, stride, base, dilation = (tuple(d.integer(1, high) for _ in v.shape) for high in (3, 2, 2, 2))
    padding = tuple((d.integer(0, 2), d.integer(0, 2)) for _ in v.shape)
    name = d.pick(("add", "max", "min"))
    end = "-np.inf" if name == "max" else "np.inf"
    edge = f"np.{v.dtype}(np.iinfo('{v.dtype}').{'min' if name == 'max' else 'max'})"
    initial = "0" if name == "add" else end if v.dtype in FLOATS else edge
    text = f"lax.reduce_window({v.name}, {initial}, lax.{name}, {window}, {stride}, {padding}, {base}, {dilation})"
    count = math.prod(window)
    if name == "add":
        return Step(text, v.bound * count, v.error * count, count)
    return Step(text, v.bound, v.error, special=True)


def window_gradient(d: Drawer) -> Step:
    """select_and_scatter, through the gradient of max pooling."""
    v = d.value(("float32", "float16", "bfloat16"), exact=True, finite=True, min_rank=1)
    if 0 in v.shape or v.bound > 100:
        raise Unsuitable
    window = tuple(d.integer(1, min(3, n)) for n in v.shape)
    stride = tuple(d.integer(1, 2) for _ in v.shape)
    end, choice = d.pick((("-np.inf", "max"), ("np.inf", "min")))
    pool = f"lambda x: lax.reduce_window(x, {end}, lax.{choice}, {window}, {stride}, '{d.pick(('valid', 'same'))}')"
    text = f"(lambda pool: jax.vjp(pool, {v.name})[1](pool({v.name}))[0])({pool})"
    count = math.prod(window)
    return Step(text, v.bound * count, 0, count)


def window_pair(d: Drawer) -> Step:
    """The largest element of each window and its position."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    window, stride = (tuple(d.integer(1, high) for _ in v.shape) for high in (3, 2))
    padding = [(d.integer(0, 1), d.integer(0, 2)) for _ in v.shape]
    operands = f"({v.name}, lax.broadcasted_iota('int32', {v.shape}, {d.integer(0, v.rank - 1)}))"
    text = f"lax.reduce_window({operands}, ({least(v.dtype)}, jnp.int32(99)), {LARGER}, {window}, {stride}, {padding})"
    return Step(text, v.bound, 0, special=True)


def _window(
    d: Drawer, shape: Sequence[int], *, dilated: bool
) -> tuple[list[list[int]], list[tuple[int, int]], list[int]]:
    """Draws sizes, strides, base dilations, window dilations and padding. The sizes of the result are not negative."""
    rank = len(shape)
    small = rank > 3
    window = [d.integer(1, 2 if small else 5) for _ in shape]
    stride = [d.integer(1, 3) for _ in shape]
    base, dilation = ([d.integer(1, 3 if dilated and not small else 1) for _ in shape] for _ in range(2))
    padding, result = [], []
    for i, n in enumerate(shape):
        spread = max(0, (n - 1) * base[i] + 1) if n else 0
        low = d.integer(-min(2, spread) if dilated else 0, min(3, window[i] - 1) if not dilated else 3)
        high = d.integer(-min(2, max(0, spread + low)) if dilated else 0, 3)
        padding.append((low, high))
        extent = (window[i] - 1) * dilation[i] + 1
        result.append(max(0, (spread + low + high - extent) // stride[i] + 1))
    return [window, stride, base, dilation], padding, result


def _pairs(padding: Sequence[tuple[int, int]]) -> str:
    return f"dense<{[list(p) for p in padding]}> : tensor<{len(padding)}x2xi64>"


def window_by_body(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    reducer = reducer_for(d, v.dtype)
    n = len(reducer.identities)
    names, bound, error = others(d, v, n - 1)
    (window, stride, base, dilation), padding, result = _window(d, v.shape, dilated=True)
    attributes = (
        f"window_dimensions = {array(window)}, window_strides = {array(stride)}, base_dilations = {array(base)}, "
        f"window_dilations = {array(dilation)}, padding = {_pairs(padding)}"
    )
    if math.prod(result) * math.prod(window) > 50_000:
        raise Unsuitable
    text = call(
        "reduce_window", [(v.shape, v.dtype)] * n, names, [(x, v.dtype) for x in reducer.identities],
        [(result, v.dtype)] * n, f"{body_text(reducer, v.dtype)} {{{attributes}}}",
    )  # fmt: skip
    return grown_step(text, reducer, bound, error, math.prod(window))


def select_and_scatter(d: Drawer) -> Step:
    """Ties select the first element. In windows of several dimensions, whose order is open, all differ."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    reducer = d.pick([r for r in reducers(v.dtype) if len(r.identities) == 1])
    (window, stride, _, _), padding, result = _window(d, v.shape, dilated=False)
    if 0 in result:
        raise Unsuitable
    operand = v.name
    if sum(n > 1 for n in window) > 1:
        if v.size > 120:
            raise Unsuitable
        operand = f"jnp.argsort({v.name}.reshape(-1)).reshape({v.shape}).astype('{v.dtype}')"
    w = d.value((v.dtype,))
    scalar = tensor((), v.dtype)
    compared = f"%p = stablehlo.compare {d.pick(('GE', 'LE'))}, %a, %b : ({scalar}, {scalar}) -> tensor<i1>"
    select = region([("%a", scalar), ("%b", scalar)], compared, [("%p", "tensor<i1>")])
    attributes = f"window_dimensions = {array(window)}, window_strides = {array(stride)}, padding = {_pairs(padding)}"
    regions = f"({select[1:-1]}, {body_text(reducer, v.dtype)[1:-1]})"
    text = call(
        "select_and_scatter", [(v.shape, v.dtype), (result, v.dtype)], [operand, f"fit({w.name}, {tuple(result)})"],
        [(reducer.identities[0], v.dtype)], [(v.shape, v.dtype)], f"{regions} {{{attributes}}}",
    )  # fmt: skip
    return grown_step(text, reducer, w.bound, w.error, math.prod(window))


OPERATIONS = (cumulative, reduce_window, select_and_scatter, window_by_body, window_gradient, window_pair)
