"""Rewrites ops that have several forms into one: dot, clamp, select, iota, map, slices at constant positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jax_ipu.compiler import ffi_calls, tile_calls
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.ir import HOST_MEMORY, PLACEMENT, PLACEMENT_KIND, Module, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.indices import known_indices, one_row
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.passes.state import host_memory
from jax_ipu.compiler.types import FLOAT, INTEGER, Literal, num_elements

# Custom calls that only annotate a value for a partitioner.
_PASS_THROUGH = frozenset(
    (
        "LayoutConstraint",
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "dce_sink",
    )
)


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


def run_products(module: Module) -> None:
    """Gives products one form, for all that asks what they sum over; XLA's partitioner writes dot."""
    rewrite(module.main.block, {"dot": _dot})


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


def _dot_general(op: Op, rewriter: Rewriter) -> Value | None:
    """Rounds floating-point sums where the result is an integer: PopLibs has no such product."""
    result = op.result
    if result.dtype not in INTEGER or not any(o.dtype in FLOAT for o in op.operands):
        return None
    wide = "f64" if any(o.dtype == "f64" for o in op.operands) else "f32"
    product = rewriter.emit("dot_general", op.operands, result.shape, wide, op.attrs)
    return rewriter.emit("convert", (product,), result.shape, result.dtype)


def _convolution(op: Op, rewriter: Rewriter) -> Value | None:
    """Converts integer operands first where the result is no integer: PopLibs has no mixed convolutions."""
    result = op.result
    if result.dtype in INTEGER or not all(o.dtype in INTEGER for o in op.operands):
        return None
    operands = [rewriter.emit("convert", (o,), o.shape, result.dtype) for o in op.operands]
    return rewriter.emit(op.name, operands, result.shape, result.dtype, op.attrs)


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
    """Replaces map by its body, with tensors of the shape of the result in place of scalars."""
    body = op.regions[0]
    for inner in body.ops[:-1]:
        if len(inner.results) != 1 or inner.regions or inner.result.shape != ():
            raise CompileError(
                f"map at {source_line(op.location) or 'an unknown line'} contains {inner.name}, which is not supported"
                " on IPU; use elementwise operations on scalars in its body"
            )
    return rewriter.apply(body, op.operands, op.result.shape)


# Custom calls that the lowering implements.
_OWN_NAMES = {
    "ipu_apply_reflectors": "ipu.apply_reflectors",
    "ipu_apply_reflectors_below": "ipu.apply_reflectors_below",
    "ipu_balanced_schur": "ipu.balanced_schur",
    "ipu_balanced_schur_vectors": "ipu.balanced_schur",
    "ipu_bidiagonal": "ipu.bidiagonal",
    "ipu_bidiagonal_qr": "ipu.bidiagonal_qr",
    "ipu_hessenberg": "ipu.hessenberg",
    "ipu_lu_panel": "ipu.lu_panel",
    "ipu_python_callback": "ipu.callback",
    "ipu_qr_panel": "ipu.qr_panel",
    "ipu_schur": "ipu.schur",
    "ipu_schur_vectors": "ipu.schur",
    "ipu_tridiagonal": "ipu.tridiagonal",
    "ipu_tridiagonal_qr": "ipu.tridiagonal_qr",
}


def _custom_call(op: Op, rewriter: Rewriter) -> Sequence[Value] | None:
    target = op.attrs.get("call_target_name")
    # dce_sink keeps its operand alive, control_dep orders two ops: neither computes anything.
    if target in ("dce_sink", "control_dep"):
        return []
    if target in _PASS_THROUGH:
        return op.operands[: len(op.results)]
    if target == PLACEMENT:
        return _placement(op, rewriter)
    if target == "ipu_partitioned_python_callback":
        # The host function does not know the shapes of the shards, so they become its first operands.
        shapes = [rewriter.constant(Literal.from_numpy("s64", np.array(o.shape))) for o in op.operands]
        op.set_operands([*shapes, *op.operands])
        op.name = "ipu.callback"
    if target in tile_calls.OPS:
        return _tile_call(op, str(target), rewriter)
    op.name = _OWN_NAMES.get(str(target), op.name)
    call = op.attrs.get(ffi_calls.ATTRIBUTE)
    return _ffi_call(op, call, rewriter) if call is not None and op.name == "custom_call" else None


def _placement(op: Op, rewriter: Rewriter) -> Sequence[Value]:
    """A marker for `host_memory`, which knows what else is in host memory."""
    frontend = op.attrs.get("mhlo.frontend_attributes") or {}
    in_host = frontend.get(PLACEMENT_KIND) == HOST_MEMORY
    marker = host_memory.TO_HOST if in_host else host_memory.TO_DEVICE
    return [rewriter.emit(marker, op.operands, op.result.shape, op.result.dtype)]


def _tile_call(op: Op, target: str, rewriter: Rewriter) -> Sequence[Value]:
    """The op of a call of jax_ipu.tile. A gather of all parts in order is a put."""
    call = tile_calls.read(target, op.attrs.get("backend_config"), len(op.operands), len(op.results))
    name = tile_calls.OPS[target]
    if isinstance(call, tile_calls.OnTiles) and call.indices == tuple(range(*op.operands[0].shape[:1])):
        name = "ipu.tile_put"
    attrs = {tile_calls.ATTRIBUTE: call, "has_side_effect": name == "ipu.cycle_count"}
    made = Op(name, op.operands, [(r.shape, r.dtype) for r in op.results], attrs, (), rewriter.location)
    rewriter.ops.append(made)
    return made.results


def _ffi_call(op: Op, call: ffi_calls.FfiCall, rewriter: Rewriter) -> Sequence[Value]:
    """Transposes operands and results so that they lie in memory as the handler expects."""
    operands = [
        o if b.is_token else rewriter.transpose(o, b.major_to_minor)
        for o, b in zip(op.operands, call.operands, strict=True)
    ]
    types = [
        (r.shape if b.is_token else tuple(b.shape[d] for d in b.major_to_minor), r.dtype)
        for r, b in zip(op.results, call.results, strict=True)
    ]
    attrs = {ffi_calls.ATTRIBUTE: call, "has_side_effect": op.attrs.get("has_side_effect", False)}
    made = Op("ipu.ffi_call", operands, types, attrs, (), rewriter.location)
    rewriter.ops.append(made)
    return [
        r if b.is_token else rewriter.transpose(r, tuple(map(b.major_to_minor.index, range(len(b.shape)))))
        for r, b in zip(made.results, call.results, strict=True)
    ]


def _sharding_constraint(op: Op, rewriter: Rewriter) -> Value:
    return op.operands[0]


def _reduce_nothing(op: Op, rewriter: Rewriter) -> list[Value] | None:
    """A reduction of no elements gives its initial value, as a new value: later passes may write over its storage."""
    count = len(op.results)
    if num_elements(op.operands[0].shape):
        return None
    return [rewriter.spread(i, r.shape) for i, r in zip(op.operands[count : 2 * count], op.results, strict=True)]


def _fft_of_nothing(op: Op, rewriter: Rewriter) -> Value | None:
    """The inverse of a transform of one element has no elements where its length is not given."""
    return None if num_elements(op.result.shape) else rewriter.full(op.result.shape, op.result.dtype, 0)


def _scatter_nothing(op: Op, rewriter: Rewriter) -> Value | None:
    _, source, init = op.operands
    return None if num_elements(source.shape) else rewriter.spread(init, op.result.shape)


def _sort_scalars(op: Op, rewriter: Rewriter) -> list[Value] | None:
    return None if op.results[0].shape else list(op.operands)


# The operands of an op that are indices.
_INDICES: dict[str, Callable[[Op], slice]] = {
    "gather": lambda op: slice(1, 2),
    "scatter": lambda op: slice(len(op.results), len(op.results) + 1),
    "dynamic_slice": lambda op: slice(1, None),
    "dynamic_update_slice": lambda op: slice(2, None),
}


def _by_whole_bytes(rule: Rule) -> Rule:
    """The rule for an op whose indices, if of less than a byte, are converted first: unused bits are no part of it."""

    def indexed(op: Op, rewriter: Rewriter) -> Sequence[Value] | Value | None:
        operands, places = list(op.operands), _INDICES[op.name](op)
        if any(index.dtype in _SUB_BYTE for index in operands[places]):
            operands[places] = [rewriter.convert(index, "s32") for index in operands[places]]
            op.set_operands(operands)
        return rule(op, rewriter)

    return indexed


_SUB_BYTE = frozenset(("s2", "s4", "u2", "u4"))

RULES: dict[str, Rule] = {
    "dot_general": _dot_general,
    "convolution": _convolution,
    "broadcast": _broadcast,
    "clamp": _clamp,
    "select": _clamp,
    "fft": _fft_of_nothing,
    "iota": _iota,
    "map": _map,
    "custom_call": _custom_call,
    "sdy.sharding_constraint": _sharding_constraint,
    "gather": _by_whole_bytes(one_row.RULES["gather"]),
    "scatter": _by_whole_bytes(one_row.RULES["scatter"]),
    "dynamic_slice": _by_whole_bytes(known_indices.dynamic_slice),
    "dynamic_update_slice": _by_whole_bytes(known_indices.dynamic_update_slice),
    "reduce": _reduce_nothing,
    "reduce_window": _reduce_nothing,
    "select_and_scatter": _scatter_nothing,
    "sort": _sort_scalars,
}
