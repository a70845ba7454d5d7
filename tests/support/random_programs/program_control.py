"""Control flow and calls of random programs."""

from __future__ import annotations

from support.programs import INTS, REAL, Drawer, Step, Unsuitable, copy


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


# Next values of the carried a, b and c. They swap places, are read after they are written, and are used through views.
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
    """A loop whose carried values swap places."""
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


# A function of functions (call it twice, or name it), a function of two values, and the growth factor of its result.
CALLS = (
    ("lambda f: lambda x, y: f(f(x, y), y)", "jax.jit(lambda x, y: x - y)", 2),
    ("lambda f: f", "lax.composite(lambda x, y: lax.max(x, y) - y, name='test.above')", 2),
    ("lambda f: lambda x, y: lax.rev(f(x, f(y, x)), ())", "jax.jit(lambda x, y: jax.jit(lax.min)(x, y) + y)", 3),
    ("lambda f: f", "jax.checkpoint(lambda x, y: lax.max(x, y) + x)", 2),
)


def call(d: Drawer) -> Step:
    v = d.value(REAL)
    other, w = d.partner(v)
    use, function, growth = d.pick(CALLS)
    bound, error = growth * (v.bound + w.bound), growth * (v.error + w.error)
    return Step(f"({use})({function})({v.name}, {other})", bound, error, 2 * growth)


def condition(d: Drawer) -> Step:
    """A branch on an element of the program; it contains a loop whose end depends on values."""
    v, predicate = d.value(INTS), d.value(("bool",))
    other, _ = d.partner(v)
    halve = "lambda x: lax.while_loop(lambda y: jnp.any(y > 5), lambda y: lax.div(y, lax.full_like(y, 2)), x)"
    branches = d.pick((f"{halve}, lambda x: x + {other}", f"lambda x: {other} - x, {halve}"))
    return Step(f"lax.cond(fit({predicate.name}, ()), {branches}, {v.name})")


def prefixes(d: Drawer) -> Step:
    v = d.value(REAL, min_rank=1)
    axis = d.integer(0, v.rank - 1)
    count = max(1, v.shape[axis])
    if d.flag():
        return copy(v, f"lax.associative_scan(lax.max, {v.name}, axis={axis}, reverse={d.flag()})")
    return Step(f"lax.associative_scan(lax.add, {v.name}, axis={axis})", v.bound * count, v.error * count, count)


# Branches with loops that contain branches, over a, an outer value b, and the iteration i.
NESTED = (
    "lax.switch(i % 3, [lambda x: lax.while_loop(lambda y: jnp.any(y > 3), lambda y: lax.cond(jnp.all(y > 9), "
    "lambda z: z - z // 2 * 2, lambda z: z // 2, y), x), lambda x: x + b, lambda x: b - x], a)",
    "lax.fori_loop(0, i, lambda j, x: lax.switch(j + i, [lambda y: y, lambda y: y + b, lambda y: b - y], x), a)",
    "lax.cond(i == 1, lambda x: lax.scan(lambda c, y: (lax.cond(jnp.any(c > y), lambda z: z - y, lambda z: y, c), c), "
    "x[0], b)[1], lambda x: lax.cond(i == 0, lambda y: y[::-1], lambda y: b, x), a)",
    "lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, lax.cond(s[0] == i, lambda y: y + s[1], lambda y: b, "
    "s[1])), (0, a))[1]",
)


def nested(d: Drawer) -> Step:
    """Loops in branches in a loop."""
    v = d.value(INTS, min_rank=1)
    if not v.shape[0]:
        raise Unsuitable
    b, _ = d.partner(v)
    body = d.pick(NESTED)
    return Step(f"(lambda b: lax.fori_loop(0, {d.integer(0, 3)}, lambda i, a: {body}, {v.name}))({b})")


# The callback's functions of NumPy arrays, which have the type and shape of its arguments.
CALLED = (
    "np.flip(x)",
    "np.where(y > x, x, y)",
    "np.sort(x, axis=None).reshape(x.shape)",
    "x.copy()",
    "np.ones_like(y)",
)


def callback(d: Drawer) -> Step:
    """A host function, called once or in a loop."""
    v = d.value(INTS)
    other, _ = d.partner(v)
    called = f"lambda x, y: np.asarray({d.pick(CALLED)}, x.dtype)"
    # The callback takes and returns NumPy arrays.
    once = f"jax.pure_callback({called}, jax.ShapeDtypeStruct({v.shape}, '{v.dtype}'), x, y, vmap_method='sequential')"
    if d.flag():
        return Step(f"(lambda x, y: {once})({v.name}, {other})")
    return Step(f"(lambda y: lax.fori_loop(0, {d.integer(0, 3)}, lambda i, x: {once} + x, {v.name}))({other})")


OPERATIONS = (branch, call, callback, carry, condition, loop, nested, prefixes, scan)
