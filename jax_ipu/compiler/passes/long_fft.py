"""Splits long Fourier transforms into shorter ones, by the four-step method.

A tile transforms a whole line. So lines are split that do not fit on a tile, and where they are fewer than the tiles.

D. H. Bailey, "FFTs in external or hierarchical memory", Journal of Supercomputing 4 (1990). A long prime length is a
convolution with a chirp: L. Bluestein, "A linear filtering approach to the computation of the discrete Fourier
transform", IEEE Transactions on Audio and Electroacoustics 18 (1970).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule
from jax_ipu.compiler.types import SIZE, Literal

# A vertex transforms a whole line, which must fit on a tile of every architecture beside code and other tensors.
_LINE_BYTES = 128 * 1024
# A vertex works in so much more memory, and has a table of that size, where a length has a prime factor above this one.
_WORK_BYTES = 128 * 1024
_LARGEST_RADIX = 109
# Twiddles of so many elements are a table; those of more are products of two small ones.
_LARGEST_TABLE = 1 << 13
# About the cycles of a tile for a line of n elements, over n log2(n), and those of a split beside its lines.
_CYCLES, _CYCLES_OF_SPLIT = 5, 2000
# Two steps also move the lines between tiles, and take longer on the host where lines are many and short.
_LEAST_GAIN = 4
_REAL = {"c64": "f32", "c128": "f64"}


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


def _cycles(lines: int, length: int, num_tiles: int) -> float:
    return math.ceil(lines / num_tiles) * length * math.log2(max(2, length)) * _CYCLES


def _pays(lines: int, length: int, num_tiles: int, real: bool = False) -> bool:
    """Whether more tiles take much less time for `lines` lines in two steps than have them in one.

    `real`: a tile transforms lines of real numbers in half of the time; in two steps they are complex.
    """
    few = _few(length)
    if few == 1 or num_tiles == 0:
        return False
    many = length // few
    split = _cycles(lines * many, few, num_tiles) + _cycles(lines * few, many, num_tiles) + _CYCLES_OF_SPLIT
    return _cycles(lines, length, num_tiles) / (2 if real else 1) > _LEAST_GAIN * split


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
    # Counted as XLA does, in one of the transforms.
    counted = 8 * math.prod(op.operands[0].shape) * sum(max(1, n).bit_length() - 1 for n in lengths)
    flops = iter([counted, *(0 for _ in lengths)])
    if kind == "RFFT":
        value = _lines(rewriter, _complex(rewriter, value, None, dtype), "FFT", num_tiles, next(flops))
        value = rewriter.slice(value, (0,) * rank, (*value.shape[:-1], lengths[-1] // 2 + 1))
    elif kind in ("FFT", "IFFT"):
        value = _lines(rewriter, value, kind, num_tiles, next(flops))
    for dim in outer:
        order = (*range(dim), *range(dim + 1, rank), dim)
        back = tuple(order.index(d) for d in range(rank))
        line_kind = "IFFT" if kind in ("IFFT", "IRFFT") else "FFT"
        moved = _lines(rewriter, rewriter.transpose(value, order), line_kind, num_tiles, next(flops))
        value = rewriter.transpose(moved, back)
    if kind == "IRFFT":
        value = _lines(rewriter, _whole_spectrum(rewriter, value, lengths[-1]), "IFFT", num_tiles, next(flops))
        value = rewriter.elementwise("real", value, dtype=_REAL[dtype])
    return value


def _lines(rewriter: Rewriter, value: Value, kind: str, num_tiles: int, flops: float) -> Value:
    """FFT or IFFT along the last dimension, for which `flops` are counted."""
    *batch, n = value.shape
    if math.prod(value.shape) == 0:
        return value
    if not _is_long(n, value.dtype) and not _pays(math.prod(batch), n, num_tiles):
        attrs = {"fft_type": kind, "fft_length": (n,), "flops": max(0, flops)}
        return rewriter.emit("fft", (value,), value.shape, value.dtype, attrs)
    few = _few(n)
    if few == 1:
        return _convolution(rewriter, value, kind, num_tiles, flops)
    many = n // few
    rank = len(batch)
    swapped = (*range(rank), rank + 1, rank)
    # x[j1 many + j2] -> X[k1 + few k2]: transform along j1, multiply by exp(-2 pi i j2 k1 / n), transform along j2.
    columns = rewriter.transpose(rewriter.reshape(value, (*batch, few, many)), swapped)
    products = (1 if n <= _LARGEST_TABLE else 2) * math.prod(value.shape)
    columns = _turned(rewriter, _lines(rewriter, columns, kind, num_tiles, flops - products), kind)
    rows = _lines(rewriter, rewriter.transpose(columns, swapped), kind, num_tiles, 0)
    return rewriter.reshape(rewriter.transpose(rows, swapped), value.shape)


def _convolution(rewriter: Rewriter, value: Value, kind: str, num_tiles: int, flops: float) -> Value:
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
    padded = rewriter.emit(
        "concatenate", (scaled(value, chirp), zeros), (*batch, m), value.dtype, {"dimension": len(batch)}
    )
    products = (2 * n + m) * math.prod(batch)
    spectrum = _lines(rewriter, padded, "FFT", num_tiles, flops - products)
    product = _lines(rewriter, scaled(spectrum, np.fft.fft(inverse)), "IFFT", num_tiles, 0)
    part = rewriter.slice(product, (0,) * len(value.shape), value.shape)
    return scaled(part, chirp / n if kind == "IFFT" else chirp)


def _turned(rewriter: Rewriter, columns: Value, kind: str) -> Value:
    """The element at [..., j, k] times exp(-2 pi i j k / n), where n = many few; for IFFT, exp(+2 pi i j k / n).

    Sines take thousands of cycles, so the factors are tables: one for exp(j k) of few elements, and otherwise one for
    exp(j1 step k) and one for exp(j0 k), where j = j1 step + j0.
    """
    *batch, many, few = columns.shape
    turn = (2j if kind == "IFFT" else -2j) * np.pi / (many * few)
    rank = len(batch)

    def table(rows: np.ndarray[Any, Any]) -> Value:
        powers = np.outer(rows, np.arange(few)) % (many * few)
        return rewriter.constant(Literal.from_numpy(columns.dtype, np.exp(turn * powers)))

    if many * few <= _LARGEST_TABLE:
        factors = rewriter.broadcast(table(np.arange(many)), columns.shape, (rank, rank + 1))
        return rewriter.elementwise("multiply", columns, factors)
    step = _step(many)
    steps = -(-many // step)
    far, near = table(np.arange(0, many, step)), table(np.arange(step))
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


def _whole_spectrum(rewriter: Rewriter, half: Value, length: int) -> Value:
    """All `length` frequencies of a real signal: the second half is the first half reversed and conjugated."""
    rank, real = len(half.shape), _REAL[half.dtype]
    missing = length - half.shape[-1]
    part = rewriter.slice(half, (*(0,) * (rank - 1), 1), (*half.shape[:-1], 1 + missing))
    part = rewriter.elementwise("reverse", part, dimensions=(rank - 1,))
    imaginary = rewriter.elementwise("negate", rewriter.elementwise("imag", part, dtype=real))
    part = _complex(rewriter, rewriter.elementwise("real", part, dtype=real), imaginary, half.dtype)
    shape = (*half.shape[:-1], length)
    return rewriter.emit("concatenate", (half, part), shape, half.dtype, {"dimension": rank - 1})


def rules(num_tiles: int) -> dict[str, Rule]:
    """`num_tiles`: of an IPU, or 0 where lines that fit on a tile stay whole."""
    return {"fft": lambda op, rewriter: _fft(op, rewriter, num_tiles)}
