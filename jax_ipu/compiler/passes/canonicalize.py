"""Fewer forms of the same thing: legacy ops, scalar operands of clamp and select, iota, map, casts across widths."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import COMPLEX, INTEGER, SIZE, num_elements, type_text

# Custom calls that only carry annotations for a partitioner.
_PASS_THROUGH = frozenset(
    ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint")
)


def run(module: Module) -> None:
    rewrite(module.main.block, RULES)


def _dot(op: Op, rewriter: Rewriter) -> Value:
    lhs, rhs = op.operands
    numbers = {
        "lhs_batching_dimensions": (),
        "rhs_batching_dimensions": (),
        "lhs_contracting_dimensions": (len(lhs.shape) - 1,),
        "rhs_contracting_dimensions": (0,),
    }
    attrs = {"dot_dimension_numbers": numbers, "precision_config": op.attrs.get("precision_config")}
    return rewriter.emit("dot_general", (lhs, rhs), op.result.shape, op.result.dtype, attrs)


def _broadcast(op: Op, rewriter: Rewriter) -> Value:
    value, shape = op.operands[0], op.result.shape
    added = len(shape) - len(value.shape)
    return rewriter.broadcast(value, shape, tuple(range(added, len(shape))))


def _clamp(op: Op, rewriter: Rewriter) -> Value | None:
    shape = op.result.shape
    if all(o.shape == shape for o in op.operands):
        return None
    operands = [o if o.shape == shape else rewriter.broadcast(o, shape, ()) for o in op.operands]
    return rewriter.emit(op.name, operands, shape, op.result.dtype)


def _iota(op: Op, rewriter: Rewriter) -> Value | None:
    shape, dim, dtype = op.result.shape, op.attrs["iota_dimension"], op.result.dtype
    if shape[dim] == 1:
        return rewriter.full(shape, dtype, 0)
    if len(shape) == 1:
        return None
    line = rewriter.emit("iota", (), (shape[dim],), dtype, {"iota_dimension": 0})
    return rewriter.broadcast(line, shape, (dim,))


def _map(op: Op, rewriter: Rewriter) -> list[Value]:
    """The body with every scalar replaced by a tensor of the result's shape."""
    shape, body = op.result.shape, op.regions[0]
    values = dict(zip(body.args, op.operands, strict=True))
    for inner in body.ops[:-1]:
        if len(inner.results) != 1 or inner.regions or inner.result.shape != ():
            raise CompileError(
                f"map at {source_line(op.location) or 'an unknown line'} contains {inner.name}, which is not supported"
                " on IPU; use elementwise operations on scalars in its body"
            )
        literal = inner.attrs.get("value") if inner.name == "constant" else None
        if literal is not None:
            values[inner.result] = rewriter.constant(literal.reshaped(shape))
            continue
        operands = [_spread(rewriter, values.get(o, o), shape) for o in inner.operands]
        values[inner.result] = rewriter.emit(inner.name, operands, shape, inner.result.dtype, dict(inner.attrs))
    return [_spread(rewriter, values.get(r, r), shape) for r in body.results]


def _spread(rewriter: Rewriter, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else rewriter.broadcast(value, shape, ())


def _custom_call(op: Op, rewriter: Rewriter) -> Sequence[Value] | None:
    return list(op.operands) if op.attrs.get("call_target_name") in _PASS_THROUGH else None


def _bitcast_convert(op: Op, rewriter: Rewriter) -> Value | None:
    """Between widths: shifts and ors of unsigned words, low part first, as StableHLO defines it."""
    value, result = op.operands[0], op.result
    narrow, wide = sorted((value.dtype, result.dtype), key=SIZE.__getitem__)
    if SIZE[narrow] == SIZE[wide]:
        return value if value.dtype == result.dtype else None
    if {narrow, wide} & COMPLEX or "pred" in (narrow, wide) or narrow in ("s4", "u4", "s2", "u2", "f4e2m1fn"):
        raise CompileError(
            f"bitcast_convert from {type_text(value.shape, value.dtype)} to {type_text(result.shape, result.dtype)} at"
            f" {source_line(op.location) or 'an unknown line'} is not supported on IPU; go through integers of 8 to 64"
            " bits"
        )
    word, part = f"u{8 * SIZE[wide]}", f"u{8 * SIZE[narrow]}"
    count, bits = SIZE[wide] // SIZE[narrow], 8 * SIZE[narrow]
    if wide == value.dtype:
        words = _bitcast(rewriter, value, word)
        pieces = []
        for i in range(count):
            shifted = words
            if i:
                shift = rewriter.full(words.shape, word, i * bits)
                shifted = rewriter.emit("shift_right_logical", (words, shift), words.shape, word)
            # Converting to a narrower unsigned type keeps the low bits.
            small = rewriter.emit("convert", (shifted,), words.shape, part)
            pieces.append(rewriter.reshape(small, (*words.shape, 1)))
        joined = rewriter.emit("concatenate", pieces, (*words.shape, count), part, {"dimension": len(words.shape)})
        return _bitcast(rewriter, joined, result.dtype)
    parts = _bitcast(rewriter, value, part)
    total: Value | None = None
    for i in range(count):
        rank = len(parts.shape)
        piece = rewriter.emit(
            "slice",
            (parts,),
            (*parts.shape[:-1], 1),
            part,
            {
                "start_indices": (0,) * (rank - 1) + (i,),
                "limit_indices": (*parts.shape[:-1], i + 1),
                "strides": (1,) * rank,
            },
        )
        wider = rewriter.emit("convert", (rewriter.reshape(piece, result.shape),), result.shape, word)
        if i:
            shift = rewriter.full(result.shape, word, i * bits)
            wider = rewriter.emit("shift_left", (wider, shift), result.shape, word)
        total = wider if total is None else rewriter.emit("or", (total, wider), result.shape, word)
    assert total is not None
    return _bitcast(rewriter, total, result.dtype)


def _bitcast(rewriter: Rewriter, value: Value, dtype: str) -> Value:
    if value.dtype == dtype:
        return value
    return rewriter.emit("bitcast_convert", (value,), value.shape, dtype)


def _dynamic_slice(op: Op, rewriter: Rewriter) -> Value | None:
    operand, *starts = op.operands
    begins = _static_starts(starts, operand.shape, op.result.shape)
    if begins is None:
        return None
    limits = tuple(b + n for b, n in zip(begins, op.result.shape, strict=True))
    attrs = {"start_indices": begins, "limit_indices": limits, "strides": (1,) * len(begins)}
    return rewriter.emit("slice", (operand,), op.result.shape, op.result.dtype, attrs)


def _dynamic_update_slice(op: Op, rewriter: Rewriter) -> Value | None:
    operand, update = op.operands[:2]
    if update.shape == operand.shape:
        return update
    return operand if num_elements(update.shape) == 0 else None


def _static_starts(starts: Sequence[Value], shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    begins = []
    for start, extent, size in zip(starts, shape, sizes, strict=True):
        if extent == size:
            begins.append(0)
            continue
        literal = splat_of(start)
        if literal is None or literal.dtype not in INTEGER:
            return None
        begins.append(max(0, min(int(literal.scalar()), extent - size)))
    return tuple(begins)


RULES: dict[str, Rule] = {
    "dot": _dot,
    "broadcast": _broadcast,
    "clamp": _clamp,
    "select": _clamp,
    "iota": _iota,
    "map": _map,
    "custom_call": _custom_call,
    "bitcast_convert": _bitcast_convert,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
