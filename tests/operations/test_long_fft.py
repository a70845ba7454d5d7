"""FFTs of lines that do not fit on a tile."""

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
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


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("n", [113, 2 * 499, 600, 1999, 97 * 89, 10_000, 7 * 1009])
def test_few_lines_that_fit_on_a_tile(n, name):
    """They are split over the tiles, with factors from one table, from two, or from two that are cut."""
    x = array(2, n // 2 + 1 if name == "irfft" else n, dtype="float32" if name == "rfft" else "complex64")
    options = {"n": n} if name == "irfft" else {}
    check(lambda x: getattr(jnp.fft, name)(x, **options), x, mode=("tile", 64), rtol=1e-5)


@pytest.mark.parametrize("inverse", [False, True])
def test_cycles_grow_with_the_points(inverse):
    """Neither is a tile alone with a line for long, nor are the factors between two steps computed as sines."""
    function = jnp.fft.ifft if inverse else jnp.fft.fft
    before = 0
    for n in (256, 1024, 4096, 16384, 65536, 262144, 1048576):
        cycles = jax_ipu.estimate(function, jax.ShapeDtypeStruct((n,), jnp.complex64)).cycles
        assert cycles < 6 * max(before, 3000), (n, cycles, before)
        before = cycles


@pytest.mark.parametrize("name", ["fft", "rfft"])
@pytest.mark.parametrize("n", [113, 211, 2 * 211, 1009, 3 * 1009, 4999, 100_003])
def test_prime_factors_cost_a_few_times_as_much_as_their_neighbours(n, name):
    """The transforms that a convolution takes are spread over the tiles as others are."""

    def cycles(n):
        x = jax.ShapeDtypeStruct((n,), jnp.float32 if name == "rfft" else jnp.complex64)
        return jax_ipu.estimate(getattr(jnp.fft, name), x).cycles

    assert cycles(n) < 6 * cycles(n // 10 * 10)


@pytest.mark.parametrize(("name", "shape"), [("fft", (1472, 1000)), ("fft2", (256, 256)), ("rfft", (500, 512))])
def test_lines_stay_whole_where_two_steps_save_little(name, shape):
    dtype = jnp.float32 if name == "rfft" else jnp.complex64
    estimate = jax_ipu.estimate(getattr(jnp.fft, name), jax.ShapeDtypeStruct(shape, dtype))
    assert {row[0] for row in estimate.table(top=99)[1:]} == {"fft"}
