"""Reductions of windows that need fewer reads than each window has elements.

- A dimension whose windows hold at most one element each is a repetition of elements: the gradient of average pooling
  by windows that do not overlap, or that are as large as the image.
- A dimension whose only window holds all elements is a reduction.
- Large windows are reduced along one dimension after the other: 15 x 15 elements by 30 reads, not 225.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from jax_ipu.compiler.expression import cumulated, identity_of, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value, clone_block
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.shapes import pairs
from jax_ipu.compiler.types import FLOAT, SIZE, num_elements, pack_scalar

# How many times as many reads windows have as those along one dimension after the other, so that a value between the
# two, which has to be stored and exchanged, is worth it.
_FEWER = 2
# The same numbers in any order: sums of narrow floats would be rounded in between, products might overflow there.
_IN_STAGES = frozenset(("add", "maximum", "minimum", "and", "or"))


def run(module: Module) -> None:
    """Rewrites the reductions of windows of main."""
    rewrite(module.main.block, {"reduce_window": lambda op, rewriter: _reduce_window(op, rewriter, module.frugal)})


@dataclass
class _Dim:
    """The windows along one dimension of `count` elements; `dilation` is the distance of neighbouring elements."""

    count: int
    low: int
    high: int
    dilation: int
    window: int
    stride: int
    spacing: int
    result: int

    @property
    def is_plain(self) -> bool:
        return self.result == self.count and self.window == self.stride == self.dilation == 1 and self.low == 0

    @property
    def holds_one(self) -> bool:
        """Whether a window has one element, or none."""
        is_apart = self.count == 1 or self.dilation >= self.window
        return is_apart and self.stride == self.spacing == 1 < self.window

    @property
    def holds_all(self) -> bool:
        """Whether the only window has all elements."""
        last = self.low + (self.count - 1) * self.dilation
        return self.result == self.spacing == 1 and self.low >= 0 and last < self.window and self.high >= 0


def _reduce_window(op: Op, rewriter: Rewriter, frugal: bool) -> Value | None:
    name, dtype = single_op(op.regions[0]), op.result.dtype
    if len(op.results) != 1 or name is None or cumulated(op) is not None or num_elements(op.result.shape) == 0:
        return None
    first, identity = splat_of(op.operands[1]), identity_of(name, dtype)
    if first is None or identity is None or first.data != pack_scalar(dtype, identity):
        return None
    value, dims = _without_pad(op, first.data)
    if num_elements(value.shape) == 0:
        return None
    one = [d for d, dim in enumerate(dims) if dim.holds_one]
    every = [d for d, dim in enumerate(dims) if dim.holds_all and not dim.is_plain and d not in one]
    if not one and not every:
        return None if frugal else _in_stages(op, name, rewriter)
    start = op.operands[1]
    if every:
        kept = tuple(n for d, n in enumerate(value.shape) if d not in every)
        body = (clone_block(op.regions[0]),)
        value = rewriter.emit("reduce", (value, start), kept, dtype, {"dimensions": tuple(every)}, body)
        value = rewriter.reshape(value, tuple(1 if d in every else dim.count for d, dim in enumerate(dims)))
    done = {*one, *every}
    value = _window(op, value, {d: dim for d, dim in enumerate(dims) if d not in done}, rewriter)
    for d in one:
        value = _repeat(value, d, dims[d], start, rewriter)
    return value


def _dims(op: Op) -> list[_Dim]:
    attrs, shape = op.attrs, op.operands[0].shape
    ones = (1,) * len(shape)
    keys = ("window_strides", "window_dilations")
    columns = (shape, pairs(attrs.get("padding"), len(shape)), attrs.get("base_dilations", ones))
    windows = (attrs["window_dimensions"], *(attrs.get(key, ones) for key in keys), op.result.shape)
    return [_Dim(n, *edge, *rest) for n, edge, *rest in zip(*columns, *windows, strict=True)]


def _without_pad(op: Op, neutral: bytes | bytearray | memoryview) -> tuple[Value, list[_Dim]]:
    """What is reduced, and its dimensions; neutral elements that are padded before are the windows' own padding."""
    value, dims = op.operands[0], _dims(op)
    pad = value.op
    if pad is None or pad.name != "pad" or any(dim.dilation != 1 for dim in dims):
        return value, dims
    literal = splat_of(pad.operands[1])
    edges = (pad.attrs["edge_padding_low"], pad.attrs["edge_padding_high"])
    outside = [n for dim in dims for n in (dim.low, dim.high)]
    if literal is None or literal.data != neutral or min((*edges[0], *edges[1], *outside)) < 0:
        return value, dims
    columns = zip(dims, pad.operands[0].shape, *edges, pad.attrs["interior_padding"], strict=True)
    return pad.operands[0], [
        replace(dim, count=n, low=dim.low + low, high=dim.high + high, dilation=inner + 1)
        for dim, n, low, high, inner in columns
    ]


def _window(op: Op, value: Value, dims: dict[int, _Dim], rewriter: Rewriter) -> Value:
    """The windows of `value` along these dimensions alone."""
    if all(dim.is_plain for dim in dims.values()):
        return value
    rank = len(value.shape)
    other = _Dim(1, 0, 0, 1, 1, 1, 1, 1)
    along = [dims.get(d, other) for d in range(rank)]
    attrs = {
        "window_dimensions": tuple(dim.window for dim in along),
        "window_strides": tuple(dim.stride for dim in along),
        "base_dilations": tuple(dim.dilation for dim in along),
        "window_dilations": tuple(dim.spacing for dim in along),
        "padding": tuple((dim.low, dim.high) for dim in along),
    }
    shape = tuple(dims[d].result if d in dims else n for d, n in enumerate(value.shape))
    body = (clone_block(op.regions[0]),)
    return rewriter.emit("reduce_window", (value, op.operands[1]), shape, value.dtype, attrs, body)


def _repeat(value: Value, d: int, dim: _Dim, start: Value, rewriter: Rewriter) -> Value:
    """Each element along dimension `d` as often as there are windows that hold it, and `start` between and around."""
    shape, low = value.shape, dim.low - dim.window + 1
    times, period = dim.window, dim.dilation
    if dim.count == 1:
        begin, end = max(0, low), min(dim.result, dim.low + 1)
        if begin >= end:
            return rewriter.broadcast(start, (*shape[:d], dim.result, *shape[d + 1 :]), ())
        low, times, period = begin, end - begin, end - begin
    spread = (*shape[: d + 1], times, *shape[d + 1 :])
    value = rewriter.broadcast(value, spread, tuple(i for i in range(len(spread)) if i != d + 1))
    value = _pad(value, d + 1, 0, period - times, start, rewriter)
    value = rewriter.reshape(value, (*shape[:d], dim.count * period, *shape[d + 1 :]))
    return _pad(value, d, low, dim.result - dim.count * period - low, start, rewriter)


def _pad(value: Value, d: int, low: int, high: int, start: Value, rewriter: Rewriter) -> Value:
    if low == high == 0:
        return value
    edges = [tuple(n if i == d else 0 for i in range(len(value.shape))) for n in (low, high)]
    shape = tuple(n + low + high if i == d else n for i, n in enumerate(value.shape))
    attrs = {"edge_padding_low": edges[0], "edge_padding_high": edges[1], "interior_padding": (0,) * len(shape)}
    return rewriter.emit("pad", (value, rewriter.spread(start, ())), shape, value.dtype, attrs)


def _in_stages(op: Op, name: str, rewriter: Rewriter) -> Value | None:
    """Windows along one dimension after the other, where these are much fewer reads."""
    dtype, window = op.result.dtype, op.attrs["window_dimensions"]
    if name not in _IN_STAGES or (name == "add" and dtype in FLOAT and SIZE[dtype] < SIZE["f32"]):
        return None
    value, dims = op.operands[0], _dims(op)
    wide = [d for d, dim in enumerate(dims) if dim.window > 1]
    # What shrinks most goes first, so that the others have fewer windows.
    wide.sort(key=lambda d: dims[d].result / dims[d].count)
    if len(wide) < 2 or math.prod(window) < _FEWER * sum(window[d] for d in wide):
        return None
    value = _window(op, value, {d: dim for d, dim in enumerate(dims) if d not in wide[1:]}, rewriter)
    for d in wide[1:]:
        value = _window(op, value, {d: dims[d]}, rewriter)
    return value
