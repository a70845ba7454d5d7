"""Replaces arithmetic on quantised types by arithmetic on the dequantised values, as StableHLO defines it."""

from __future__ import annotations

import re

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.frontend.rewrite import run_passes

QUANTIZED_OPS = frozenset(("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"))
# An unsigned storage type of a quantised type, and its range where that is given.
_UNSIGNED = re.compile(r"(?<=!quant\.uniform<)u(4|8|16)(<[-\d:]+>)?(?=:)")


def load_quantized_types(context: mlir.Context) -> None:
    """Makes `!quant` types readable: jaxlib loads their dialect only as a dependency of this pass."""
    run_passes(mlir.Module.parse("module {}", context), "vhlo-legalize-to-stablehlo")


def dequantize(module: mlir.Module) -> mlir.Module:
    """The module with arithmetic on floats, partly in ops of CHLO, in place of that on quantised types."""
    module = _with_signed_storage(module)
    run_passes(module, "func.func(stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-quant-to-math)")
    _make_broadcasts_explicit(module)
    return module


def _with_signed_storage(module: mlir.Module) -> mlir.Module:
    """The module with signed storage types of twice the width: jaxlib's pass stores unsigned ones in too few bits."""
    text = str(module.operation.get_asm(enable_debug_info=True))
    if not _UNSIGNED.search(text):
        return module
    with module.context:
        return mlir.Module.parse(_UNSIGNED.sub(_signed, text))


def _signed(storage: re.Match[str]) -> str:
    bits = int(storage[1])
    return f"i{2 * bits}{storage[2] or f'<0:{2**bits - 1}>'}"


def _make_broadcasts_explicit(module: mlir.Module) -> None:
    """Broadcasts operands of CHLO ops explicitly: the pass that expands them aligns only last dimensions."""
    for op in [op.operation for op in nested_ops(module.operation) if op.operation.name.startswith("chlo.broadcast_")]:
        if "broadcast_dimensions" not in op.attributes:
            continue
        shape, dims = mlir.RankedTensorType(op.results[0].type).shape, op.attributes["broadcast_dimensions"]
        for i, operand in enumerate(op.operands):
            kind = mlir.RankedTensorType(operand.type)
            if kind.rank and kind.rank < len(shape):
                with module.context, op.location, mlir.InsertionPoint(op):
                    whole = mlir.RankedTensorType.get(shape, kind.element_type)
                    op.operands[i] = stablehlo.broadcast_in_dim(whole, operand, dims)
        if all(mlir.RankedTensorType(o.type).rank == len(shape) for o in op.operands):
            del op.attributes["broadcast_dimensions"]
