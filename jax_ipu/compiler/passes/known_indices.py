"""Replaces gathers and scatters with indices known at compile time by slices and updates.

Indices are known where they are a linear function of their position: constants, `iota`, and arithmetic on these. Then
`x[jnp.arange(n)]` is a view, and its gradient an update of one slice. `x + scatter(zeros, ...)` becomes
`scatter(x, ...)`, so that the zeros need no memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax_ipu.compiler.expression import single_op, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
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
    bits = 8 * SIZE[value.dtype]
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if value.dtype in SIGNED else (0, 1 << bits)
    return result if result.least(value.shape) >= low and result.most(value.shape) < high else None


def _linear_of(op: Op) -> _Linear | None:
    shape = op.result.shape
    if op.name == "constant":
        return _linear_literal(op.result)
    if op.name == "iota":
        return _Linear(0, tuple(int(d == op.attrs["iota_dimension"]) for d in range(len(shape))))
    if op.name == "select":
        return _linear_choice(op)
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


def _linear_literal(value: Value) -> _Linear | None:
    assert value.op is not None
    literal = value.op.attrs["value"]
    rank = len(value.shape)
    if literal.splat:
        return _Linear(int(literal.scalar()), (0,) * rank)
    if num_elements(value.shape) > _SMALL:
        return None
    array = literal.numpy().astype(object if value.dtype == "u64" else "int64")
    base = int(array[(0,) * rank])
    expected: Any = base
    steps = []
    for d, extent in enumerate(value.shape):
        step = int(array[tuple(int(i == d) for i in range(rank))]) - base if extent > 1 else 0
        steps.append(step)
        places = np.arange(extent).reshape(tuple(extent if i == d else 1 for i in range(rank)))
        expected = expected + step * places
    return _Linear(base, tuple(steps)) if bool((array == expected).all()) else None


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
    corresponds to it, or None where the slice has one element.
    """

    begins: Shape
    ends: Shape
    strides: Shape
    along: tuple[int | None, ...]


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
    """The windows as one slice, or None where they are not one slice inside the operand.

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
        if wraps and linear.most(shape) < 0:
            linear = linear._replace(base=linear.base + wraps[number])
        if linear.least(shape) < 0 or linear.most(shape) > room:
            return None
        moving = [b for b, step in enumerate(linear.steps) if step and shape[b] > 1]
        if not moving:
            begins[d], ends[d] = linear.base, linear.base + sizes[d]
            continue
        if len(moving) > 1 or sizes[d] != 1 or linear.steps[moving[0]] < 0:
            return None
        begins[d], strides[d] = linear.base, linear.steps[moving[0]]
        ends[d] = linear.most(shape) + 1
        along[d] = batch_dims[moving[0]]
    used = [a for a in along if a is not None]
    if len(set(used)) != len(used):
        return None
    return _Windows(tuple(begins), tuple(ends), tuple(strides), tuple(along))


def _gather(op: Op, rewriter: Rewriter) -> Value | None:
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
    value = operand
    if extents != operand.shape:
        attrs = {"start_indices": block.begins, "limit_indices": block.ends, "strides": block.strides}
        value = rewriter.emit("slice", (operand,), extents, operand.dtype, attrs)
    kept = [(n, a) for n, a in zip(extents, block.along, strict=True) if a is not None]
    value = rewriter.reshape(value, tuple(n for n, _ in kept))
    return rewriter.broadcast(value, shape, tuple(a for _, a in kept))


def _scatter(op: Op, rewriter: Rewriter) -> Value | None:
    if len(op.results) != 1:
        return None
    operand, indices, update = op.operands
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
    if block is None or any(s != 1 for s in block.strides):
        return None
    if any(n > 1 and d not in block.along for d, n in enumerate(update.shape)):
        return None  # several updates write one element
    order = [a for a in block.along if a is not None]
    order += [i for i in range(len(update.shape)) if i not in order]
    extents = tuple(e - b for b, e in zip(block.begins, block.ends, strict=True))
    new = rewriter.reshape(rewriter.transpose(update, tuple(order)), extents)
    name = _combination(op.regions[0])
    if name is None:
        return None
    if name and not _adds_to_zeros(name, operand):
        old = operand if extents == operand.shape else rewriter.slice(operand, block.begins, block.ends)
        new = rewriter.elementwise(name, old, new)
    if extents == operand.shape:
        return new
    starts = [rewriter.full((), "s32", b) for b in block.begins]
    return rewriter.emit("dynamic_update_slice", (operand, new, *starts), operand.shape, operand.dtype)


def _combination(body: Block) -> str | None:
    """The name of the op that combines element and update; "" where the update replaces the element, None otherwise."""
    if len(body.ops) == 1 and body.results == body.args[1:]:
        return ""
    name = single_op(body)
    return name if name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor") else None


def _adds_to_zeros(name: str, operand: Value) -> bool:
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
        region = scatter.regions.pop()
        attrs = dict(scatter.attrs)
        return rewriter.emit("scatter", (other, indices, update), op.result.shape, op.result.dtype, attrs, (region,))
    return None


RULES: dict[str, Rule] = {"gather": _gather, "scatter": _scatter, "add": _add}
