"""Operations of random programs that are views or copies."""

from __future__ import annotations

from support.programs import REAL, Drawer, Step, Unsuitable, Value, copy


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


def batched(d: Drawer) -> Step:
    """Operations under vmap, which adds batch dimensions to gathers, scatters and slices."""
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


OPERATIONS = (barrier, batched, broadcast, concatenate, iota, pad, reshape, strided_slice, transpose)
# Those whose results are elements of their operands, bit by bit.
MOVES = (barrier, broadcast, concatenate, iota, pad, reshape, strided_slice, transpose)
