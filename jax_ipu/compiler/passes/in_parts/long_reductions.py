"""Reductions of large tensors with the positions of their elements, as argmax, are computed in parts where memory
comes first.

The positions would take as much memory as the elements, or more. Each part has its own, which are free after it.
"""

from __future__ import annotations

import itertools

from jax_ipu.compiler.ir import Module, Op, Value, clone_block, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import Shape, num_elements

# Operands of this part of the memory are cut, into parts whose positions and elements take at most the other one.
_LARGE, _PART = 1 / 4, 1 / 8


def run(module: Module) -> None:
    """Applies to all ops of main."""
    if module.memory:
        rewrite(module.main.block, {"reduce": lambda op, rewriter: _reduce(op, rewriter, module.memory)})


def _reduce(op: Op, rewriter: Rewriter, memory: int) -> list[Value] | None:
    values = op.operands[: len(op.results)]
    counted = [_counted_dimension(v) for v in values]
    shape = values[0].shape
    total = sum(map(size_in_bytes, values))
    wide = op.results[0].dtype != values[0].dtype
    if wide or all(dim is None for dim in counted) or total < memory * _LARGE:
        return None
    # Parts of a dimension that is kept need not be combined.
    kept = [d for d in range(len(shape)) if d not in op.attrs["dimensions"]]
    longest = max(range(len(shape)), key=lambda d: shape[d])
    cut = max(kept, key=lambda d: shape[d], default=longest)
    parts = -(-total // int(memory * _PART))
    if shape[cut] < parts:
        cut = longest
    if shape[cut] < parts:
        return None
    bounds = [shape[cut] * part // parts for part in range(parts + 1)]
    pieces: list[list[Value]] = []
    for begin, end in itertools.pairwise(bounds):
        of_part = [_part(v, dim, cut, begin, end, rewriter) for v, dim in zip(values, counted, strict=True)]
        result_shape = tuple(end - begin if d == cut else shape[d] for d in kept)
        pieces.append(_again(op, of_part, op.attrs["dimensions"], result_shape, rewriter))
    if cut in kept:
        return [_join(of_all, kept.index(cut), rewriter) for of_all in zip(*pieces, strict=True)]
    rows = [
        _join([rewriter.reshape(v, (1, *v.shape)) for v in of_all], 0, rewriter) for of_all in zip(*pieces, strict=True)
    ]
    return _again(op, rows, (0,), op.results[0].shape, rewriter)


def _counted_dimension(value: Value) -> int | None:
    """The dimension along which each element of `value` is its own index, if there is one."""
    op = value.op
    if op is None:
        return None
    if op.name == "iota":
        dim = op.attrs["iota_dimension"]
        return dim if num_elements(value.shape) > 1 else None
    if op.name != "broadcast_in_dim":
        return None
    row = op.operands[0]
    inner = _counted_dimension(row)
    if inner is None:
        return None
    dim = op.attrs["broadcast_dimensions"][inner]
    return dim if row.shape[inner] == value.shape[dim] else None


def _part(value: Value, counted: int | None, cut: int, begin: int, end: int, rewriter: Rewriter) -> Value:
    """The elements begin...end of dimension `cut` of an operand that counts along `counted`."""
    shape = tuple(end - begin if d == cut else n for d, n in enumerate(value.shape))
    if counted is None:
        first = tuple(begin if d == cut else 0 for d in range(len(shape)))
        return rewriter.slice(value, first, tuple(b + n for b, n in zip(first, shape, strict=True)))
    positions = rewriter.emit("iota", (), shape, value.dtype, {"iota_dimension": counted})
    if counted != cut or begin == 0:
        return positions
    return rewriter.elementwise("add", positions, rewriter.full(shape, value.dtype, begin))


def _again(op: Op, values: list[Value], dims: Shape, shape: Shape, rewriter: Rewriter) -> list[Value]:
    """The reduction `op` over dimensions `dims` of other values, to results of this shape."""
    region = clone_block(op.regions[0])
    inits = op.operands[len(op.results) :]
    types = [(shape, result.dtype) for result in op.results]
    part = Op("reduce", [*values, *inits], types, {**op.attrs, "dimensions": dims}, (region,), rewriter.location)
    rewriter.ops.append(part)
    return part.results


def _join(values: list[Value] | tuple[Value, ...], dim: int, rewriter: Rewriter) -> Value:
    extent = sum(v.shape[dim] for v in values)
    shape = (*values[0].shape[:dim], extent, *values[0].shape[dim + 1 :])
    return rewriter.emit("concatenate", values, shape, values[0].dtype, {"dimension": dim})
