"""Fourier transforms and filters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .program import MakeProgram, array, program


def pipeline(x: Any, response: Any) -> Any:
    """Filters each row in the frequency domain and returns the envelope: float32[batch, length]."""
    return jnp.abs(jnp.fft.ifft(jnp.fft.fft(x) * response))


def response(length: int) -> Any:
    """Returns the response of a low-pass filter that gives the analytic signal: complex64[length]."""
    frequencies = np.fft.fftfreq(length)
    low_pass: Any = 2 * (frequencies > 0) / (1 + (frequencies * 20) ** 4)
    return low_pass.astype(np.complex64)


PROGRAMS: dict[str, MakeProgram] = {
    "fft 256x1024": program(jnp.fft.fft, array(256, 1024)),
    "fft2d 512x512": program(lambda x: jnp.abs(jnp.fft.fft2(x)), array(512, 512)),
    "FFT pipeline 64x4096": program(pipeline, array(64, 4096), response(4096)),
    "rfft convolution 16x16384": program(
        lambda x, y: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(y)), array(16, 16384), array(16384)
    ),
}
