"""Reductions, products, windows, transforms and control flow of random programs."""

from __future__ import annotations

import math

from support.programs import COMPLEX, FLOATS, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, copy


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
    if v.dtype == "bool":
        return Step(f"lax.{d.pick(('reduce_and', 'reduce_or', 'reduce_xor'))}({v.name}, {dims})")
    if 0 in v.shape:
        raise Unsuitable
    if v.error == 0 and d.integer(0, 2) == 0:
        return Step(f"lax.{d.pick(('argmax', 'argmin'))}({v.name}, {dims[0]}, 'int32')")
    return copy(v, f"lax.{d.pick(('reduce_max', 'reduce_min'))}({v.name}, {dims})")


def reduce_pair(d: Drawer) -> Step:
    """A reduction with two operands and a body that is no single operation."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    # Equal values take the smaller index, so that the order of the reduction does not matter.
    body = (
        "lambda a, b: ((lambda first: (lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])))"
        "((a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))))"
    )
    least = f"jnp.asarray(-jnp.inf if '{v.dtype}' in {FLOATS} else jnp.iinfo('{v.dtype}').min, '{v.dtype}')"
    operands = f"({v.name}, lax.broadcasted_iota('int32', {v.shape}, {d.integer(0, v.rank - 1)}))"
    text = f"lax.reduce({operands}, ({least}, jnp.int32(99)), {body}, {d.dims(v)})"
    return Step(text, v.bound, 0, special=True)


def dot_general(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX), finite=True)
    w = d.value((v.dtype,), finite=True)
    kinds = [d.pick("fcb") for _ in v.shape]
    shared = [i for i in range(v.rank) if kinds[i] != "f"]
    order = [shared[i] for i in d.order(len(shared))]
    free = [d.pick((1, 2, 3, 5)) for _ in range(d.integer(0, 2))]
    place = d.integer(0, len(order))
    shape = (*(v.shape[i] for i in order[:place]), *free, *(v.shape[i] for i in order[place:]))

    def position(i: int) -> int:
        at = order.index(i)
        return at if at < place else at + len(free)

    if math.prod(shape) > 2000:
        raise Unsuitable
    contract, batch = ([i for i in shared if kinds[i] == k] for k in "cb")
    numbers = ((contract, [position(i) for i in contract]), (batch, [position(i) for i in batch]))
    terms = max(1, math.prod(v.shape[i] for i in contract)) * (2 if v.dtype in COMPLEX else 1)
    return Step(
        f"lax.dot_general({v.name}, fit({w.name}, {shape}), {numbers})",
        terms * v.bound * w.bound,
        terms * (v.error * w.bound + w.error * v.bound),
        terms,
    )


def convolution(d: Drawer) -> Step:
    v = d.value(("float32", "float16", "bfloat16", "float64"), finite=True)
    w = d.value((v.dtype,), finite=True)
    rank, groups, channels, features = d.integer(1, 2), d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)
    space = [d.integer(1, 6) for _ in range(rank)]
    window = [d.integer(1, 3) for _ in range(rank)]
    lhs, rhs = (d.integer(1, 2), groups * channels, *space), (groups * features, channels, *window)
    stride, base, dilation = ([d.integer(1, 2) for _ in range(rank)] for _ in range(3))
    padding = [(d.integer(0, 3), d.integer(0, 3)) for _ in range(rank)]
    text = (
        f"lax.conv_general_dilated(fit({v.name}, {lhs}), fit({w.name}, {rhs}), {stride}, {padding}, "
        f"{base}, {dilation}, feature_group_count={groups})"
    )
    terms = channels * math.prod(window)
    return Step(text, terms * v.bound * w.bound, terms * (v.error * w.bound + w.error * v.bound), terms)


def cumulative(d: Drawer) -> Step:
    v = d.value(REAL, min_rank=1)
    axis = d.integer(0, v.rank - 1)
    count = max(1, v.shape[axis])
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
    pool = f"lambda x: lax.reduce_window(x, -np.inf, lax.max, {window}, {stride}, 'valid')"
    text = f"(lambda pool: jax.vjp(pool, {v.name})[1](pool({v.name}))[0])({pool})"
    count = math.prod(window)
    return Step(text, v.bound * count, 0, count)


def fft(d: Drawer) -> Step:
    v = d.value(COMPLEX, finite=True, min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    n = v.shape[-1]
    kind = d.pick(("FFT", "IFFT"))
    return Step(f"lax.fft({v.name}, '{kind}', ({n},))", v.bound * n, v.error * n, 8, inexact=True)


def loop(d: Drawer) -> Step:
    v = d.value((*INTS, "float32"), exact=True)
    other, w = d.partner(v, exact=True)
    count = d.integer(0, 4)
    body = d.pick((f"x + {other}", f"lax.max(x, {other}) - x", f"lax.rev({other}, {tuple(range(v.rank))}) - x"))
    start, result = f"({v.name}, jnp.int32(0))", v.bound + count * (v.bound + w.bound)
    if d.flag():
        return Step(f"lax.fori_loop(0, {count}, lambda i, x: {body}, {v.name})", result * 2**count, rounds=1)
    condition = f"lambda c: c[1] < {d.index()}"
    text = f"lax.while_loop({condition}, lambda c: ((lambda x: {body})(c[0]), c[1] + 1), {start})"
    return Step(text, (v.bound + 9 * (v.bound + w.bound)) * 2**9, rounds=1)


# Next values of the carried a, b and c, which change places, are read after they are written, and are viewed.
CARRIES = (
    ("b", "a", "c + a"),
    ("b + c", "a", "b"),
    ("c", "lax.rev(a, tuple(range(a.ndim)))", "b"),
    ("lax.max(a, b)", "lax.max(a, b) - c", "c"),
    ("fit(c.reshape(-1)[1:], a.shape)", "a", "lax.select(a > b, a, c)"),
    ("a.at[:1].set(b[1:2])", "b", "a"),
    ("lax.dynamic_update_slice(a, b[1:], (i,) + (0,) * (a.ndim - 1))", "a", "c - b"),
    ("jnp.roll(a, 1, 0)", "jnp.roll(b, i, 0)", "b"),
    ("lax.cond(i % 2 == 0, lambda x: x, lambda x: x - b, a)", "lax.cond(i == 1, lambda x: c, lambda x: x, b)", "a"),
    ("lax.fori_loop(0, i, lambda j, x: b - x, a)", "c", "a + c"),
    ("a.at[jnp.array([0, 0, i])].add(b[:3] if len(b) > 2 else b[0])", "lax.sort(b, dimension=0)", "a"),
)


def carry(d: Drawer) -> Step:
    """A loop whose state changes places."""
    v = d.value((*INTS, "float32"), exact=True, finite=True, min_rank=1)
    if v.shape[0] < 2:
        raise Unsuitable
    (b, w), (c, x) = (d.partner(v, exact=True, finite=True) for _ in range(2))
    body, count = d.pick(CARRIES), d.integer(0, 4)
    text = f"lax.fori_loop(0, {count}, lambda i, s: (lambda a, b, c: ({', '.join(body)}))(*s), ({v.name}, {b}, {c}))"
    return Step(text, max(1, v.bound, w.bound, x.bound) * 6.0 ** (count + 1), rounds=1)


def scan(d: Drawer) -> Step:
    v = d.value((*INTS, "float32", "float16"), min_rank=1)
    count = v.shape[0]
    text = (
        f"lax.scan(lambda c, x: (c + x, lax.max(c, x)), jnp.zeros({v.shape[1:]}, '{v.dtype}'), {v.name}, "
        f"reverse={d.flag()})"
    )
    return Step(text, v.bound * max(1, count), v.error * max(1, count), max(1, count))


def branch(d: Drawer) -> Step:
    v = d.value(REAL)
    other, w = d.partner(v)
    branches = f"[lambda x, y: x + y, lambda x, y: lax.max(x, y), lambda x, y: y - x][:{d.integer(1, 3)}]"
    text = f"lax.switch({d.index()}, {branches}, {v.name}, {other})"
    return Step(text, v.bound + w.bound, v.error + w.error, 1)


OPERATIONS = (
    branch, carry, convolution, cumulative, dot_general, fft, loop, reduce_order, reduce_pair, reduce_sum,
    reduce_window, scan, window_gradient,
)  # fmt: skip
