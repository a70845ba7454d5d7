"""The compiler option `ipu_fit`: whether a program that does not fit as it is may save memory for cycles."""

import jax
import jax.numpy as jnp
import pytest

import jax_ipu

OFF = {"ipu_fit": "off", "ipu_advice_seconds": 0}
# A small device, so that programs that do not fit compile at once.
TARGET = "ipu2:16"


def spec(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def distances(x, y):
    """In parts it needs a block of the differences at a time."""
    return ((x[:, None] - y[None]) ** 2).sum(-1)


# Each fits only with: values in parts, smaller buffers for the rows of the transposed operand.
PROGRAMS = {
    "parts": (distances, (spec(512, 16), spec(512, 16))),
    "buffers": (lambda x, y: x + y.T, (spec(6000, 128), spec(128, 6000))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_saves_memory_is_forbidden(name):
    function, arguments = PROGRAMS[name]
    assert jax_ipu.estimate(function, *arguments, target=TARGET).fits
    estimate = jax_ipu.estimate(function, *arguments, target=TARGET, compiler_options=OFF)
    assert not estimate.fits
    assert "the default of ipu_fit" in estimate.reason and "Not tried" in estimate.reason


def test_a_program_that_fits_is_the_same():
    arguments = spec(32, 16), spec(32, 16)
    default = jax_ipu.estimate(distances, *arguments, target=TARGET)
    off = jax_ipu.estimate(distances, *arguments, target=TARGET, compiler_options=OFF)
    assert off.fits and (off.cycles, off.fullest_tile_bytes) == (default.cycles, default.fullest_tile_bytes)


def test_other_values_are_refused():
    with pytest.raises(Exception, match="ipu_fit='never' is not valid; use one of on, off"):
        jax_ipu.estimate(jnp.sin, spec(8), compiler_options={"ipu_fit": "never"})
