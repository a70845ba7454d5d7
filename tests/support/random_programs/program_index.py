"""Slices, gathers and scatters of random programs at positions that are not known when they compile."""

from __future__ import annotations

import dataclasses
import math

from support.programs import COMPLEX, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, Value, copy
from support.random_programs.program_bodies import body_text, call, grown_step, others, reducer_for
from support.stablehlo_text import array


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
    """Updates of distinct elements, or out of bounds, so that their order does not matter."""
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


@dataclasses.dataclass(frozen=True)
class Places:
    """Dimension numbers and shapes of a gather or a scatter."""

    indices: tuple[int, ...]
    batch: list[int]  # batch shape of the result or the updates: the indices' shape without index vectors
    numbers: dict[str, list[int]]  # by the name of the attribute's part
    sizes: list[int]  # sizes of a slice, in all dimensions of the operand
    result: list[int]
    depth: int


def _places(d: Drawer, v: Value) -> Places:
    if 0 in v.shape:
        raise Unsuitable
    kinds = ["b" if d.integer(0, 3) == 0 else d.pick("cwww") for _ in v.shape]
    batching = [i for i, k in enumerate(kinds) if k == "b"]
    collapsed = [i for i, k in enumerate(kinds) if k == "c"]
    windows = [i for i, k in enumerate(kinds) if k == "w"]
    free = [i for i in range(v.rank) if i not in batching]
    mapped = [free[i] for i in d.order(len(free))][: d.integer(1, max(1, len(free)))]
    extra = [d.integer(1, 4) for _ in range(d.integer(0 if batching else 1, 2))]
    batch: list[int | tuple[int, int]] = [*((i, v.shape[i]) for i in batching), *extra]
    batch = [batch[i] for i in d.order(len(batch))]
    shape = [x[1] if isinstance(x, tuple) else x for x in batch]
    vector = d.integer(0, len(batch))
    implicit = len(mapped) == 1 and vector == len(batch) and d.flag()
    indices = shape if implicit else [*shape[:vector], len(mapped), *shape[vector:]]

    def place(i: int) -> int:
        """Returns the position of an operand's batching dimension in the indices."""
        at = next(p for p, x in enumerate(batch) if isinstance(x, tuple) and x[0] == i)
        return at if implicit or at < vector else at + 1

    sizes = [d.integer(1, n) if i in windows else 1 for i, n in enumerate(v.shape)]
    rank = len(batch) + len(windows)
    offsets = sorted(d.order(rank)[: len(windows)])
    result, inner, outer = [], iter(windows), iter(shape)
    for i in range(rank):
        result.append(sizes[next(inner)] if i in offsets else next(outer))
    if math.prod(result) > 1500 or not mapped:
        raise Unsuitable
    numbers = {
        "offsets": offsets, "collapsed": collapsed, "batching": batching,
        "places": [place(i) for i in batching], "mapped": mapped, "vector": [len(indices) if implicit else vector],
    }  # fmt: skip
    return Places(tuple(indices), shape, numbers, sizes, result, len(mapped))


def _index_values(d: Drawer, shape: tuple[int, ...]) -> tuple[str, str]:
    """Returns the text and the type of indices, some of them out of bounds."""
    found = [v for v in d.values if v.dtype in INTS and v.size]
    if not found or d.flag():
        dtype = d.pick(("int32", *INTS))
        numbers = [d.integer(-2 if dtype[0] == "i" else 0, 7) for _ in range(7)]
        return f"jnp.resize(jnp.asarray({numbers}, '{dtype}'), {shape})", dtype
    chosen = d.pick(found)
    d.used.append(dataclasses.replace(chosen, special=False))
    if d.flag():
        return f"fit({chosen.name}, {shape})", chosen.dtype
    return f"(fit({chosen.name}, {shape}) & 7)", chosen.dtype


def gather_places(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    p = _places(d, v)
    indices, dtype = _index_values(d, p.indices)
    n = p.numbers
    numbers = (
        f"offset_dims = {n['offsets']}, collapsed_slice_dims = {n['collapsed']}, operand_batching_dims = "
        f"{n['batching']}, start_indices_batching_dims = {n['places']}, start_index_map = {n['mapped']}, "
        f"index_vector_dim = {n['vector'][0]}"
    )
    tail = f"{{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {array(p.sizes)}}}"
    shapes = [(v.shape, v.dtype), (p.indices, dtype)]
    text = call("gather", shapes, [v.name, indices], [], [(p.result, v.dtype)], tail)
    return Step(text, v.bound, v.error)


def scatter_by_body(d: Drawer) -> Step:
    """Updates by any body whose result does not depend on their order."""
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    p = _places(d, v)
    reducer = reducer_for(d, v.dtype)
    count = len(reducer.identities)
    names, bound, error = others(d, v, count - 1)
    # If several operands are the same value, XLA:CPU updates only one of them, and writes beyond the end of a buffer.
    names[1:] = [f"({name} - lax.full_like({name}, 1))" for name in names[1:]]
    bound += 1
    updates = []
    for _ in range(count):
        w = d.value((v.dtype,))
        updates.append(f"fit({w.name}, {tuple(p.result)})")
        bound, error = max(bound, w.bound), max(error, w.error)
    indices, dtype = _index_values(d, p.indices)
    n = p.numbers
    numbers = (
        f"update_window_dims = {n['offsets']}, inserted_window_dims = {n['collapsed']}, input_batching_dims = "
        f"{n['batching']}, scatter_indices_batching_dims = {n['places']}, scatter_dims_to_operand_dims = "
        f"{n['mapped']}, index_vector_dim = {n['vector'][0]}"
    )
    shapes = [(v.shape, v.dtype)] * count + [(p.indices, dtype)] + [(p.result, v.dtype)] * count
    tail = f"{body_text(reducer, v.dtype)} {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}"
    text = call("scatter", shapes, [*names, indices, *updates], [], [(v.shape, v.dtype)] * count, tail)
    return grown_step(text, reducer, bound, error, 1 + math.prod(p.batch))


OPERATIONS = (dynamic_slice, gather, gather_places, scatter, scatter_by_body, scatter_distinct)
# Those whose results are elements of their operands, bit by bit.
MOVES = (dynamic_slice, gather, gather_places)
