"""Splits Fourier transforms of lines that do not fit on a tile into shorter ones, by the four-step method.

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
from jax_ipu.compiler.types import SIZE, Literal, Shape

# A vertex transforms a whole line, which must fit on a tile of every architecture beside code and other tensors.
_LINE_BYTES = 128 * 1024
# A vertex works in so much more memory, and has a table of that size, where a length has a prime factor above this one.
_WORK_BYTES = 128 * 1024
_LARGEST_RADIX = 109
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


def _fft(op: Op, rewriter: Rewriter) -> Value | None:
    value, lengths = op.operands[0], tuple(int(n) for n in op.attrs["fft_length"])
    kind: str = op.attrs["fft_type"]
    dtype = {"f32": "c64", "f64": "c128"}.get(value.dtype, value.dtype)
    if not any(_is_long(n, dtype) for n in lengths):
        return None
    rank = len(value.shape)
    outer = range(rank - len(lengths), rank - 1)
    if kind == "RFFT":
        value = _lines(rewriter, _complex(rewriter, value, None, dtype), "FFT")
        value = rewriter.slice(value, (0,) * rank, (*value.shape[:-1], lengths[-1] // 2 + 1))
    elif kind in ("FFT", "IFFT"):
        value = _lines(rewriter, value, kind)
    for dim in outer:
        order = (*range(dim), *range(dim + 1, rank), dim)
        back = tuple(order.index(d) for d in range(rank))
        moved = _lines(rewriter, rewriter.transpose(value, order), "IFFT" if kind in ("IFFT", "IRFFT") else "FFT")
        value = rewriter.transpose(moved, back)
    if kind == "IRFFT":
        value = _lines(rewriter, _whole_spectrum(rewriter, value, lengths[-1]), "IFFT")
        value = rewriter.elementwise("real", value, dtype=_REAL[dtype])
    return value


def _lines(rewriter: Rewriter, value: Value, kind: str) -> Value:
    """FFT or IFFT along the last dimension."""
    *batch, n = value.shape
    if math.prod(value.shape) == 0:
        return value
    if not _is_long(n, value.dtype):
        return rewriter.emit("fft", (value,), value.shape, value.dtype, {"fft_type": kind, "fft_length": (n,)})
    few = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    if few == 1:
        return _convolution(rewriter, value, kind)
    many = n // few
    rank = len(batch)
    swapped = (*range(rank), rank + 1, rank)
    # x[j1 many + j2] -> X[k1 + few k2]: transform along j1, multiply by exp(-2 pi i j2 k1 / n), transform along j2.
    columns = rewriter.transpose(rewriter.reshape(value, (*batch, few, many)), swapped)
    columns = _lines(rewriter, columns, kind)
    twiddles = rewriter.broadcast(_twiddles(rewriter, (many, few), kind, value.dtype), columns.shape, (rank, rank + 1))
    columns = rewriter.elementwise("multiply", columns, twiddles)
    rows = _lines(rewriter, rewriter.transpose(columns, swapped), kind)
    return rewriter.reshape(rewriter.transpose(rows, swapped), value.shape)


def _convolution(rewriter: Rewriter, value: Value, kind: str) -> Value:
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
    product = _lines(rewriter, scaled(_lines(rewriter, padded, "FFT"), np.fft.fft(inverse)), "IFFT")
    part = rewriter.slice(product, (0,) * len(value.shape), value.shape)
    return scaled(part, chirp / n if kind == "IFFT" else chirp)


def _twiddles(rewriter: Rewriter, shape: Shape, kind: str, dtype: str) -> Value:
    """exp(-2 pi i j k / n) at [j, k], where n is the number of elements; for IFFT, exp(+2 pi i j k / n)."""
    real = _REAL[dtype]
    first, second = (rewriter.emit("iota", (), shape, "u32", {"iota_dimension": d}) for d in range(2))
    number = rewriter.convert(rewriter.elementwise("multiply", first, second), real)
    turn = (2 if kind == "IFFT" else -2) * math.pi / math.prod(shape)
    angle = rewriter.elementwise("multiply", number, rewriter.full(shape, real, turn))
    return _complex(rewriter, rewriter.elementwise("cosine", angle), rewriter.elementwise("sine", angle), dtype)


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


RULES: dict[str, Rule] = {"fft": _fft}
