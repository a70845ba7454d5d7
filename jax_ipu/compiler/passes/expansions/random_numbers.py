"""Expands rng: uniform and normal numbers from random bits; each run of the program starts with a new key."""

from __future__ import annotations

import math

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.types import FLOAT, SIZE, Shape

# Float type -> (unsigned type of its size, mantissa bits, bit pattern of 1.0).
_UNIT = {"f32": ("u32", 23, 0x3F800000), "f64": ("u64", 52, 0x3FF0000000000000)}


def _unit(rewriter: Rewriter, shape: Shape, dtype: str) -> Value:
    """Uniform in [0, 1): random mantissas with the exponent of 1.0 are uniform in [1, 2)."""
    word, mantissa, one = _UNIT[dtype]
    bits = rewriter.emit("ipu.random_bits", (), shape, word)
    shift = rewriter.full(shape, word, 8 * SIZE[word] - mantissa)
    fraction = rewriter.elementwise("shift_right_logical", bits, shift)
    code = rewriter.elementwise("or", fraction, rewriter.full(shape, word, one))
    number = rewriter.elementwise("bitcast_convert", code, dtype=dtype)
    return rewriter.elementwise("subtract", number, rewriter.full(shape, dtype, 1))


def _normal(rewriter: Rewriter, shape: Shape, dtype: str) -> Value:
    """Standard normal, by the method of Box and Muller with 1 - u in (0, 1]."""
    one = rewriter.full(shape, dtype, 1)
    radius = rewriter.elementwise("log", rewriter.elementwise("subtract", one, _unit(rewriter, shape, dtype)))
    radius = rewriter.elementwise("multiply", radius, rewriter.full(shape, dtype, -2))
    angle = rewriter.elementwise("multiply", _unit(rewriter, shape, dtype), rewriter.full(shape, dtype, 2 * math.pi))
    root = rewriter.elementwise("sqrt", radius)
    return rewriter.elementwise("multiply", root, rewriter.elementwise("cosine", angle))


def _rng(op: Op, rewriter: Rewriter) -> Value:
    """UNIFORM: in [a, b); NORMAL: with mean a and standard deviation b."""
    shape, dtype = op.result.shape, op.result.dtype
    a, b = (rewriter.broadcast(o, shape, ()) for o in op.operands[:2])
    if dtype not in FLOAT:
        return _uniform_integers(rewriter, a, b)
    wide = "f64" if dtype == "f64" else "f32"
    a, b = rewriter.convert(a, wide), rewriter.convert(b, wide)
    if op.attrs["rng_distribution"] == "NORMAL":
        scaled = rewriter.elementwise("multiply", _normal(rewriter, shape, wide), b)
    else:
        width = rewriter.elementwise("subtract", b, a)
        scaled = rewriter.elementwise("multiply", _unit(rewriter, shape, wide), width)
    return rewriter.convert(rewriter.elementwise("add", a, scaled), dtype)


def _uniform_integers(rewriter: Rewriter, a: Value, b: Value) -> Value:
    """a + bits mod (b - a), from 64 random bits; the bias is below 2**-32 for types of up to 32 bits."""
    shape, dtype = a.shape, a.dtype
    low, high = rewriter.convert(a, "u64"), rewriter.convert(b, "u64")
    bits = rewriter.emit("ipu.random_bits", (), shape, "u64")
    offset = rewriter.elementwise("remainder", bits, rewriter.elementwise("subtract", high, low))
    total = rewriter.elementwise("add", low, offset)
    if dtype == "pred":
        return rewriter.elementwise(
            "compare", total, rewriter.full(shape, "u64", 0), dtype="pred", comparison_direction="NE"
        )
    return rewriter.convert(total, dtype)


RULES: dict[str, Rule] = {"rng": _rng}
