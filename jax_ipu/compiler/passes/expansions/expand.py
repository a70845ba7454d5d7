"""Replaces ops that StableHLO defines in terms of other ops, so that later passes have fewer ops to know."""

from __future__ import annotations

from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.collectives import single_member
from jax_ipu.compiler.passes.expansions import (
    batch_norm,
    bitcast,
    legacy_ops,
    long_fft,
    ragged_all_to_all,
    random_numbers,
    small_floats,
)
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import COMPLEX


def run(module: Module) -> None:
    """Applies to all ops of main RULES, and rules that depend on the number of IPUs and of their tiles."""
    rules = RULES | long_fft.rules(module.num_tiles)
    if module.num_replicas * module.num_partitions == 1:
        rules |= single_member.RULES
    elif module.num_replicas > 1 and module.num_partitions > 1:
        rules |= ragged_all_to_all.RULES_OF_REPLICATED_PARTITIONS
    rewrite(module.main.block, rules)


def _get_dimension_size(op: Op, rewriter: Rewriter) -> Value:
    return rewriter.full((), op.result.dtype, op.operands[0].shape[op.attrs["dimension"]])


def _real_dynamic_slice(op: Op, rewriter: Rewriter) -> Value | None:
    """A dynamic_slice followed by a strided slice; the strides must be constant."""
    operand, starts, _, strides = op.operands
    if strides.op is None or strides.op.name != "constant":
        return None
    steps = tuple(int(n) for n in strides.op.attrs["value"].numpy())
    begins = [rewriter.reshape(rewriter.slice(starts, (d,), (d + 1,)), ()) for d in range(len(steps))]
    extents = tuple(max(0, (n - 1) * step + 1) for n, step in zip(op.result.shape, steps, strict=True))
    attrs = {"slice_sizes": extents}
    piece = rewriter.emit("dynamic_slice", (operand, *begins), extents, operand.dtype, attrs)
    attrs = {"start_indices": (0,) * len(steps), "limit_indices": extents, "strides": steps}
    return rewriter.emit("slice", (piece,), op.result.shape, operand.dtype, attrs)


def _convert(op: Op, rewriter: Rewriter) -> Value | None:
    """A complex number converts to a real type, also to bool, by its real part."""
    value, dtype = op.operands[0], op.result.dtype
    if value.dtype not in COMPLEX or dtype in COMPLEX:
        return None
    real = rewriter.elementwise("real", value, dtype="f32" if value.dtype == "c64" else "f64")
    return rewriter.convert(real, dtype)


def _in_f32(op: Op, rewriter: Rewriter) -> Value | None:
    """Factorises narrow floats in f32 and rounds the result once."""
    if op.result.dtype not in ("f16", "bf16"):
        return None
    operands = [rewriter.convert(o, "f32") for o in op.operands]
    return rewriter.convert(rewriter.emit(op.name, operands, op.result.shape, "f32", dict(op.attrs)), op.result.dtype)


RULES: dict[str, Rule] = {
    **batch_norm.RULES,
    **bitcast.RULES,
    **legacy_ops.RULES,
    **ragged_all_to_all.RULES,
    **random_numbers.RULES,
    **small_floats.RULES,
    "cholesky": _in_f32,
    "convert": _convert,
    "get_dimension_size": _get_dimension_size,
    "real_dynamic_slice": _real_dynamic_slice,
    "triangular_solve": _in_f32,
}
