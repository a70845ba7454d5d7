"""Fourier transforms of random programs."""

from __future__ import annotations

import math

from support.programs import COMPLEX, Drawer, Step, Unsuitable


def fft(d: Drawer) -> Step:
    v = d.value(("float32", "float64", *COMPLEX), finite=True, min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    lengths = list(v.shape[-d.integer(1, min(3, v.rank)) :])
    kind = d.pick(("FFT", "IFFT", "IRFFT")) if v.dtype in COMPLEX else "RFFT"
    if kind == "IRFFT":
        lengths[-1] = max(1, 2 * lengths[-1] - d.integer(1, 2))
    n = 2 * math.prod(lengths)
    return Step(f"lax.fft({v.name}, '{kind}', {tuple(lengths)})", v.bound * n, v.error * n, 8, inexact=True)


OPERATIONS = (fft,)
