"""Compiler options that reach the planner of products and convolutions change plans, cycles, memory and rounding."""

import functools
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import CompileError, compile_options


@pytest.fixture(scope="module")
def ipu():
    return jax.devices("ipu")[0]


def product(x, w):
    return x @ w


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


CASES = {
    "product": (product, (2048, 2048), (2048, 2048)),
    "convolution": (convolution, (4, 14, 14, 1024), (1, 1, 1024, 256)),
}


def compiled(name, dtype, ipu, **options):
    function, *shapes = CASES[name]
    sharding = jax.sharding.SingleDeviceSharding(ipu)
    arguments = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape in shapes]
    return jax.jit(function).lower(*arguments).compile(compiler_options=options)


@pytest.mark.parametrize("name", CASES)
def test_memory_proportion_trades_cycles_for_memory(name, ipu):
    small = compiled(name, jnp.float32, ipu, ipu_available_memory_proportion=0.02)
    large = compiled(name, jnp.float32, ipu, ipu_available_memory_proportion=0.6)
    assert small.cost_analysis()["fullest tile bytes"] < large.cost_analysis()["fullest tile bytes"]
    assert small.cost_analysis()["cycles"] > large.cost_analysis()["cycles"]


@pytest.mark.parametrize("proportion", [0.6, 0.3, 0.1])
def test_steps_cost_the_same_with_channels_major(proportion):
    def upsampled(x, w, dims):
        return jax.lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2), dimension_numbers=dims)

    options = {"ipu_available_memory_proportion": proportion, "ipu_fit": "off"}
    major, minor = (
        jax_ipu.estimate(
            functools.partial(upsampled, dims=dims),
            *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes),
            target="ipu2:64",
            compiler_options=options,
        )
        for dims, *shapes in (
            (("NCHW", "OIHW", "NCHW"), (50, 256, 8, 8), (128, 256, 4, 4)),
            (("NHWC", "HWIO", "NHWC"), (50, 8, 8, 256), (4, 4, 256, 128)),
        )
    )
    assert major.fits and minor.fits
    assert major.fullest_tile_bytes <= 1.1 * minor.fullest_tile_bytes
    assert major.cycles <= 1.15 * minor.cycles


@pytest.mark.parametrize("name", CASES)
def test_half_partials_take_less_memory_and_cycles(name, ipu):
    full = compiled(name, jnp.float16, ipu, ipu_partials_type="float")
    half = compiled(name, jnp.float16, ipu, ipu_partials_type="half")
    assert half.cost_analysis()["cycles"] < full.cost_analysis()["cycles"]
    assert half.cost_analysis()["sram bytes"] < full.cost_analysis()["sram bytes"]


@pytest.mark.parametrize("name", CASES)
def test_half_partials_round_more_often(name, ipu):
    function, *_ = CASES[name]
    shapes = {"product": ((32, 1024), (1024, 48)), "convolution": ((2, 9, 9, 128), (3, 3, 128, 32))}[name]
    random = np.random.default_rng(0)
    x, w = (jax.device_put(random.normal(size=shape).astype(np.float16), ipu) for shape in shapes)
    exact = function(*(np.asarray(a, np.float32) for a in (x, w)))
    error = {}
    for partials in ("float", "half"):
        result = jax.jit(function, compiler_options={"ipu_partials_type": partials})(x, w)
        error[partials] = np.abs(np.asarray(result, np.float32) - np.asarray(exact)).max()
    assert error["float"] < error["half"] < 1


def test_half_partials_leave_other_types_alone(ipu):
    random = np.random.default_rng(0)
    x, w = (jax.device_put(random.normal(size=(64, 64)).astype(np.float32), ipu) for _ in range(2))
    half = jax.jit(product, compiler_options={"ipu_partials_type": "half"})(x, w)
    assert np.array_equal(half, jax.jit(product)(x, w))


def overrides(name: str, value: float | str) -> bytes:
    """Returns a CompileOptionsProto with one env_option_overrides entry, as JAX writes it."""
    if isinstance(value, float):
        override = b"\x21" + struct.pack("<d", value)
    else:
        override = b"\x0a" + bytes([len(value)]) + value.encode()
    entry = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12" + bytes([len(override)]) + override
    return b"\x3a" + bytes([len(entry)]) + entry


def test_options_are_read_and_checked():
    assert compile_options(overrides("ipu_available_memory_proportion", 0.25)).available_memory_proportion == 0.25
    assert compile_options(overrides("ipu_available_memory_proportion", "0.25")).available_memory_proportion == 0.25
    assert compile_options(overrides("ipu_partials_type", "half")).partials_type == "half"
    for name, value in (("xla_something", "half"), ("xla_embed_ir_in_executable", "True"), ("xla_dump_to", "x")):
        assert compile_options(overrides(name, value)) == compile_options(b"")
    for name, value, message in (
        ("ipu_available_memory_proportion", 0.0, "above 0"),
        ("ipu_available_memory_proportion", "much", "above 0"),
        ("ipu_partials_type", "quarter", "float, half"),
        ("no_such_option", "x", "No such compile option: 'no_such_option'"),
        ("ipu_no_such_option", "x", "There are ipu_mapping[^;]*ipu_io_tiles; those of XLA"),
        ("xla_embed_ir_in_executable", "x", "'x' is not a valid bool value"),
        ("xla_gpu_autotune_level", "x", "'x' is not a valid int32 value"),
    ):
        with pytest.raises(CompileError, match=message):
            compile_options(overrides(name, value))


def test_the_gradient_of_weights_is_planned_as_poplibs_pass_of_that_name():
    # PopLibs' planner rearranges its operands and its result (addTransformCycleEstimate, isConvWeightUpdate).
    x, w = jax.ShapeDtypeStruct((4, 14, 14, 256), jnp.float16), jax.ShapeDtypeStruct((3, 3, 256, 256), jnp.float16)
    same = jax.lax.conv_dimension_numbers(x.shape, w.shape, ("NHWC", "HWIO", "NHWC"))

    def layer(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=same)

    def update(x, w, y):
        return jax.vjp(lambda w: layer(x, w), w)[1](y)[0]

    def elsewhere(x, w, y):
        # The same products, but the batch is the innermost dimension of both operands, as of any other convolution.
        x, y = x.transpose(3, 1, 2, 0), y.transpose(3, 1, 2, 0)
        numbers = ("NHWC", "OHWI", "HWNC")
        return jax.lax.conv_general_dilated(x, y, (1, 1), [(1, 1), (1, 1)], dimension_numbers=numbers)

    cycles = [
        sum(o.compute_cycles for o in jax_ipu.estimate(f, x, w, x, target="ipu2").operations if "conv" in o.operation)
        for f in (update, elsewhere)
    ]
    assert cycles[0] > cycles[1]
