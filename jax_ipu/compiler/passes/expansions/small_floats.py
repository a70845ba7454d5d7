"""top_k of 8-bit floats by way of integers of the same order, which take no more memory; of 4-bit floats in f16."""

from __future__ import annotations

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule

# The bits of infinity. The other types have one bit pattern for NaN of each sign, or one at all.
_INFINITY = {"f8e3m4": 0x70, "f8e4m3": 0x78, "f8e5m2": 0x7C}
_SIGNED = frozenset((*_INFINITY, "f8e4m3fn"))
# Types without -0: what would be its bits is NaN.
_UNSIGNED_ZERO = frozenset(("f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz"))


def _top_k(op: Op, rewriter: Rewriter) -> list[Value] | None:
    value = op.operands[0]
    dtype = value.dtype
    if dtype == "f4e2m1fn":
        values, indices = _emit(op, rewriter.convert(value, "f16"), rewriter)
        return [rewriter.convert(values, dtype), indices]
    if dtype == "f8e8m0fnu":
        values, indices = _emit(op, _bitcast(value, "u8", rewriter), rewriter)
        return [_bitcast(values, dtype, rewriter), indices]
    if dtype not in _SIGNED and dtype not in _UNSIGNED_ZERO:
        return None
    keys = _mirrored(_bitcast(value, "s8", rewriter), dtype, rewriter)
    if dtype in _INFINITY:
        # All NaN of one sign are equal.
        nan = _INFINITY[dtype] + 1
        low, high = (rewriter.full(keys.shape, "s8", n) for n in (~nan, nan))
        keys = rewriter.elementwise("clamp", low, keys, high)
    values, indices = _emit(op, keys, rewriter)
    return [_bitcast(_mirrored(values, dtype, rewriter), dtype, rewriter), indices]


def _emit(op: Op, value: Value, rewriter: Rewriter) -> list[Value]:
    types = [(op.results[0].shape, value.dtype), (op.results[1].shape, op.results[1].dtype)]
    top_k = Op(op.name, (value,), types, dict(op.attrs), (), op.location)
    rewriter.ops.append(top_k)
    return top_k.results


def _bitcast(value: Value, dtype: str, rewriter: Rewriter) -> Value:
    return rewriter.elementwise("bitcast_convert", value, dtype=dtype)


def _mirrored(bits: Value, dtype: str, rewriter: Rewriter) -> Value:
    """The bits with the order of negative numbers reversed, as integers have it; its own inverse."""
    zero = rewriter.full(bits.shape, "s8", 0)
    negative = rewriter.elementwise("compare", bits, zero, dtype="pred", comparison_direction="LT")
    if dtype in _SIGNED:
        other = rewriter.elementwise("xor", bits, rewriter.full(bits.shape, "s8", 0x7F))
        return rewriter.elementwise("select", negative, other, bits, dtype="s8")
    lowest = rewriter.full(bits.shape, "s8", -128)
    # NaN, whose sign is set, stays below all numbers.
    is_nan = rewriter.elementwise("compare", bits, lowest, dtype="pred", comparison_direction="EQ")
    other = rewriter.elementwise("subtract", lowest, bits)
    mirrored = rewriter.elementwise("select", negative, other, bits, dtype="s8")
    return rewriter.elementwise("select", is_nan, bits, mirrored, dtype="s8")


RULES: dict[str, Rule] = {"chlo.top_k": _top_k}
