"""Collectives of random programs as StableHLO text, over all replicas of the program."""

from __future__ import annotations

import math

from support.programs import COMPLEX, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, Value, copy
from support.random_programs.program_bodies import Reducer, body_text, call, reducers
from support.stablehlo_text import tensor


def _groups(d: Drawer, sizes: tuple[int, ...], *, channel: bool = True) -> str:
    """Groups of these sizes over all replicas, in any order; shorter groups are padded.

    channel: whether the collective has a channel although its groups name replicas.
    """
    order, largest, rows = list(d.order(d.replicas)), max(sizes), []
    for size in sizes:
        rows.append(order[:size] + [-1] * (largest - size))
        order = order[size:]
    handle = ""
    if channel and d.flag():
        d.channel += 1
        handle = f", channel_handle = #stablehlo.channel_handle<handle = {d.channel}, type = 0>"
        handle += ", use_global_device_ids" if d.flag() else ""
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{largest}xi64>{handle}"


def _equal(d: Drawer, *, channel: bool = True) -> tuple[int, str]:
    """Groups of the same size, and that size."""
    size = d.pick([n for n in range(1, d.replicas + 1) if d.replicas % n == 0][::-1])
    return size, _groups(d, (size,) * (d.replicas // size), channel=channel)


def _reducer(d: Drawer, v: Value) -> Reducer:
    """A body of one value and one operation. XLA:CPU supports no other bodies, and its maximum and minimum lose NaN."""
    names = ("and", "or") if v.dtype == "bool" else ("add", "multiply", "maximum", "minimum")
    known = [r for r in reducers(v.dtype) if r.body.startswith(tuple(f"%c0 = stablehlo.{name} " for name in names))]
    return d.pick([r for r in known if r.grows] if v.special else known)


def _grown(text: str, reducer: Reducer, bound: float, error: float, terms: int) -> Step:
    return Step(text, bound * terms, error * terms, terms) if reducer.grows else Step(text, bound, error)


def all_reduce(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX))
    reducer = _reducer(d, v)
    sizes: list[int] = []
    while sum(sizes) < d.replicas:
        sizes.append(d.integer(1, d.replicas - sum(sizes)))
    names, bound, error = [v.name], v.bound, v.error
    groups = _groups(d, tuple(sizes))
    # With several operands and a channel, XLA:CPU loses the layouts.
    if "channel" not in groups and d.flag():
        other, w = d.partner(v, finite=not v.special)
        names, bound, error = [v.name, other], max(v.bound, w.bound), max(v.error, w.error)
    shapes = [(v.shape, v.dtype)] * len(names)
    tail = f"<{{{groups}}}> {body_text(reducer, v.dtype)}"
    return _grown(call("all_reduce", shapes, names, [], shapes, tail), reducer, bound, error, max(sizes))


def all_gather(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    (size, groups), dim = _equal(d), d.integer(0, v.rank - 1)
    if not v.size:
        raise Unsuitable  # XLA:CPU divides by zero
    result = [n * size if i == dim else n for i, n in enumerate(v.shape)]
    tail = f"<{{all_gather_dim = {dim} : i64, {groups}}}>"
    return copy(v, call("all_gather", [(v.shape, v.dtype)], [v.name], [], [(result, v.dtype)], tail))


def reduce_scatter(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX), min_rank=1)
    (size, groups), dim = _equal(d), d.integer(0, v.rank - 1)
    reducer = _reducer(d, v)
    shape = [n * size if i == dim else n for i, n in enumerate(v.shape)]
    if math.prod(shape) > 1500 or not v.shape[dim]:
        raise Unsuitable
    # XLA:CPU divides by zero for an empty reduce-scatter over groups of one with a channel.
    if not v.size and size == 1 and "channel" in groups:
        raise Unsuitable
    tail = f"<{{scatter_dimension = {dim} : i64, {groups}}}> {body_text(reducer, v.dtype)}"
    operand = f"fit({v.name}, {tuple(shape)})"
    text = call("reduce_scatter", [(shape, v.dtype)], [operand], [], [(v.shape, v.dtype)], tail)
    return _grown(text, reducer, v.bound, v.error, size)


def all_to_all(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    size, groups = _equal(d, channel=False)
    split, concat = d.integer(0, v.rank - 1), d.integer(0, v.rank - 1)
    shape = [n * size if i == split else n for i, n in enumerate(v.shape)]
    result = [n * size if i == concat else n for i, n in enumerate(v.shape)]
    if math.prod(shape) > 1500:
        raise Unsuitable
    numbers = f"split_dimension = {split} : i64, concat_dimension = {concat} : i64, split_count = {size} : i64"
    tail = f"<{{{numbers}, {groups}}}>"
    operand = f"fit({v.name}, {tuple(shape)})"
    return copy(v, call("all_to_all", [(shape, v.dtype)], [operand], [], [(result, v.dtype)], tail))


def collective_permute(d: Drawer) -> Step:
    v = d.value()
    pairs = list(zip(d.order(d.replicas), d.order(d.replicas), strict=True))[: d.integer(1, d.replicas)]
    tail = f"<{{source_target_pairs = dense<{[list(p) for p in pairs]}> : tensor<{len(pairs)}x2xi64>}}>"
    return copy(v, call("collective_permute", [(v.shape, v.dtype)], [v.name], [], [(v.shape, v.dtype)], tail))


def collective_broadcast(d: Drawer) -> Step:
    """The reference gathers, and takes the first element."""
    v = d.value()
    if not v.size:
        raise Unsuitable
    size, groups = _equal(d, channel=False)
    shapes = [(v.shape, v.dtype)]
    text = call("collective_broadcast", shapes, [v.name], [], shapes, f"<{{{groups}}}>")
    one, all_of = (1, *v.shape), (size, *v.shape)
    tail = f"<{{all_gather_dim = 0 : i64, {groups}}}>"
    gathered = call("all_gather", [(one, v.dtype)], ["x[None]"], [], [(all_of, v.dtype)], tail)
    return copy(v, f"{text[:-1]}, reference=lambda x: {gathered}[0])")


def index_of_replica(d: Drawer) -> Step:
    """Adds the index of the replica to integers, so that the replicas compute with different numbers."""
    v = d.value(INTS)
    name = d.pick(("replica_id", "replica_id", "partition_id"))
    kind, scalar = tensor(v.shape, v.dtype), tensor((), v.dtype)
    body = (
        f"%i = stablehlo.{name} : tensor<ui32> %c = stablehlo.convert %i : (tensor<ui32>) -> {scalar} "
        f"%b = stablehlo.broadcast_in_dim %c, dims = [] : ({scalar}) -> {kind} %r = stablehlo.add %b, %0 : {kind}"
    )
    return Step(f"hlo({body!r}, {[(v.shape, v.dtype)]}, {v.name})")


def loop_of_permutes(d: Drawer) -> Step:
    """Passes values around a ring in a loop."""
    v = d.value(INTS)
    pairs = [[i, (i + 1) % d.replicas] for i in range(d.replicas)]
    tail = f"<{{source_target_pairs = dense<{pairs}> : tensor<{d.replicas}x2xi64>}}>"
    moved = call("collective_permute", [(v.shape, v.dtype)], ["x"], [], [(v.shape, v.dtype)], tail)
    return Step(f"lax.fori_loop(0, {d.integer(0, 3)}, lambda i, x: {moved} + {v.name}, {v.name})")


OPERATIONS = (
    all_gather, all_reduce, all_to_all, collective_broadcast, collective_permute, index_of_replica, loop_of_permutes,
    reduce_scatter,
)  # fmt: skip
