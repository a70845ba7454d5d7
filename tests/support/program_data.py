"""Operations of random programs that move and select data."""

from __future__ import annotations

from support.programs import COMPLEX, EPSILON, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, Value, copy


def constant(d: Drawer, v: Value) -> str:
    number = d.integer(0, 3)
    return f"jnp.asarray({number}, '{v.dtype}')"


def reshape(d: Drawer) -> Step:
    v = d.value()
    return copy(v, f"fit({v.name}, {d.shape()})")


def broadcast(d: Drawer) -> Step:
    v = d.value()
    extra = [d.pick((1, 2, 3, 5, 0)) for _ in range(d.integer(0, max(0, 5 - v.rank)))]
    places = sorted(d.order(v.rank + len(extra))[: v.rank])
    shape = list(range(v.rank + len(extra)))
    rest = iter(extra)
    for i in range(len(shape)):
        if i in places:
            size = v.shape[places.index(i)]
            shape[i] = d.pick((1, 4)) if size == 1 else size
        else:
            shape[i] = next(rest)
    return copy(v, f"lax.broadcast_in_dim({v.name}, {tuple(shape)}, {tuple(places)})")


def transpose(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    if d.integer(0, 3) == 0:
        return copy(v, f"lax.rev({v.name}, {d.dims(v)})")
    return copy(v, f"lax.transpose({v.name}, {d.order(v.rank)})")


def strided_slice(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    begins = [d.integer(0, min(3, n)) for n in v.shape]
    ends = [n - d.integer(0, min(3, n - b)) for b, n in zip(begins, v.shape, strict=True)]
    steps = [d.integer(1, 3) for _ in v.shape]
    return copy(v, f"lax.slice({v.name}, {begins}, {ends}, {steps})")


def pad(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    config = []
    for n in v.shape:
        interior = d.integer(0, 2)
        total = n + max(0, n - 1) * interior
        low = d.integer(-min(2, total), 3)
        config.append((low, d.integer(-min(2, max(0, total + low)), 3), interior))
    return Step(f"lax.pad({v.name}, {constant(d, v)}, {config})", max(v.bound, 3), v.error)


def concatenate(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    axis = d.integer(0, v.rank - 1)
    parts, bound, error = [v.name], v.bound, v.error
    for _ in range(d.integer(1, 3)):
        w = d.value((v.dtype,))
        parts.append(f"fit({w.name}, {(*v.shape[:axis], d.integer(0, 4), *v.shape[axis + 1 :])})")
        bound, error = max(bound, w.bound), max(error, w.error)
    return Step(f"lax.concatenate([{', '.join(parts)}], {axis})", bound, error)


def iota(d: Drawer) -> Step:
    shape = d.shape() or (3,)
    return Step(
        f"lax.broadcasted_iota('{d.pick(REAL)}', {shape}, {d.integer(0, len(shape) - 1)})", max(shape), special=False
    )


def dynamic_slice(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    sizes = [d.integer(min(1, n), n) for n in v.shape]
    starts = ", ".join(d.index() for _ in sizes)
    if d.flag():
        return copy(v, f"lax.dynamic_slice({v.name}, ({starts},), {sizes})")
    w = d.value((v.dtype,))
    text = f"lax.dynamic_update_slice({v.name}, fit({w.name}, {tuple(sizes)}), ({starts},))"
    return Step(text, max(v.bound, w.bound), max(v.error, w.error))


def _indices(d: Drawer, count: int, depth: int) -> str:
    found = [v for v in d.values if v.dtype == "int32" and v.size]
    if not found or d.flag():
        numbers = [[d.integer(-2, 8) for _ in range(depth)] for _ in range(count)]
        return f"np.asarray({numbers}).astype('{d.pick(('int32', *INTS))}')"
    return f"(fit({d.pick(found).name}, {(count, depth)}) & 7)"


def gather(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    indexed = d.dims(v)
    collapsed = tuple(i for i in indexed if d.flag())
    sizes = tuple(1 if i in collapsed else d.integer(1, n) for i, n in enumerate(v.shape))
    count = d.integer(1, 5)
    windows = v.rank - len(collapsed)
    batch = d.integer(0, windows)
    offset = tuple(i for i in range(windows + 1) if i != batch)
    numbers = f"lax.GatherDimensionNumbers({offset}, {collapsed}, {indexed})"
    mode = d.pick(("clip", "fill"))
    text = (
        f"lax.gather({v.name}, {_indices(d, count, len(indexed))}, {numbers}, {sizes}, mode='{mode}', "
        f"fill_value={d.integer(0, 1)})"
    )
    return Step(text, max(1, v.bound), v.error)


def scatter(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX), min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    indexed = d.dims(v)
    inserted = tuple(i for i in indexed if d.flag())
    sizes = [d.integer(1, n) for i, n in enumerate(v.shape) if i not in inserted]
    count = d.integer(1, 5)
    batch = d.integer(0, len(sizes))
    w = d.value((v.dtype,))
    updates = (*sizes[:batch], count, *sizes[batch:])
    window = tuple(i for i in range(len(updates)) if i != batch)
    names = ("scatter_add", "scatter_sub", "scatter_min", "scatter_max")
    name = d.pick(names[:2] if v.dtype in COMPLEX else names)
    text = (
        f"lax.{name}({v.name}, {_indices(d, count, len(indexed))}, fit({w.name}, {updates}), "
        f"lax.ScatterDimensionNumbers({window}, {inserted}, {indexed}), mode='{d.pick(('clip', 'drop'))}')"
    )
    return Step(text, v.bound + count * w.bound, v.error + count * w.error, count)


def scatter_distinct(d: Drawer) -> Step:
    """Updates that each have an element of their own, or none, so that their order does not matter."""
    v = d.value(min_rank=1)
    axis = d.integer(0, v.rank - 1)
    indices = d.order(v.shape[axis] + 2)[: d.integer(0, 5)] if v.shape[axis] < 20 else (7, 3, 99)
    w = d.value((v.dtype,))
    updates = (*v.shape[:axis], len(indices), *v.shape[axis + 1 :])
    method = d.pick(("set", "multiply")) if v.dtype in REAL else "set"
    bound, error = max(v.bound, w.bound), max(v.error, w.error)
    if method == "multiply":
        bound, error = v.bound * max(1, w.bound), v.error + v.error * w.bound + w.error * v.bound
    text = (
        f"{v.name}.at[{':, ' * axis}np.array({list(indices)}, np.int32)].{method}(fit({w.name}, {updates}), "
        f"mode='drop', unique_indices={d.flag()})"
    )
    return Step(text, bound, error, 1)


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


def batched(d: Drawer) -> Step:
    """vmap, which makes batch dimensions of gathers, scatters and slices."""
    v = d.value(REAL, min_rank=2)
    if 0 in v.shape:
        raise Unsuitable
    starts = f"fit(jnp.asarray({[d.integer(-3, 7) for _ in range(5)]}, jnp.int32), ({v.shape[0]},))"
    body = d.pick(
        (
            "lambda x, i: x[i]",
            "lambda x, i: x.at[i].add(x[0])",
            "lambda x, i: x.at[i].max(x[-1], mode='drop')",
            "lambda x, i: lax.dynamic_slice_in_dim(x, i, 1)",
            "lambda x, i: lax.dynamic_update_slice_in_dim(x, x[:1], i, 0)",
            "lambda x, i: lax.cond(i > 1, lambda x: x[::-1], lambda x: x, x)",
            "lambda x, i: lax.fori_loop(0, i, lambda j, y: lax.max(y, x[::-1]), x)",
            "lambda x, i: x[x.shape[0] - 1 - (jnp.arange(3) * i) % x.shape[0]]",
            "lambda x, i: jnp.roll(x, i, 0)",
            "lambda x, i: lax.cummax(x, 0, reverse=True)",
        )
    )
    return Step(f"jax.vmap({body})({v.name}, {starts})", 2 * v.bound, 2 * v.error, 1, special=True)


def barrier(d: Drawer) -> Step:
    v = d.value()
    return copy(v, f"lax.optimization_barrier({v.name})")


# Those whose results are elements of their operands, bit by bit, and constants.
MOVES = (barrier, broadcast, concatenate, dynamic_slice, gather, iota, pad, reshape, strided_slice, transpose)
OPERATIONS = (
    barrier, batched, broadcast, concatenate, dynamic_slice, gather, iota, pad, reshape, scatter, scatter_distinct,
    sort, strided_slice, top_k, transpose,
)  # fmt: skip
