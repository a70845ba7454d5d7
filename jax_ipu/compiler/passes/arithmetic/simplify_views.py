"""The rules of `simplify` for ops that only move elements: broadcasts, reshapes, transposes, slices, concatenations."""

from __future__ import annotations

import itertools
import math

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.types import Literal, Shape, num_elements

# Views of constants with up to this many elements are computed at compile time.
SMALL = 1024


def literal_of(value: Value) -> Literal | None:
    """The constant that the value is, or None."""
    op = value.op
    return op.attrs["value"] if op is not None and op.name == "constant" else None


def compose_broadcast(op: Op, rewriter: Rewriter) -> Value | None:
    """A broadcast of a broadcast, of a constant, or of a reshape that adds dimensions of one element, as one op."""
    value, shape, dims = op.operands[0], op.result.shape, tuple(op.attrs["broadcast_dimensions"])
    if value.shape == shape and dims == tuple(range(len(shape))):
        return value
    literal = splat_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    inner = value.op
    if inner is not None and inner.name == "broadcast_in_dim":
        composed = tuple(dims[d] for d in inner.attrs["broadcast_dimensions"])
        return rewriter.broadcast(inner.operands[0], shape, composed)
    if inner is not None and inner.name == "reshape":
        source = inner.operands[0]
        added = inserted_units(source.shape, value.shape)
        if added is not None:
            kept = [d for d in range(len(value.shape)) if d not in added]
            return rewriter.broadcast(source, shape, tuple(dims[d] for d in kept))
        if source.op is not None and source.op.name == "broadcast_in_dim":
            return _broadcast_before_merging(source.op, value.shape, shape, dims, rewriter)
    return None


def _broadcast_before_merging(inner: Op, merged: Shape, shape: Shape, dims: Shape, rewriter: Rewriter) -> Value | None:
    """The broadcast of a reshape that merges dimensions of a broadcast, as one broadcast whose result is reshaped.

    So values that are repeated along several dimensions (`jnp.repeat`, nearest neighbours) are written once.
    """
    if any(shape[d] != extent for d, extent in zip(dims, merged, strict=True)):
        return None
    source = inner.result
    extents = [[extent] for extent in shape]
    positions: list[tuple[int, int]] = []  # of the dimensions of the source: in the result, and among what is merged
    i = 0
    for d, extent in zip(dims, merged, strict=True):
        parts: list[int] = []
        while i < len(source.shape) and (math.prod(parts) < extent or (source.shape[i] == 1 and extent > 0)):
            positions.append((d, len(parts)))
            parts.append(source.shape[i])
            i += 1
        if math.prod(parts) != extent:
            return None
        extents[d] = parts
    if i < len(source.shape):
        return None
    begins = [0, *itertools.accumulate(map(len, extents))]
    apart = tuple(extent for parts in extents for extent in parts)
    places = [begins[d] + k for d, k in positions]
    composed = tuple(places[d] for d in inner.attrs["broadcast_dimensions"])
    return rewriter.reshape(rewriter.broadcast(inner.operands[0], apart, composed), shape)


def inserted_units(small: tuple[int, ...], large: tuple[int, ...]) -> set[int] | None:
    """The dimensions of one element that turn `small` into `large`; None where that takes more."""
    added: set[int] = set()
    i = 0
    for d, extent in enumerate(large):
        if i < len(small) and small[i] == extent:
            i += 1
        elif extent == 1:
            added.add(d)
        else:
            return None
    return added if i == len(small) else None


def _reshape(op: Op, rewriter: Rewriter) -> Value | None:
    value, shape = op.operands[0], op.result.shape
    if value.shape == shape:
        return value
    literal = literal_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    if value.op is not None and value.op.name == "reshape":
        return rewriter.reshape(value.op.operands[0], shape)
    return None


def _transpose(op: Op, rewriter: Rewriter) -> Value | None:
    value, permutation = op.operands[0], tuple(op.attrs["permutation"])
    if permutation == tuple(range(len(permutation))):
        return value
    literal = literal_of(value)
    if literal is not None and (literal.splat or num_elements(literal.shape) <= SMALL):
        if literal.splat:
            return rewriter.constant(literal.reshaped(op.result.shape))
        return rewriter.constant(Literal.from_numpy(literal.dtype, literal.numpy().transpose(permutation)))
    inner = value.op
    if inner is not None and inner.name == "transpose":
        composed = tuple(inner.attrs["permutation"][p] for p in permutation)
        source = inner.operands[0]
        if composed == tuple(range(len(composed))):
            return source
        return rewriter.emit("transpose", (source,), op.result.shape, source.dtype, {"permutation": composed})
    if inner is not None and inner.name == "broadcast_in_dim":
        places = tuple(permutation.index(d) for d in inner.attrs["broadcast_dimensions"])
        if places == tuple(sorted(places)):
            return rewriter.broadcast(inner.operands[0], op.result.shape, places)
    if inner is not None and inner.name == "dot_general" and len(value.users) == 1:
        return _transposed_dot(inner, permutation, rewriter)
    return None


def _transposed_dot(dot: Op, permutation: tuple[int, ...], rewriter: Rewriter) -> Value | None:
    """transpose(dot(a, b)) = dot(b, a), where the transpose swaps the free dimensions of both operands."""
    numbers = dot.attrs["dot_dimension_numbers"]
    lhs, rhs = dot.operands
    batch = len(numbers["lhs_batching_dimensions"])
    lhs_free = len(lhs.shape) - batch - len(numbers["lhs_contracting_dimensions"])
    rank = len(dot.result.shape)
    swapped = (*range(batch), *range(batch + lhs_free, rank), *range(batch, batch + lhs_free))
    if permutation != swapped:
        return None
    flipped = {
        "lhs_batching_dimensions": numbers["rhs_batching_dimensions"],
        "rhs_batching_dimensions": numbers["lhs_batching_dimensions"],
        "lhs_contracting_dimensions": numbers["rhs_contracting_dimensions"],
        "rhs_contracting_dimensions": numbers["lhs_contracting_dimensions"],
    }
    attrs = dict(dot.attrs)
    attrs["dot_dimension_numbers"] = flipped
    shape = tuple(dot.result.shape[p] for p in permutation)
    return rewriter.emit("dot_general", (rhs, lhs), shape, dot.result.dtype, attrs)


def _slice(op: Op, rewriter: Rewriter) -> Value | None:
    value = op.operands[0]
    if value.shape == op.result.shape:
        return value
    literal = literal_of(value)
    if literal is not None:
        if literal.splat:
            return rewriter.constant(literal.reshaped(op.result.shape))
        if num_elements(literal.shape) <= SMALL:
            index = tuple(
                slice(b, e, s)
                for b, e, s in zip(
                    op.attrs["start_indices"], op.attrs["limit_indices"], op.attrs["strides"], strict=True
                )
            )
            return rewriter.constant(Literal.from_numpy(literal.dtype, literal.numpy()[index]))
    if value.op is not None and value.op.name == "concatenate":
        return _slice_of_part(op, value.op, rewriter)
    if value.op is not None and value.op.name == "broadcast_in_dim":
        return _slice_of_constant(op, value.op, rewriter)
    return None


def _slice_of_constant(op: Op, broadcast: Op, rewriter: Rewriter) -> Value | None:
    """The slice of a small constant that is repeated, as the constant's slice repeated (`jnp.polyval` under `vmap`)."""
    literal = literal_of(broadcast.operands[0])
    if literal is None or num_elements(literal.shape) > SMALL:
        return None
    index, dims = [], tuple(broadcast.attrs["broadcast_dimensions"])
    for d, n in zip(dims, literal.shape, strict=True):
        begin, end, stride = (op.attrs[key][d] for key in ("start_indices", "limit_indices", "strides"))
        index.append(slice(None) if n == 1 else slice(begin, end, stride))
    part = rewriter.constant(Literal.from_numpy(literal.dtype, literal.numpy()[tuple(index)]))
    return rewriter.broadcast(part, op.result.shape, dims)


def _slice_of_part(op: Op, concatenation: Op, rewriter: Rewriter) -> Value | None:
    """A slice that lies in one of the values that are concatenated, as a slice of that."""
    dim = concatenation.attrs["dimension"]
    begins, ends = list(op.attrs["start_indices"]), list(op.attrs["limit_indices"])
    first = 0
    for part in concatenation.operands:
        size = part.shape[dim]
        if first <= begins[dim] and ends[dim] <= first + size:
            begins[dim] -= first
            ends[dim] -= first
            return rewriter.slice(part, tuple(begins), tuple(ends), tuple(op.attrs["strides"]))
        first += size
    return None


def _concatenate(op: Op, rewriter: Rewriter) -> Value | None:
    dim = op.attrs["dimension"]
    parts = [p for o in op.operands for p in _parts(o, dim)]
    if len(parts) > len(op.operands):
        return rewriter.emit("concatenate", parts, op.result.shape, op.result.dtype, {"dimension": dim})
    pieces = [o for o in op.operands if o.shape[dim] != 0]
    if len(pieces) == len(op.operands):
        return pieces[0] if len(pieces) == 1 else None
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return op.operands[0]
    return rewriter.emit("concatenate", pieces, op.result.shape, op.result.dtype, {"dimension": dim})


def _parts(value: Value, dim: int) -> list[Value]:
    """What a value is concatenated of along `dim`, if that is all it is used for."""
    inner = value.op
    if inner is None or inner.name != "concatenate" or inner.attrs["dimension"] != dim or len(value.users) > 1:
        return [value]
    return inner.operands


def _reverse(op: Op, rewriter: Rewriter) -> Value | None:
    value = op.operands[0]
    dims = tuple(d for d in op.attrs["dimensions"] if value.shape[d] > 1)
    return value if not dims or splat_of(value) is not None else None


def _pad(op: Op, rewriter: Rewriter) -> Value | None:
    value, padding = op.operands
    if not any(any(op.attrs[k]) for k in ("edge_padding_low", "edge_padding_high", "interior_padding")):
        return value
    literal = splat_of(padding)
    if literal is not None and num_elements(value.shape) == 0:
        return rewriter.constant(literal.reshaped(op.result.shape))
    return None


RULES: dict[str, Rule] = {
    "broadcast_in_dim": compose_broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "pad": _pad,
}
