"""Replaces accesses at indices known at compile time by slices, and by updates "ipu.update_slice" at fixed positions.

Indices are known where they are a linear function of their position: constants, `iota`, and arithmetic on these. Then
`x[jnp.arange(n)]` is a view, and `x.at[1:-1].add(u)` an elementwise op on a slice, which is copied over that slice.
`x + scatter(zeros, ...)` becomes `scatter(x, ...)`, so that the zeros need no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax_ipu.compiler.expression import is_elementwise, replaces_state, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value, clone_block
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import INTEGER, SIGNED, SIZE, Shape, num_elements

# Larger literals are not tested for linearity.
_SMALL = 1 << 16


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


class _Linear(NamedTuple):
    """A tensor whose element at `position` is base + sum(steps[d] * position[d])."""

    base: int
    steps: Shape

    def least(self, shape: Shape) -> int:
        return self.base + sum(min(0, s * (n - 1)) for s, n in zip(self.steps, shape, strict=True))

    def most(self, shape: Shape) -> int:
        return self.base + sum(max(0, s * (n - 1)) for s, n in zip(self.steps, shape, strict=True))


def _linear(value: Value) -> _Linear | None:
    """The value as a linear function of the position; None where it is not known, not linear, or may overflow."""
    if value.dtype not in INTEGER or num_elements(value.shape) == 0 or value.op is None:
        return None
    result = _linear_of(value.op)
    if result is None:
        return None
    bits = int(value.dtype[1:])
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if value.dtype in SIGNED else (0, 1 << bits)
    return result if result.least(value.shape) >= low and result.most(value.shape) < high else None


def counts(value: Value, extent: int) -> int | None:
    """The dimension of `extent` elements along which the value counts from 0, and over all others is equal."""
    linear = _linear(value)
    if linear is None or linear.base:
        return None
    moving = [d for d, step in enumerate(linear.steps) if step and value.shape[d] > 1]
    if len(moving) != 1 or linear.steps[moving[0]] != 1 or value.shape[moving[0]] != extent:
        return None
    return moving[0]


def _linear_of(op: Op) -> _Linear | None:
    shape = op.result.shape
    if op.name == "constant":
        return _linear_literal(op.result)
    if op.name == "iota":
        return _Linear(0, tuple(int(d == op.attrs["iota_dimension"]) for d in range(len(shape))))
    if op.name == "select":
        return _linear_choice(op)
    if op.name in ("maximum", "minimum"):
        return _linear_extreme(op.name, *op.operands)
    if op.name == "clamp":
        low, value, high = op.operands
        return _linear_extreme("maximum", low, value, within=high) if low.shape == high.shape == shape else None
    if op.name not in ("add", "subtract", "multiply", "convert", "broadcast_in_dim", "reshape", "slice", "reverse"):
        return None
    parts = [_linear(operand) for operand in op.operands]
    a, b = parts[0], parts[-1]
    if a is None or b is None:
        return None
    if op.name == "convert":
        return a
    if op.name in ("add", "subtract"):
        sign = 1 if op.name == "add" else -1
        return _Linear(a.base + sign * b.base, tuple(s + sign * t for s, t in zip(a.steps, b.steps, strict=True)))
    if op.name == "multiply":
        if any(a.steps):
            a, b = b, a
        return None if any(a.steps) else _Linear(a.base * b.base, tuple(a.base * s for s in b.steps))
    inner = op.operands[0].shape
    if op.name == "broadcast_in_dim":
        steps = [0] * len(shape)
        for d, to in enumerate(op.attrs["broadcast_dimensions"]):
            steps[to] = a.steps[d] if inner[d] > 1 else 0
        return _Linear(a.base, tuple(steps))
    if op.name == "slice":
        starts, strides = op.attrs["start_indices"], op.attrs["strides"]
        base = a.base + sum(s * t for s, t in zip(a.steps, starts, strict=True))
        return _Linear(base, tuple(s * t for s, t in zip(a.steps, strides, strict=True)))
    if op.name == "reverse":
        turned = [d in op.attrs["dimensions"] for d in range(len(shape))]
        base = a.base + sum(s * (n - 1) for s, n, t in zip(a.steps, shape, turned, strict=True) if t)
        return _Linear(base, tuple(-s if t else s for s, t in zip(a.steps, turned, strict=True)))
    # A reshape: linear where it only adds or removes dimensions of one element.
    kept = [s for s, n in zip(a.steps, inner, strict=True) if n != 1]
    if [n for n in inner if n != 1] != [n for n in shape if n != 1]:
        return None
    return _Linear(a.base, tuple(0 if n == 1 else kept.pop(0) for n in shape))


def _linear_choice(op: Op) -> _Linear | None:
    """select(a < b, x, y) that chooses the same operand for all elements, as JAX writes for indices that may wrap."""
    compare = op.operands[0].op
    if compare is None or compare.name != "compare" or compare.attrs["comparison_direction"] != "LT":
        return None
    a, b = (_linear(operand) for operand in compare.operands)
    shape = compare.result.shape
    if a is None or b is None:
        return None
    if a.most(shape) < b.least(shape):
        return _linear(op.operands[1])
    return _linear(op.operands[2]) if a.least(shape) >= b.most(shape) else None


def _linear_extreme(name: str, a: Value, b: Value, within: Value | None = None) -> _Linear | None:
    """maximum(a, b) or minimum(a, b) that chooses the same operand for all elements, then minimum(..., within)."""
    x, y = (_linear(a), _linear(b)) if name == "maximum" else (_linear(b), _linear(a))
    if x is None or y is None:
        return None
    shape = a.shape
    if x.least(shape) >= y.most(shape):
        chosen = x if name == "maximum" else y
    elif y.least(shape) >= x.most(shape):
        chosen = y if name == "maximum" else x
    else:
        return None
    if within is None:
        return chosen
    limit = _linear(within)
    if limit is None:
        return None
    if chosen.most(shape) <= limit.least(shape):
        return chosen
    return limit if chosen.least(shape) >= limit.most(shape) else None


def _linear_literal(value: Value) -> _Linear | None:
    assert value.op is not None
    literal = value.op.attrs["value"]
    rank = len(value.shape)
    if literal.splat:
        return _Linear(int(literal.scalar()), (0,) * rank)
    if num_elements(value.shape) > _SMALL:
        return None
    # Differences of 64-bit integers may have more bits.
    array = literal.numpy().astype(object if SIZE[value.dtype] == 8 else "int64")
    base = int(array[(0,) * rank])
    expected: Any = base
    steps = []
    for d, extent in enumerate(value.shape):
        step = int(array[tuple(int(i == d) for i in range(rank))]) - base if extent > 1 else 0
        steps.append(step)
        places = np.arange(extent).astype(array.dtype).reshape(tuple(extent if i == d else 1 for i in range(rank)))
        expected = expected + step * places
    return _Linear(base, tuple(steps)) if bool((array == expected).all()) else None


def dynamic_slice(op: Op, rewriter: Rewriter) -> Value | None:
    """A slice where all starts are known."""
    operand, *starts = op.operands
    begins = _known_starts(starts, operand.shape, op.result.shape)
    if begins is None:
        return None
    return rewriter.slice(operand, begins, tuple(b + n for b, n in zip(begins, op.result.shape, strict=True)))


def dynamic_update_slice(op: Op, rewriter: Rewriter) -> Value | None:
    """An update at a known position where all starts are known."""
    operand, update, *starts = op.operands
    if update.shape == operand.shape:
        return update
    if num_elements(update.shape) == 0:
        return operand
    begins = _known_starts(starts, operand.shape, update.shape)
    return None if begins is None else rewriter.update_slice(operand, update, begins)


def _known_starts(starts: Sequence[Value], shape: Shape, sizes: Shape) -> Shape | None:
    """The starts, clamped so that the slice is inside; None where one is not known."""
    begins = []
    for start, extent, size in zip(starts, shape, sizes, strict=True):
        if extent == size:
            begins.append(0)
            continue
        linear = _linear(start)
        if linear is None:
            return None
        begins.append(max(0, min(linear.base, extent - size)))
    return tuple(begins)


class _Numbers(NamedTuple):
    """The dimension numbers of a gather or scatter, under the names that a gather has for them."""

    offset_dims: Shape
    collapsed: Shape
    batching: Shape
    index_batching: Shape
    start_map: Shape
    vector_dim: int


class _Windows(NamedTuple):
    """Windows that together are one strided slice of the operand.

    `begins`, `ends` and `strides` are by dimension of the operand; `along` is the dimension of the windows that
    corresponds to it, or None where the slice has one element. `inside`: dimension of the windows -> the first of them
    that is inside the operand and the one after the last; dimensions without an entry are inside.
    """

    begins: Shape
    ends: Shape
    strides: Shape
    along: tuple[int | None, ...]
    inside: dict[int, tuple[int, int]]


def _component(indices: Value, axis: int, number: int) -> tuple[_Linear, Shape] | None:
    """The `number`th component of the index vectors, over the dimensions of `indices` without `axis`."""
    shape = indices.shape
    batch = tuple(n for d, n in enumerate(shape) if d != axis)
    if axis == len(shape):
        value = _linear(indices)
        return None if value is None else (value, batch)
    op = indices.op
    if op is not None and op.name == "concatenate" and op.attrs["dimension"] == axis:
        for part in op.operands:
            if number < part.shape[axis]:
                return _component(part, axis, number)
            number -= part.shape[axis]
    value = _linear(indices)
    if value is None:
        return None
    steps = tuple(s for d, s in enumerate(value.steps) if d != axis)
    return _Linear(value.base + value.steps[axis] * number, steps), batch


def _windows(
    operand: Value, indices: Value, windows: Shape, sizes: Shape, wraps: Shape, n: _Numbers, clamps: bool
) -> _Windows | None:
    """The windows as one slice, or None where they are not one slice.

    A dimension of the windows that no dimension of the operand corresponds to repeats the slice. `clamps`: windows that
    are partly outside move inside, as for gathers; otherwise they are left out, as for scatters.
    """
    if 0 in windows or 0 in operand.shape:
        return None
    rank = len(operand.shape)
    batch_dims = [d for d in range(len(windows)) if d not in n.offset_dims]
    index_dims = [d for d in range(len(indices.shape)) if d != n.vector_dim]
    begins, ends, strides = [0] * rank, list(sizes), [1] * rank
    along: list[int | None] = [None] * rank
    inside: dict[int, tuple[int, int]] = {}
    offsets = iter(n.offset_dims)
    for d in range(rank):
        if d in n.batching:
            place = index_dims.index(n.index_batching[n.batching.index(d)])
            along[d], ends[d] = batch_dims[place], operand.shape[d]
        elif d not in n.collapsed:
            along[d] = next(offsets)
    for number, d in enumerate(n.start_map):
        room = operand.shape[d] - sizes[d]
        if room == 0 and clamps:
            continue
        component = _component(indices, n.vector_dim, number)
        if component is None:
            return None
        linear, shape = component
        if wraps and wraps[number] and linear.least(shape) < 0:
            if linear.most(shape) >= 0:
                return None
            linear = linear._replace(base=linear.base + wraps[number])
        moving = [b for b, step in enumerate(linear.steps) if step and shape[b] > 1]
        if not moving:
            begin = max(0, min(linear.base, room))
            begins[d], ends[d] = begin, begin + sizes[d]
            if begin != linear.base and not clamps:
                inside[-1] = (0, 0)  # all windows are outside
            continue
        (at, *others), step = moving, linear.steps[moving[0]]
        if others or sizes[d] != 1 or step < 0:
            return None
        first = max(0, -(linear.base // step))
        last = min(shape[at] - 1, (room - linear.base) // step)
        if first > 0 or last < shape[at] - 1:
            if clamps:
                return None
            inside[batch_dims[at]] = (first, max(first, last + 1))
        begins[d], strides[d], ends[d] = linear.base + first * step, step, linear.base + last * step + 1
        along[d] = batch_dims[at]
    used = [a for a in along if a is not None]
    if len(set(used)) != len(used):
        return None
    return _Windows(tuple(begins), tuple(ends), tuple(strides), tuple(along), inside)


def gather(op: Op, rewriter: Rewriter) -> Value | None:
    """A slice where all indices are known."""
    operand, indices = op.operands
    d = op.attrs["dimension_numbers"]
    numbers = _Numbers(
        tuple(d["offset_dims"]),
        tuple(d["collapsed_slice_dims"]),
        tuple(d["operand_batching_dims"]),
        tuple(d["start_indices_batching_dims"]),
        tuple(d["start_index_map"]),
        d["index_vector_dim"],
    )
    shape = op.result.shape
    wraps = tuple(op.attrs.get("index_wraps", ()))
    block = _windows(operand, indices, shape, tuple(op.attrs["slice_sizes"]), wraps, numbers, clamps=True)
    if block is None:
        return None
    extents = tuple(-(-(e - b) // s) for b, e, s in zip(block.begins, block.ends, block.strides, strict=True))
    value = rewriter.slice(operand, block.begins, block.ends, block.strides)
    kept = [(n, a) for n, a in zip(extents, block.along, strict=True) if a is not None]
    value = rewriter.reshape(value, tuple(n for n, _ in kept))
    return rewriter.broadcast(value, shape, tuple(a for _, a in kept))


def _scatter(op: Op, rewriter: Rewriter) -> list[Value] | None:
    count = len(op.results)
    operands, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    operand, update = operands[0], updates[0]
    d = op.attrs["scatter_dimension_numbers"]
    numbers = _Numbers(
        tuple(d["update_window_dims"]),
        tuple(d["inserted_window_dims"]),
        tuple(d["input_batching_dims"]),
        tuple(d["scatter_indices_batching_dims"]),
        tuple(d["scattered_dims_to_operand_dims"]),
        d["index_vector_dim"],
    )
    offsets = iter(numbers.offset_dims)
    single = (*numbers.collapsed, *numbers.batching)
    sizes = tuple(1 if i in single else update.shape[next(offsets)] for i in range(len(operand.shape)))
    wraps = tuple(op.attrs.get("index_wraps", ()))
    block = _windows(operand, indices, update.shape, sizes, wraps, numbers, clamps=False)
    if block is None:
        return None
    if any(begin == end for begin, end in block.inside.values()):
        return operands
    if any(n > 1 and d not in block.along for d, n in enumerate(update.shape)):
        return None  # several updates write one element
    body = op.regions[0]
    replaces = replaces_state(body)
    if not replaces and not all(is_elementwise(inner) or inner.name == "constant" for inner in body.ops[:-1]):
        return None
    order = [a for a in block.along if a is not None]
    order += [i for i in range(len(update.shape)) if i not in order]
    extents = tuple(-(-(e - b) // s) for b, e, s in zip(block.begins, block.ends, block.strides, strict=True))

    def as_slice(windows: Value) -> Value:
        if block.inside:
            ranges = [block.inside.get(d, (0, n)) for d, n in enumerate(windows.shape)]
            windows = rewriter.slice(windows, tuple(begin for begin, _ in ranges), tuple(end for _, end in ranges))
        return rewriter.reshape(rewriter.transpose(windows, tuple(order)), extents)

    new = [as_slice(u) for u in updates]
    if not replaces and not (count == 1 and _adds_to_zeros(single_op(body), operand)):
        old = [rewriter.slice(o, block.begins, block.ends, block.strides) for o in operands]
        new = rewriter.apply(body, [*old, *new], extents)
    if extents == operand.shape:
        return new
    return [rewriter.update_slice(o, n, block.begins, block.strides) for o, n in zip(operands, new, strict=True)]


def _adds_to_zeros(name: str | None, operand: Value) -> bool:
    literal = splat_of(operand)
    return name == "add" and literal is not None and operand.dtype != "pred" and not any(literal.data)


def _add(op: Op, rewriter: Rewriter) -> Value | None:
    for scattered, other in (op.operands, op.operands[::-1]):
        scatter = scattered.op
        if scatter is None or scatter.name != "scatter" or len(scatter.results) != 1 or len(scattered.users) != 1:
            continue
        operand, indices, update = scatter.operands
        if single_op(scatter.regions[0]) != "add" or not _adds_to_zeros("add", operand) or splat_of(other) is not None:
            continue
        # The scatter of zeros is there until dead code is removed: it keeps its body.
        region = clone_block(scatter.regions[0])
        attrs = dict(scatter.attrs)
        return rewriter.emit("scatter", (other, indices, update), op.result.shape, op.result.dtype, attrs, (region,))
    return None


RULES: dict[str, Rule] = {
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    "scatter": _scatter,
    "add": _add,
}
