"""Reductions, products, windows, transforms, solvers and random bits of random programs."""

from __future__ import annotations

import math
from collections.abc import Callable

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
    if v.dtype == "bool" or (v.dtype in INTS and d.flag()):
        return Step(f"lax.{d.pick(('reduce_and', 'reduce_or', 'reduce_xor'))}({v.name}, {dims})")
    if 0 in v.shape:
        raise Unsuitable
    if v.error == 0 and d.integer(0, 2) == 0:
        return Step(f"lax.{d.pick(('argmax', 'argmin'))}({v.name}, {dims[0]}, 'int32')")
    return copy(v, f"lax.{d.pick(('reduce_max', 'reduce_min'))}({v.name}, {dims})")


# Equal values take the smaller index, so that the order of the reduction does not matter.
LARGER = (
    "lambda a, b: ((lambda first: (lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])))"
    "((a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))))"
)


def _least(dtype: str) -> str:
    """Text of the smallest value."""
    return f"jnp.asarray({'-jnp.inf' if dtype in FLOATS else f'jnp.iinfo({dtype!r}).min'}, '{dtype}')"


def reduce_pair(d: Drawer) -> Step:
    """A reduction with two operands and a body that is no single operation."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    operands = f"({v.name}, lax.broadcasted_iota('int32', {v.shape}, {d.integer(0, v.rank - 1)}))"
    text = f"lax.reduce({operands}, ({_least(v.dtype)}, jnp.int32(99)), {LARGER}, {d.dims(v)})"
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
    # XLA:CPU without its simplifier does not write the result of a sum over nothing.
    if not math.prod(v.shape[i] for i in contract):
        raise Unsuitable
    numbers = ((contract, [position(i) for i in contract]), (batch, [position(i) for i in batch]))
    terms = max(1, math.prod(v.shape[i] for i in contract)) * (2 if v.dtype in COMPLEX else 1)
    wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int8": "int32", "int16": "int64"}
    how = f"precision='{d.pick(('default', 'high', 'highest'))}'"
    if v.dtype in wider and d.flag():
        how += f", preferred_element_type='{wider[v.dtype]}'"
    return Step(
        f"lax.dot_general({v.name}, fit({w.name}, {shape}), {numbers}, {how})",
        terms * v.bound * w.bound,
        terms * (v.error * w.bound + w.error * v.bound),
        terms,
    )


def convolution(d: Drawer) -> Step:
    v = d.value((*FLOATS, *COMPLEX, *INTS), finite=True)
    w = d.value((v.dtype,), finite=True)
    rank, channels, features = d.integer(0, 3), d.integer(1, 3), d.integer(1, 3)
    groups, batch_groups = d.pick(((1, 1), (2, 1), (1, 2)))
    space = [d.integer(1, 6 if rank < 3 else 4) for _ in range(rank)]
    window = [d.integer(1, 3 if rank < 3 else 2) for _ in range(rank)]
    lhs = (batch_groups * d.integer(1, 2), groups * channels, *space)
    rhs = (groups * batch_groups * features, channels, *window)
    # Where each of batch or features, channels and the spatial dimensions is.
    places = [d.order(rank + 2) if d.flag() else tuple(range(rank + 2)) for _ in range(3)]
    lhs, rhs = (tuple(s[p.index(i)] for i in range(rank + 2)) for s, p in zip((lhs, rhs), places[:2], strict=True))
    stride, base, dilation = ([d.integer(1, 2) for _ in range(rank)] for _ in range(3))
    padding = [(d.integer(-1, 3), d.integer(0, 3)) for _ in range(rank)]
    text = (
        f"lax.conv_general_dilated(fit({v.name}, {lhs}), fit({w.name}, {rhs}), {stride}, {padding}, "
        f"{base}, {dilation}, lax.ConvDimensionNumbers(*{places}), feature_group_count={groups}, "
        f"batch_group_count={batch_groups})"
    )
    terms = channels * math.prod(window) * (2 if v.dtype in COMPLEX else 1)
    return Step(text, terms * v.bound * w.bound, terms * (v.error * w.bound + w.error * v.bound), terms)


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
    """The largest element of each window and its place."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    window, stride = (tuple(d.integer(1, high) for _ in v.shape) for high in (3, 2))
    padding = [(d.integer(0, 1), d.integer(0, 2)) for _ in v.shape]
    operands = f"({v.name}, lax.broadcasted_iota('int32', {v.shape}, {d.integer(0, v.rank - 1)}))"
    text = f"lax.reduce_window({operands}, ({_least(v.dtype)}, jnp.int32(99)), {LARGER}, {window}, {stride}, {padding})"
    return Step(text, v.bound, 0, special=True)


def fft(d: Drawer) -> Step:
    v = d.value(("float32", "float64", *COMPLEX), finite=True, min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    lengths = list(v.shape[-d.integer(1, min(3, v.rank)) :])
    kind = d.pick(("FFT", "IFFT", "IRFFT")) if v.dtype in COMPLEX else "RFFT"
    if kind == "IRFFT":
        lengths[-1] = max(1, 2 * lengths[-1] - d.integer(1, 2))
    n = 2 * math.prod(lengths)
    return Step(f"lax.fft({v.name}, '{kind}', {tuple(lengths)})", v.bound * n, v.error * n, 8, inexact=True)


def solve(d: Drawer) -> Step:
    """Factors of well-conditioned matrices, and solutions of such triangular systems."""
    v = d.value(("float32", "float64", *COMPLEX), finite=True, min_rank=1)
    n = d.integer(1, 6)
    batch = d.pick(((), (), (2,)))
    small = f"(lambda x: x / (1 + lax.abs(x)) / {n})(fit({v.name}, {(*batch, n, n)}))"
    if d.flag():
        text = f"lax.linalg.cholesky((lambda a: a + jnp.swapaxes(a.conj(), -1, -2) + 4 * jnp.eye({n}))({small}).astype"
        return Step(f"{text}('{v.dtype}'), symmetrize_input=False)", 3, 4 * n * v.error, 8 * n, inexact=True)
    w = d.value((v.dtype,), finite=True)
    left, lower, transposed, conjugated, unit = (d.flag() for _ in range(5))
    shape = (*batch, n, d.integer(1, 3)) if left else (*batch, d.integer(1, 3), n)
    text = (
        f"lax.linalg.triangular_solve(({small} + 2 * jnp.eye({n})).astype('{v.dtype}'), fit({w.name}, {shape}), "
        f"left_side={left}, lower={lower}, transpose_a={transposed}, conjugate_a={conjugated}, unit_diagonal={unit})"
    )
    grown = 2.0**n
    return Step(text, grown * w.bound, grown * w.error + grown**2 * 2 * v.error * w.bound, 8 * n, inexact=True)


def generator(d: Drawer) -> Step:
    """The state of a generator after it made some bits, and those."""
    v = d.value(INTS)
    key = f"lax.convert_element_type(fit({v.name}, (4,)), 'uint32')"
    dtype = d.pick(("uint8", "uint16", "uint32", "uint64"))
    return Step(f"lax.rng_bit_generator({key}, {d.shape(3)}, '{dtype}', {d.integer(0, 2)})")


# Function of x whose gradient is taken, and the largest sum of the magnitudes of the factors in a column of its
# derivative, where no dimension of x is longer than n.
LINEAR: dict[str, Callable[[int], float]] = {
    "lax.cumsum(x, 0)": lambda n: n,
    "lax.pad(x, jnp.zeros((), x.dtype), [(2, -1, 1)] * x.ndim)": lambda n: 1,
    "lax.dynamic_slice_in_dim(x, jnp.int32(2), 1, 0)": lambda n: 1,
    "lax.dynamic_update_slice_in_dim(x, x[:1], 1, 0)": lambda n: 2,
    "x[::-2]": lambda n: 1,
    "jnp.concatenate([x, x[1:]])": lambda n: 2,
    "jnp.broadcast_to(x, (3, *x.shape))": lambda n: 3,
    "x[np.array([0, -1, 0, 5])]": lambda n: 3,
    "x.at[np.array([0, -1, 0])].add(x[:1])": lambda n: 4,
    "lax.scan(lambda c, y: (c + y, c - y), x[0], x)": lambda n: 2 * n + 2,
    "lax.fori_loop(0, 3, lambda i, y: y + lax.rev(y, (0,)), x)": lambda n: 8,
    "lax.cond(x.size > 3, lambda y: y + y, lambda y: -y, x)": lambda n: 2,
    "lax.switch(jnp.argmax(x.reshape(-1)) % 3, [lambda y: y + y, lambda y: -y, lambda y: y[::-1]], x)": lambda n: 2,
    "lax.dot_general(x, lax.full((x.shape[0], 2), 1, x.dtype), (((0,), (0,)), ((), ())))": lambda n: 2,
    "lax.conv_general_dilated(x.reshape(1, 1, -1), jnp.ones((2, 1, 3), x.dtype), (2,), [(1, 2)], (2,))": lambda n: 6,
    "lax.reduce_window(x, 0.0, lax.add, (2,) * x.ndim, (1,) * x.ndim, 'SAME')": lambda n: 16,
    "jax.checkpoint(lambda y: y + y[::-1])(x)": lambda n: 2,
    "lax.sort(x, dimension=0)": lambda n: 1,
    "lax.select(x > 1, x, -x)": lambda n: 1,
    "lax.reduce_max(x, (0,))": lambda n: 1,
}


def gradient(d: Drawer) -> Step:
    v = d.value(("float32", "float64", "float16"), exact=True, finite=True, min_rank=1)
    w = d.value((v.dtype,))
    if 0 in v.shape or v.rank > 4:
        raise Unsuitable
    function = d.pick(tuple(LINEAR))
    terms = LINEAR[function](max(v.shape))
    back = f"(lambda y, vjp: vjp(jax.tree.map(lambda z: fit({w.name}, z.shape), y))[0])"
    text = f"{back}(*jax.vjp(lambda x: {function}, {v.name}))"
    return Step(text, w.bound * terms, w.error * terms, int(terms) + 1, inexact="max" in function)


OPERATIONS = (
    convolution, cumulative, dot_general, fft, generator, gradient, reduce_order, reduce_pair, reduce_sum,
    reduce_window, solve, window_gradient, window_pair,
)  # fmt: skip
