"""FFTs of lines that do not fit on a tile."""

import jax
import jax.numpy as jnp
import pytest

from support.modes import array, check


@pytest.mark.parametrize("n", [1 << 16, 50_000, 3 * 2**15, 65_537, 2 * 10_007])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_lines(n, name):
    x = array(2, n // 2 + 1 if name == "irfft" else n, dtype="float32" if name == "rfft" else "complex64")
    options = {"n": n} if name == "irfft" else {}
    check(lambda x: getattr(jnp.fft, name)(x, **options), x, mode=("fast", 1472), rtol=1e-5)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions(name):
    x = array(3, 4, 20_001 if name == "irfftn" else 40_000, dtype="float32" if name == "rfftn" else "complex64")
    check(lambda x: getattr(jnp.fft, name)(x, axes=(1, 2)), x, mode=("fast", 1472), rtol=1e-5)


def test_double_precision_vertex_by_vertex():
    with jax.enable_x64(True):
        x = array(30_000, dtype="complex128")
        check(jnp.fft.fft, x, mode=("tile", 64), rtol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_prime_lengths_vertex_by_vertex(name):
    with jax.enable_x64(True):
        x = array(2, 8209, dtype="complex128")
        check(getattr(jnp.fft, name), x, mode=("tile", 64), rtol=1e-12)
