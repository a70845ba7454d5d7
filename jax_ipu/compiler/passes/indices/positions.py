"""Reads at computed positions: of `iota`, and of a tensor that an update has changed at another position."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu.compiler.expression import replaces_state, single_op, splat_of
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.indices.windows import Window, component
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import INTEGER, SIGNED, Shape, num_elements

_WIDE = frozenset(("s32", "u32", "s64", "u64", "f32"))


class _Index(NamedTuple):
    """Where a window begins along a dimension: `value`, and `wrap` more where that is negative."""

    value: Value
    wrap: int = 0


_Start = int | _Index


def _wrapped(index: _Index, rewriter: Rewriter) -> Value:
    value, wrap = index
    if not wrap or value.dtype not in SIGNED:
        return value
    zero, more = (rewriter.full(value.shape, value.dtype, n) for n in (0, wrap))
    negative = _compare("LT", value, zero, rewriter)
    return rewriter.elementwise("select", negative, rewriter.elementwise("add", value, more), value, dtype=value.dtype)


def _limit(dtype: str, room: int) -> int:
    """The largest index of this type that is at most `room`."""
    return min(room, (1 << (int(dtype[1:]) - (dtype in SIGNED))) - 1)


def _clamped(value: Value, room: int, rewriter: Rewriter) -> Value:
    """The index, moved to 0...`room`."""
    high = rewriter.full(value.shape, value.dtype, _limit(value.dtype, room))
    if value.dtype not in SIGNED:
        return rewriter.elementwise("minimum", value, high)
    low = rewriter.full(value.shape, value.dtype, 0)
    return rewriter.elementwise("clamp", low, value, high, dtype=value.dtype)


def _is_inside(value: Value, room: int, rewriter: Rewriter) -> Value:
    inside = _compare("LE", value, rewriter.full(value.shape, value.dtype, _limit(value.dtype, room)), rewriter)
    if value.dtype not in SIGNED:
        return inside
    zero = rewriter.full(value.shape, value.dtype, 0)
    return rewriter.elementwise("and", inside, _compare("GE", value, zero, rewriter))


def _compare(direction: str, a: Value, b: Value, rewriter: Rewriter) -> Value:
    kind = "SIGNED" if a.dtype in SIGNED else "UNSIGNED"
    return rewriter.elementwise("compare", a, b, dtype="pred", comparison_direction=direction, compare_type=kind)


# Iota -------------------------------------------------------------------------------------------------------------


def read_of_iota(op: Op, window: Window, rewriter: Rewriter) -> Value | None:
    """What the window reads of an iota, which then needs no memory; None where its type is too narrow."""
    dim, dtype, shape = op.attrs["iota_dimension"], op.result.dtype, window.shape
    extent = window.operand[dim]
    room = extent - window.sizes[dim]
    if dtype not in _WIDE:
        return None

    def along(place: int) -> Value:
        return rewriter.emit("iota", (), shape, dtype, {"iota_dimension": place})

    if window.name == "slice":
        begin, stride = window.attrs["start_indices"][dim], window.attrs["strides"][dim]
        scaled = rewriter.elementwise("multiply", along(dim), rewriter.full(shape, dtype, stride))
        return rewriter.elementwise("add", scaled, rewriter.full(shape, dtype, begin))
    place: int | None = dim
    start: Value | None = None
    if window.name == "dynamic_slice":
        if room:
            start = rewriter.broadcast(_position(_Index(window.indices[dim]), room, dtype, rewriter), shape, ())
    else:
        place, start = _gathered_iota(dim, dtype, window, rewriter)
    offset = None if place is None or window.shape[place] == 1 else along(place)
    if start is None or offset is None:
        return start if start is not None else offset or rewriter.full(shape, dtype, 0)
    return rewriter.elementwise("add", start, offset)


def _position(index: _Index, room: int, dtype: str, rewriter: Rewriter) -> Value:
    return rewriter.convert(_clamped(_wrapped(index, rewriter), room, rewriter), dtype)


def _gathered_iota(dim: int, dtype: str, window: Window, rewriter: Rewriter) -> tuple[int | None, Value | None]:
    """The dimension of the result along which an iota is counted on, and what it begins with."""
    numbers, (indices,) = window.attrs["dimension_numbers"], window.indices
    batching = window.batch_places()
    if dim in batching:
        return batching[dim], None
    place = dict(zip(window.inner_dims(), numbers["offset_dims"], strict=True)).get(dim)
    room = window.operand[dim] - window.sizes[dim]
    if not room or dim not in numbers["start_index_map"]:
        return place, None
    number, vector = numbers["start_index_map"].index(dim), numbers["index_vector_dim"]
    batch = tuple(i for i in range(len(window.shape)) if i not in numbers["offset_dims"])
    index = indices if vector == len(indices.shape) else component(indices, vector, number, rewriter)
    index = rewriter.reshape(index, tuple(window.shape[i] for i in batch))
    wraps = window.attrs.get("index_wraps", ())
    start = _position(_Index(index, wraps[number] if wraps else 0), room, dtype, rewriter)
    return place, rewriter.broadcast(start, window.shape, batch)


# Updates ----------------------------------------------------------------------------------------------------------


def read_of_update(op: Op, window: Window, rewriter: Rewriter) -> Value | None:
    """What the window reads of a tensor with one updated window, or of a padded one, without that tensor."""
    written = _written(op, rewriter)
    read = _starts(window, rewriter)
    if written is None or read is None:
        return None
    at, update = written
    offsets: list[int | Value] = []
    tests: list[Value] = []
    sizes = _window_sizes(window)
    lines: list[Value] = []
    for d, (extent, size, begin, other, start) in enumerate(
        zip(window.operand, sizes, read, update.shape, at, strict=True)
    ):
        if other == 1 < min(size, extent):
            place = _placed(start, extent - 1, op.name == "scatter", tests, rewriter)
            if place is None or _misses(place, begin, size, extent):
                return _base(op, window, rewriter)
            lines.append(_line(begin, place, d, extent, sizes, rewriter))
            offsets.append(0)
            continue
        offset = _offset(extent, size, begin, other, start, op.name == "scatter", tests, rewriter)
        if offset is None:
            return None
        if offset == _MISS:
            return _base(op, window, rewriter)
        offsets.append(offset)
    part = _part(update, offsets, tuple(map(min, sizes, update.shape)), rewriter)
    part = rewriter.reshape(_stretched(part, sizes, rewriter), window.shape)
    hits = [rewriter.reshape(line, window.shape) for line in lines]
    if tests:
        hits.append(rewriter.broadcast(_all(tests, rewriter), window.shape, ()))
    if not hits:
        return part
    return rewriter.elementwise("select", _all(hits, rewriter), part, _base(op, window, rewriter), dtype=part.dtype)


def _all(tests: list[Value], rewriter: Rewriter) -> Value:
    test = tests[0]
    for other in tests[1:]:
        test = rewriter.elementwise("and", test, other)
    return test


def _placed(start: _Start, room: int, drops: bool, tests: list[Value], rewriter: Rewriter) -> _Start | None:
    """Where an update of one element lies; None where it is left out. Adds what must hold at run time."""
    if isinstance(start, int):
        return None if drops and not 0 <= start <= room else max(0, min(start, room))
    if drops:
        tests.append(_is_inside(_wrapped(start, rewriter), room, rewriter))
    return start


def _misses(place: _Start, begin: _Start, size: int, extent: int) -> bool:
    """Whether a position is known to be outside of a window."""
    if not isinstance(place, int) or not isinstance(begin, int):
        return False
    return not 0 <= place - max(0, min(begin, extent - size)) < size


def _line(begin: _Start, place: _Start, dim: int, extent: int, sizes: Shape, rewriter: Rewriter) -> Value:
    """Which elements of a window of these sizes, from `begin` on, are at the position `place` of a dimension."""
    first, at = (
        rewriter.full((), "s32", max(0, min(i, room))) if isinstance(i, int) else _position(i, room, "s32", rewriter)
        for i, room in ((begin, extent - sizes[dim]), (place, extent - 1))
    )
    counted = rewriter.emit("iota", (), sizes, "s32", {"iota_dimension": dim})
    offset = rewriter.broadcast(rewriter.elementwise("subtract", at, first), sizes, ())
    return _compare("EQ", counted, offset, rewriter)


def _stretched(part: Value, sizes: Shape, rewriter: Rewriter) -> Value:
    """`part` in every element along the dimensions in which it has one."""
    kept = tuple(d for d, (n, size) in enumerate(zip(part.shape, sizes, strict=True)) if n == size)
    if len(kept) == len(sizes):
        return part
    return rewriter.broadcast(rewriter.reshape(part, tuple(sizes[d] for d in kept)), sizes, kept)


_MISS = -1


def _window_sizes(window: Window) -> Shape:
    return window.shape if window.name == "slice" else window.sizes


def _starts(window: Window, rewriter: Rewriter) -> list[_Start] | None:
    """Where the window begins; None where it has strides, or is several windows."""
    if window.name == "slice":
        if any(s != 1 and n != 1 for s, n in zip(window.attrs["strides"], window.shape, strict=True)):
            return None
        return list(window.attrs["start_indices"])
    if window.name == "dynamic_slice":
        return [
            _start(_Index(i)) if n != size else 0
            for i, n, size in zip(window.indices, window.operand, window.sizes, strict=True)
        ]
    numbers, (indices,) = window.attrs["dimension_numbers"], window.indices
    batch = tuple(n for i, n in enumerate(window.shape) if i not in numbers["offset_dims"])
    if num_elements(batch) != 1 or numbers["operand_batching_dims"] or indices.dtype not in INTEGER:
        return None
    starts: list[_Start] = [0] * len(window.operand)
    wraps, vector = window.attrs.get("index_wraps", ()), numbers["index_vector_dim"]
    for number, d in enumerate(numbers["start_index_map"]):
        index = indices if vector == len(indices.shape) else component(indices, vector, number, rewriter)
        starts[d] = _start(_Index(rewriter.reshape(index, ()), wraps[number] if wraps else 0))
    return starts


def _start(index: _Index) -> _Start:
    literal = splat_of(index.value)
    if literal is None:
        return _Index(_scalar(index.value), index.wrap)
    number = int(literal.scalar())
    return number + index.wrap if number < 0 else number


def _scalar(value: Value) -> Value:
    """The scalar that views made this scalar of, so that equal indices are the same value."""
    while value.op is not None and value.op.name in ("reshape", "broadcast_in_dim"):
        inner = value.op.operands[0]
        if num_elements(inner.shape) != 1 or inner.shape != ():
            break
        value = inner
    return value


def _written(op: Op, rewriter: Rewriter) -> tuple[list[_Start], Value] | None:
    """Where an update begins, and what it writes there, of the operand's rank."""
    if op.name == "pad":
        low, high = op.attrs["edge_padding_low"], op.attrs["edge_padding_high"]
        if any(op.attrs["interior_padding"]) or min((*low, *high), default=0) < 0:
            return None
        return list(low), op.operands[0]
    if len(op.results) != 1:
        return None
    window = Window.of_update(op)
    if op.name == "scatter":
        body = op.regions[0]
        replaces = replaces_state(body)
        base = splat_of(op.operands[0])
        adds = single_op(body) == "add" and base is not None and not any(base.data) and base.dtype != "pred"
        scattered = window.attrs["dimension_numbers"]["start_index_map"]
        if not (replaces or adds) or any(window.sizes[d] == window.operand[d] for d in scattered):
            return None
    starts = _starts(window, rewriter)
    if starts is None:
        return None
    update = op.operands[2 if op.name == "scatter" else 1]
    return starts, rewriter.reshape(update, _window_sizes(window))


def _base(op: Op, window: Window, rewriter: Rewriter) -> Value:
    """What the window reads of the tensor before the update, or of the padding."""
    if op.name == "pad":
        return rewriter.broadcast(op.operands[1], window.shape, ())
    literal = splat_of(op.operands[0])
    return (
        window.read(op.operands[0], rewriter) if literal is None else rewriter.constant(literal.reshaped(window.shape))
    )


def _offset(
    extent: int,
    size: int,
    begin: _Start,
    written: int,
    start: _Start,
    drops: bool,
    tests: list[Value],
    rewriter: Rewriter,
) -> int | Value | None:
    """Where a read begins in what was written, along one dimension; adds what must hold so that it is there.

    Args:
        extent: the extent of the dimension.
        size: the size of the read, which begins at `begin`, moved into the tensor.
        written: the size of the update, which begins at `start`.
        drops: an update that is partly outside is left out; otherwise it is moved into the tensor.
        tests: gets what is known at run time only.

    Returns:
        The offset, `_MISS` where the read is elsewhere, None where it may be partly there.
    """
    if written == extent:
        if isinstance(begin, int):
            return max(0, min(begin, extent - size))
        return _position(begin, extent - size, "s32", rewriter)
    room = extent - written
    if isinstance(start, int):
        if drops and not 0 <= start <= room:
            return _MISS
        start = max(0, min(start, room))
    elif drops:
        tests.append(_is_inside(_wrapped(start, rewriter), room, rewriter))
    if isinstance(begin, int):
        begin = max(0, min(begin, extent - size))
        if isinstance(start, int):
            if begin >= start + written or begin + size <= start:
                return _MISS
            return begin - start if start <= begin and begin + size <= start + written else None
    elif begin == start and size == written:
        return 0
    if size != 1:
        return None
    a, b = (
        rewriter.full((), "s32", i) if isinstance(i, int) else _position(i, most, "s32", rewriter)
        for i, most in ((begin, extent - size), (start, room))
    )
    if written == 1:
        tests.append(_compare("EQ", a, b, rewriter))
        return 0
    difference = rewriter.elementwise("subtract", a, b)
    tests.append(_compare("GE", difference, rewriter.full((), "s32", 0), rewriter))
    tests.append(_compare("LT", difference, rewriter.full((), "s32", written), rewriter))
    return difference


def _part(update: Value, offsets: list[int | Value], sizes: Shape, rewriter: Rewriter) -> Value:
    if all(isinstance(offset, int) for offset in offsets):
        begins = tuple(offset for offset in offsets if isinstance(offset, int))
        return rewriter.slice(update, begins, tuple(b + n for b, n in zip(begins, sizes, strict=True)))
    starts = [rewriter.full((), "s32", o) if isinstance(o, int) else o for o in offsets]
    return rewriter.emit("dynamic_slice", (update, *starts), sizes, update.dtype, {"slice_sizes": sizes})
