"""Splits long Fourier transforms into shorter ones, by the four-step method.

A tile transforms a whole line. So lines are split that do not fit on a tile, and where they are fewer than the tiles.

D. H. Bailey, "FFTs in external or hierarchical memory", Journal of Supercomputing 4 (1990). A long prime length is a
convolution with a chirp: L. Bluestein, "A linear filtering approach to the computation of the discrete Fourier
transform", IEEE Transactions on Audio and Electroacoustics 18 (1970). An even number of real values are half as
many complex ones: W. H. Press et al., "Numerical Recipes", section 12.3.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.types import SIZE, Literal, num_elements

# A vertex transforms a whole line, which must fit on a tile of every architecture beside code and other tensors.
_LINE_BYTES = 128 * 1024
# A vertex works in so much more memory, and has a table of that size, where a length has a prime factor above this one.
_WORK_BYTES = 128 * 1024
_LARGEST_RADIX = 109
# Twiddles of so many elements are a table; those of more are products of two small ones.
_LARGEST_TABLE = 1 << 13
# About the cycles of a tile for a line of n elements, over n log2(n), and what is added to those of the lines by a
# split, and by real numbers as half as many complex ones.
_CYCLES, _CYCLES_OF_SPLIT, _CYCLES_OF_PACKING = 5, 2000, 2500
# Two steps also move the lines between tiles, and take longer on the host where lines are many and short.
_LEAST_GAIN, _LEAST_GAIN_OF_FEW, _FEW_LINES = 4, 2, 8
_REAL = {"c64": "f32", "c128": "f64"}
# The ops made here of which the model counts FLOPs.
_ARITHMETIC = frozenset(("add", "complex", "imag", "multiply", "negate", "real", "subtract"))


def _is_long(length: int, dtype: str) -> bool:
    work = _convolution_length(length) if _largest_prime(length) > _LARGEST_RADIX else 0
    return length * SIZE[dtype] > _LINE_BYTES or work * SIZE[dtype] > _WORK_BYTES


def _largest_prime(n: int) -> int:
    largest, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            largest, n = p, n // p
        p += 1
    return max(largest, n)


def _convolution_length(n: int) -> int:
    """The smallest power of two from 2 n - 1."""
    return 1 << (2 * n - 2).bit_length()


@functools.cache
def _cycles(lines: int, length: int, num_tiles: int) -> float:
    """About the cycles of lines of which each is on one tile, where a large prime factor makes two transforms of it."""
    transforms = 1
    if _largest_prime(length) > _LARGEST_RADIX:
        transforms, length = 2, _convolution_length(length)
    return transforms * math.ceil(lines / num_tiles) * length * math.log2(max(2, length)) * _CYCLES


@functools.cache
def _split_cycles(lines: int, length: int, num_tiles: int) -> float:
    """About the cycles of lines in two steps, or of a prime length as a convolution; infinite for a short prime."""
    few = _few(length)
    if few > 1:
        many = length // few
        parts = (lines * many, few), (lines * few, many)
    elif length > _LARGEST_RADIX:
        parts = ((lines, _convolution_length(length)),) * 2
    else:
        return math.inf
    return (
        sum((_split_cycles if _pays(*part, num_tiles) else _cycles)(*part, num_tiles) for part in parts)
        + _CYCLES_OF_SPLIT
    )


def _pays(lines: int, length: int, num_tiles: int, real: bool = False) -> bool:
    """Whether more tiles take much less time for `lines` lines in two steps than have them in one.

    `real`: a line of real numbers takes half of the time in one step, where no prime factor makes a convolution of it.
    """
    if num_tiles == 0:
        return False
    convolved = _largest_prime(length) > _LARGEST_RADIX
    split = _split_cycles(lines, length, num_tiles)
    if real and _is_packed(lines, length, num_tiles):
        split = _split_cycles(lines, length // 2, num_tiles) + _CYCLES_OF_PACKING
    whole = _cycles(lines, length, num_tiles) / (2 if real and not convolved else 1)
    return whole > (_LEAST_GAIN_OF_FEW if lines <= _FEW_LINES else _LEAST_GAIN) * split


def _is_packed(lines: int, length: int, num_tiles: int) -> bool:
    """Whether lines of real numbers are transformed as half as many complex ones."""
    if length % 2 != 0 or num_tiles == 0:
        return length % 2 == 0
    packed = _split_cycles(lines, length // 2, num_tiles) + _CYCLES_OF_PACKING
    return _is_long(length, "c64") or packed < _split_cycles(lines, length, num_tiles)


def _few(length: int) -> int:
    """The largest divisor up to the root; 1 for a prime number."""
    return max(d for d in range(1, math.isqrt(length) + 1) if length % d == 0)


def _fft(op: Op, rewriter: Rewriter, num_tiles: int) -> Value | None:
    value, lengths = op.operands[0], tuple(int(n) for n in op.attrs["fft_length"])
    kind: str = op.attrs["fft_type"]
    dtype = {"f32": "c64", "f64": "c128"}.get(value.dtype, value.dtype)
    rank = len(value.shape)
    elements = math.prod(value.shape[: rank - len(lengths)]) * math.prod(lengths)
    if elements == 0:
        return None
    real = [kind in ("RFFT", "IRFFT") and i + 1 == len(lengths) for i in range(len(lengths))]
    pays = (_pays(elements // n, n, num_tiles, r) for n, r in zip(lengths, real, strict=True))
    if not any(_is_long(n, dtype) for n in lengths) and not any(pays):
        return None
    outer = range(rank - len(lengths), rank - 1)
    first = len(rewriter.ops)
    if kind == "RFFT":
        value = _real_lines(rewriter, value, dtype, num_tiles)
    elif kind in ("FFT", "IFFT"):
        value = _lines(rewriter, value, kind, num_tiles)
    for dim in outer:
        order = (*range(dim), *range(dim + 1, rank), dim)
        back = tuple(order.index(d) for d in range(rank))
        line_kind = "IFFT" if kind in ("IFFT", "IRFFT") else "FFT"
        value = rewriter.transpose(_lines(rewriter, rewriter.transpose(value, order), line_kind, num_tiles), back)
    if kind == "IRFFT":
        value = _lines_to_real(rewriter, value, lengths[-1], num_tiles)
    _count(rewriter.ops[first:], 8 * math.prod(op.operands[0].shape) * sum(max(1, n).bit_length() - 1 for n in lengths))
    return value


def _count(ops: list[Op], flops: int) -> None:
    """Makes `ops` count as many FLOPs as XLA does for the whole transform: those of one transform are what is left."""
    others = sum(num_elements(op.result.shape) for op in ops if op.name in _ARITHMETIC)
    transforms = [op for op in ops if op.name == "fft"]
    for op in transforms:
        op.attrs["flops"] = max(0, flops - others) if op is transforms[0] else 0


def _real_lines(rewriter: Rewriter, value: Value, dtype: str, num_tiles: int) -> Value:
    """RFFT along the last dimension.

    Packed, of n = 2 m values: X[k] = (Z[k] + Z'[m - k]) / 2 - i / 2 exp(-2 pi i k / n) (Z[k] - Z'[m - k]),
    where Z is the transform of the m values x[2 k] + i x[2 k + 1], of period m, and Z' its conjugate.
    """
    *batch, n = value.shape
    zeros, m = (0,) * len(batch), n // 2
    if not _is_packed(math.prod(batch), n, num_tiles):
        whole = _lines(rewriter, _complex(rewriter, value, None, dtype), "FFT", num_tiles)
        return rewriter.slice(whole, (*zeros, 0), (*batch, m + 1))
    pairs = rewriter.reshape(value, (*batch, m, 2))
    parts = [rewriter.slice(pairs, (*zeros, 0, i), (*batch, m, i + 1)) for i in range(2)]
    even, odd = (rewriter.reshape(part, (*batch, m)) for part in parts)
    short = _lines(rewriter, _complex(rewriter, even, odd, dtype), "FFT", num_tiles)
    first = rewriter.slice(short, (*zeros, 0), (*batch, 1))
    others = _reversed(rewriter, rewriter.slice(short, (*zeros, 1), (*batch, m)))
    mirrored = _conjugate(rewriter, _concatenate(rewriter, first, others))
    result = _combined(rewriter, short, mirrored, -1)
    # X[m] is the real part of Z[0] less its imaginary part.
    real, imaginary = (rewriter.elementwise(name, first, dtype=_REAL[dtype]) for name in ("real", "imag"))
    last = _complex(rewriter, rewriter.elementwise("subtract", real, imaginary), None, dtype)
    return _concatenate(rewriter, result, last)


def _lines_to_real(rewriter: Rewriter, value: Value, n: int, num_tiles: int) -> Value:
    """IRFFT to n values along the last dimension.

    Packed, of n = 2 m values: x[2 k] + i x[2 k + 1] is the transform of
    (X[k] + X'[m - k]) / 2 + i / 2 exp(2 pi i k / n) (X[k] - X'[m - k]), where X' is the conjugate of X.
    """
    dtype = value.dtype
    *batch, _ = value.shape
    zeros, m = (0,) * len(batch), n // 2
    if not _is_packed(math.prod(batch), n, num_tiles):
        whole = _lines(rewriter, _whole_spectrum(rewriter, value, n), "IFFT", num_tiles)
        return rewriter.elementwise("real", whole, dtype=_REAL[dtype])
    # The first and the last frequency are real.
    for at in (0, m):
        part = rewriter.slice(value, (*zeros, at), (*batch, at + 1))
        real = _complex(rewriter, rewriter.elementwise("real", part, dtype=_REAL[dtype]), None, dtype)
        value = rewriter.update_slice(value, real, (*zeros, at))
    mirrored = rewriter.slice(value, (*zeros, 1), (*batch, m + 1))
    mirrored = _conjugate(rewriter, _reversed(rewriter, mirrored))
    spectrum = _combined(rewriter, rewriter.slice(value, (*zeros, 0), (*batch, m)), mirrored, 1)
    pairs = _lines(rewriter, spectrum, "IFFT", num_tiles)
    parts = [
        rewriter.reshape(rewriter.elementwise(name, pairs, dtype=_REAL[dtype]), (*batch, m, 1))
        for name in ("real", "imag")
    ]
    return rewriter.reshape(_concatenate(rewriter, *parts), (*batch, n))


def _combined(rewriter: Rewriter, value: Value, mirrored: Value, sign: int) -> Value:
    """(value + mirrored) / 2 + sign i / 2 exp(sign pi i k / m) (value - mirrored) for element k of each line of m."""
    *batch, m = value.shape
    total = rewriter.elementwise("add", value, mirrored)
    half = rewriter.elementwise("multiply", total, rewriter.full(value.shape, value.dtype, 0.5))
    difference = rewriter.reshape(rewriter.elementwise("subtract", value, mirrored), (*batch, m, 1))
    turned = rewriter.reshape(
        _turned(rewriter, difference, sign, 2 * m, np.ones(1, np.int64), 0.5j * sign), value.shape
    )
    return rewriter.elementwise("add", half, turned)


def _lines(rewriter: Rewriter, value: Value, kind: str, num_tiles: int) -> Value:
    """FFT or IFFT along the last dimension."""
    *batch, n = value.shape
    if math.prod(value.shape) == 0:
        return value
    if not _is_long(n, value.dtype) and not _pays(math.prod(batch), n, num_tiles):
        return rewriter.emit("fft", (value,), value.shape, value.dtype, {"fft_type": kind, "fft_length": (n,)})
    few = _few(n)
    if few == 1:
        return _convolution(rewriter, value, kind, num_tiles)
    many = n // few
    rank = len(batch)
    swapped = (*range(rank), rank + 1, rank)
    # x[j1 many + j2] -> X[k1 + few k2]: transform along j1, multiply by exp(-2 pi i j2 k1 / n), transform along j2.
    columns = rewriter.transpose(rewriter.reshape(value, (*batch, few, many)), swapped)
    columns = _lines(rewriter, columns, kind, num_tiles)
    columns = _turned(rewriter, columns, 1 if kind == "IFFT" else -1, n, np.arange(few))
    rows = _lines(rewriter, rewriter.transpose(columns, swapped), kind, num_tiles)
    return rewriter.reshape(rewriter.transpose(rows, swapped), value.shape)


def _convolution(rewriter: Rewriter, value: Value, kind: str, num_tiles: int) -> Value:
    """X[k] = c[k] sum_j (x[j] c[j]) / c[k - j], where c[k] = exp(-pi i k^2 / n); for IFFT, its conjugate, and / n."""
    *batch, n = value.shape
    m = _convolution_length(n)
    k = np.arange(n)
    angle = np.pi / n * (k * k % (2 * n))
    chirp = np.exp((1j if kind == "IFFT" else -1j) * angle)
    inverse = np.zeros(m, np.complex128)
    inverse[:n] = chirp.conj()
    inverse[m - n + 1 :] = chirp.conj()[:0:-1]

    def scaled(value: Value, factors: np.ndarray[Any, Any]) -> Value:
        vector = rewriter.constant(Literal.from_numpy(value.dtype, factors))
        return rewriter.elementwise("multiply", value, rewriter.broadcast(vector, value.shape, (len(batch),)))

    zeros = rewriter.full((*batch, m - n), value.dtype, 0)
    spectrum = _lines(rewriter, _concatenate(rewriter, scaled(value, chirp), zeros), "FFT", num_tiles)
    product = _lines(rewriter, scaled(spectrum, np.fft.fft(inverse)), "IFFT", num_tiles)
    part = rewriter.slice(product, (0,) * len(value.shape), value.shape)
    return scaled(part, chirp / n if kind == "IFFT" else chirp)


def _turned(
    rewriter: Rewriter, columns: Value, sign: int, n: int, powers: np.ndarray[Any, Any], scale: complex = 1
) -> Value:
    """The element at [..., j, k] times scale r^(j powers[k]), where r = exp(sign 2 pi i / n).

    Two sines for each factor take longer than a product, so the factors are tables: one for few elements, and
    otherwise one for r^(j1 step powers[k]) and one for r^(j0 powers[k]), where j = j1 step + j0.
    """
    *batch, many, few = columns.shape
    rank = len(batch)

    def table(rows: np.ndarray[Any, Any], scale: complex) -> Value:
        factors = scale * np.exp(sign * 2j * np.pi / n * (np.outer(rows, powers) % n))
        return rewriter.constant(Literal.from_numpy(columns.dtype, factors))

    if many * few <= _LARGEST_TABLE:
        factors = rewriter.broadcast(table(np.arange(many), scale), columns.shape, (rank, rank + 1))
        return rewriter.elementwise("multiply", columns, factors)
    step = _step(many)
    steps = -(-many // step)
    far, near = table(np.arange(0, many, step), scale), table(np.arange(step), 1)
    if step * steps == many:
        shape = (*batch, steps, step, few)
        made = rewriter.reshape(columns, shape)
        for factors, row in ((far, rank), (near, rank + 1)):
            made = rewriter.elementwise("multiply", made, rewriter.broadcast(factors, shape, (row, rank + 2)))
        return rewriter.reshape(made, columns.shape)
    whole = (steps, step, few)
    parts = [rewriter.broadcast(factors, whole, (row, 2)) for factors, row in ((far, 0), (near, 1))]
    factors = rewriter.reshape(rewriter.elementwise("multiply", *parts), (steps * step, few))
    factors = rewriter.slice(factors, (0, 0), (many, few))
    return rewriter.elementwise("multiply", columns, rewriter.broadcast(factors, columns.shape, (rank, rank + 1)))


def _step(many: int) -> int:
    """A divisor near the root, or else the root rounded up."""
    root = math.isqrt(many)
    divisors = (d for d in range(max(1, root // 4), 4 * root + 1) if many % d == 0)
    return min(divisors, key=lambda d: d + many // d, default=-(-many // max(1, root)))


def _complex(rewriter: Rewriter, real: Value, imaginary: Value | None, dtype: str) -> Value:
    imaginary = imaginary or rewriter.full(real.shape, real.dtype, 0)
    return rewriter.elementwise("complex", real, imaginary, dtype=dtype)


def _conjugate(rewriter: Rewriter, value: Value) -> Value:
    real, imaginary = (rewriter.elementwise(name, value, dtype=_REAL[value.dtype]) for name in ("real", "imag"))
    return _complex(rewriter, real, rewriter.elementwise("negate", imaginary), value.dtype)


def _reversed(rewriter: Rewriter, value: Value) -> Value:
    return rewriter.elementwise("reverse", value, dimensions=(len(value.shape) - 1,))


def _concatenate(rewriter: Rewriter, first: Value, second: Value) -> Value:
    """Along the last dimension."""
    *batch, n = first.shape
    shape = (*batch, n + second.shape[-1])
    return rewriter.emit("concatenate", (first, second), shape, first.dtype, {"dimension": len(batch)})


def _whole_spectrum(rewriter: Rewriter, half: Value, length: int) -> Value:
    """All `length` frequencies of a real signal: the second half is the first half reversed and conjugated."""
    *batch, n = half.shape
    part = rewriter.slice(half, (*(0,) * len(batch), 1), (*batch, 1 + length - n))
    return _concatenate(rewriter, half, _conjugate(rewriter, _reversed(rewriter, part)))


def rules(num_tiles: int) -> dict[str, Rule]:
    """`num_tiles`: of an IPU, or 0 where lines that fit on a tile stay whole."""
    return {"fft": lambda op, rewriter: _fft(op, rewriter, num_tiles)}
