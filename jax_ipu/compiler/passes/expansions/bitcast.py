"""Expands bitcast_convert between types of different widths into shifts and ors of unsigned words.

The low part comes first, as StableHLO defines it."""

from __future__ import annotations

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.types import COMPLEX, REAL_PART, bit_width

_WORDS = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}


def _bitcast_convert(op: Op, rewriter: Rewriter) -> Value | None:
    value, result = op.operands[0], op.result
    if value.dtype == result.dtype:
        return value
    if value.shape == result.shape:
        return None
    if value.dtype not in COMPLEX:
        return rewriter.reshape(_cast(rewriter, value, result.dtype), result.shape)
    # StableHLO allows complex numbers only on both sides.
    real = REAL_PART[result.dtype]
    return _whole(
        rewriter, rewriter.reshape(_cast(rewriter, _parts(rewriter, value), real), (*result.shape, 2)), result.dtype
    )


def _parts(rewriter: Rewriter, value: Value) -> Value:
    """Real and imaginary parts of complex numbers, in a new last dimension."""
    real = REAL_PART[value.dtype]
    pieces = [rewriter.reshape(rewriter.elementwise(p, value, dtype=real), (*value.shape, 1)) for p in ("real", "imag")]
    return rewriter.emit("concatenate", pieces, (*value.shape, 2), real, {"dimension": len(value.shape)})


def _whole(rewriter: Rewriter, parts: Value, dtype: str) -> Value:
    real, imag = (_item(rewriter, parts, i) for i in range(2))
    return rewriter.elementwise("complex", real, imag, dtype=dtype)


def _item(rewriter: Rewriter, value: Value, index: int) -> Value:
    """Element `index` of the last dimension."""
    rank = len(value.shape)
    begins, ends = (0,) * (rank - 1) + (index,), (*value.shape[:-1], index + 1)
    return rewriter.reshape(rewriter.slice(value, begins, ends), value.shape[:-1])


def _cast(rewriter: Rewriter, value: Value, dtype: str) -> Value:
    """Reinterprets bits; a narrower type adds a last dimension, a wider one removes it."""
    have, want = bit_width(value.dtype), bit_width(dtype)
    if have == want:
        return _same_width(rewriter, value, dtype)
    if have > want:
        return _split(rewriter, value, dtype)
    count = want // have
    groups = (*value.shape[:-1], value.shape[-1] // count)
    return _join(rewriter, rewriter.reshape(value, (*groups, count)), dtype)


def _split(rewriter: Rewriter, value: Value, dtype: str) -> Value:
    word, bits = _WORDS[bit_width(value.dtype)], bit_width(dtype)
    words = _same_width(rewriter, value, word)
    pieces = []
    for i in range(bit_width(word) // bits):
        shift = rewriter.full(words.shape, word, i * bits)
        shifted = rewriter.elementwise("shift_right_logical", words, shift) if i else words
        pieces.append(rewriter.reshape(_low_bits(rewriter, shifted, bits), (*words.shape, 1)))
    count = len(pieces)
    attrs = {"dimension": len(words.shape)}
    joined = rewriter.emit("concatenate", pieces, (*words.shape, count), pieces[0].dtype, attrs)
    return _same_width(rewriter, joined, dtype)


def _low_bits(rewriter: Rewriter, words: Value, bits: int) -> Value:
    """The low `bits` bits, as pred for one bit, otherwise as an unsigned integer of that width."""
    mask = rewriter.full(words.shape, words.dtype, (1 << bits) - 1)
    low = rewriter.elementwise("and", words, mask)
    if bits == 1:
        zero = rewriter.full(words.shape, words.dtype, 0)
        return rewriter.elementwise("compare", low, zero, dtype="pred", comparison_direction="NE")
    return rewriter.convert(low, f"u{bits}")


def _join(rewriter: Rewriter, value: Value, dtype: str) -> Value:
    word, bits = _WORDS[bit_width(dtype)], bit_width(value.dtype)
    parts = value if bits == 1 else _same_width(rewriter, value, f"u{bits}")
    total: Value | None = None
    for i in range(value.shape[-1]):
        wide = rewriter.convert(_item(rewriter, parts, i), word)
        if i:
            wide = rewriter.elementwise("shift_left", wide, rewriter.full(wide.shape, word, i * bits))
        total = wide if total is None else rewriter.elementwise("or", total, wide)
    assert total is not None
    return _same_width(rewriter, total, dtype)


def _same_width(rewriter: Rewriter, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else rewriter.elementwise("bitcast_convert", value, dtype=dtype)


RULES: dict[str, Rule] = {"bitcast_convert": _bitcast_convert}
