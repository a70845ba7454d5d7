"""The compiler option `ipu_fit`: whether a program that does not fit as it is may save memory for cycles."""

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu import _ipu
from jax_ipu.compiler.build import Savings
from support.stages import lowered

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


def test_limits_of_buffers_end_with_the_attempt():
    """The graph is compiled again where it does not fit with the programs that swap states."""
    function, arguments = PROGRAMS["buffers"]
    program = str(jax.jit(function).trace(*arguments).lower(lowering_platforms=("ipu",)).compiler_ir())
    mapped, graph = lowered(program, num_tiles=16)

    def cycles(limits):
        plans = _ipu.TilePlanCache()
        plans.limits_buffers = limits
        try:
            return _ipu.compile_graph(graph.graph, graph.programs, mapped.module.name, plans).report().cycles.total
        except _ipu.OutOfMemory as error:
            return error.report.cycles.total

    with_large_buffers, with_small = cycles(False), cycles(True)
    assert cycles(False) == with_large_buffers < with_small == cycles(True)


def test_other_values_are_refused():
    with pytest.raises(Exception, match="ipu_fit='never' is not valid; use one of on, off"):
        jax_ipu.estimate(jnp.sin, spec(8), compiler_options={"ipu_fit": "never"})


def test_an_estimate_says_what_made_it_fit_and_what_that_costs():
    function, arguments = PROGRAMS["buffers"]
    estimate = jax_ipu.estimate(function, *arguments, target=TARGET)
    off = jax_ipu.estimate(function, *arguments, target=TARGET, compiler_options=OFF)
    assert off.savings is None and estimate.cycles > off.cycles
    change = (estimate.cycles - off.cycles) / off.cycles
    assert estimate.savings == (
        f"smaller buffers in more steps; {estimate.cycles:,} cycles, {off.cycles:,} as it is ({change:+.1%})".replace(
            "%", " %"
        )
    )
    assert ("made to fit", estimate.savings) in estimate.summary()
    assert jax_ipu.Estimate.from_dict(estimate.as_dict()).savings == estimate.savings


def test_repeated_blocks_say_what_they_cost():
    def layers(x, weights):
        for w in weights:
            for i in range(4):
                x = jnp.tanh(x @ w) @ w.T + i
        return x

    arguments = spec(16, 32), [spec(32, 32)] * 220
    estimate = jax_ipu.estimate(layers, *arguments, target=TARGET)
    never = jax_ipu.estimate(layers, *arguments, target=TARGET, compiler_options={**OFF, "ipu_outline": "never"})
    assert estimate.fits and not never.fits
    assert estimate.savings.startswith("repeated blocks as functions")
    assert f"; {estimate.cycles:,} cycles, {never.cycles:,} as it is (+" in estimate.savings


def test_without_a_plan_of_the_program_as_it_is_only_the_measures_are_known():
    savings = Savings(("repeated blocks as functions",), 1000, None)
    assert str(savings) == (
        "repeated blocks as functions; 1,000 cycles, unknown as it is, since its variables alone do not fit"
    )
