"""Depthwise convolutions of f32 are elementwise: values, gradients, cycles."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jax_ipu
from jax_ipu.compiler.pipeline import optimize
from support.modes import array, check, each_mode
from support.stages import legal, optimized_ops

NHC = ("NHC", "HIO", "NHC")
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def _conv(x, w, spec, strides, padding, **options):
    channels = x.shape[spec[0].index("C")]
    return lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=spec, feature_group_count=channels, **options
    )


# The shapes of operand and kernel, the order of their dimensions, strides, padding, and other options.
CASES = {
    "causal": ((3, 20, 12), (4, 1, 12), NHC, (1,), ((3, 0),), {}),
    "with strides": ((3, 20, 12), (3, 1, 12), NHC, (2,), "SAME", {}),
    "with holes": ((3, 20, 12), (3, 1, 12), NHC, (1,), "VALID", {"rhs_dilation": (3,)}),
    "two outputs of a channel": ((2, 9, 5), (3, 1, 10), NHC, (1,), "SAME", {}),
    "channels first": ((2, 5, 9), (5, 1, 3), ("NCH", "OIH", "NCH"), (1,), ((1, 1),), {}),
    "to another order": ((2, 5, 9), (3, 1, 5), ("NCH", "HIO", "HNC"), (1,), ((2, 0),), {}),
    "as rows of an image": ((2, 1, 9, 5), (1, 3, 1, 5), NHWC, (1, 1), ((0, 0), (2, 0)), {}),
    "as columns of an image": ((2, 9, 1, 5), (3, 1, 1, 5), NHWC, (1, 1), ((1, 1), (0, 0)), {}),
    "of each row of an image": ((2, 4, 9, 5), (1, 3, 1, 5), NHWC, (1, 2), ((0, 0), (1, 1)), {}),
    "of each column, channels first": ((2, 5, 9, 3), (5, 1, 3, 1), NCHW, (1, 1), ((1, 1), (0, 0)), {}),
    "of the dilated operand": ((2, 6, 5), (3, 1, 5), NHC, (1,), ((2, 1),), {"lhs_dilation": (2,)}),
}


def _has_convolution(function, *args):
    return any(op.name == "convolution" for op in optimized_ops(function, *args))


def _program(name):
    lhs, rhs, *rest, options = CASES[name]
    return lambda x, w: _conv(x, w, *rest, **options), array(*lhs), array(*rhs, seed=1)


@each_mode
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, mode):
    function, x, w = _program(name)
    check(function, x, w, mode=mode, grad=mode[1] == 8)


@pytest.mark.parametrize("name", CASES)
def test_no_convolution_is_left(name):
    function, x, w = _program(name)
    assert not _has_convolution(function, x, w)


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_gradient_of_kernel(execution):
    """Also of a size for which the reductions of the products pay."""
    x, w = array(4, 130, 12), array(3, 1, 12, seed=1)
    gradient = jax.grad(lambda w, x: (_conv(x, w, NHC, (1,), ((2, 0),)) * jnp.sin(x)).sum())
    check(gradient, w, x, mode=(execution, 8))


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_gradient_of_kernel_of_rows(execution):
    """The other spatial dimension is summed over, as the batch is."""
    x, w = array(4, 3, 130, 12), array(1, 3, 1, 12, seed=1)
    function = lambda w, x: (_conv(x, w, NHWC, (1, 1), ((0, 0), (2, 0))) * jnp.sin(x)).sum()  # noqa: E731
    check(jax.grad(function), w, x, mode=(execution, 8))
    assert not _has_convolution(jax.grad(function), w, x)


def test_convolutions_that_stay():
    """Several channels in a group, many positions, another type; on many tiles, small ones."""
    plain = array(2, 9, 6), array(3, 2, 6, seed=1)
    grouped = lambda x, w: lax.conv_general_dilated(  # noqa: E731
        x, w, (1,), "SAME", dimension_numbers=NHC, feature_group_count=3
    )
    long = array(2, 40, 6), array(17, 1, 6, seed=1)
    half = array(2, 9, 6, dtype="float16"), array(3, 1, 6, dtype="float16", seed=1)
    depthwise = lambda x, w: _conv(x, w, NHC, (1,), "SAME")  # noqa: E731
    for function, args in ((grouped, plain), (depthwise, long), (depthwise, half)):
        assert _has_convolution(function, *args)
    small = array(2, 64, 8), array(16, 1, 8, seed=1)
    program = str(jax.jit(depthwise).lower(*small).compiler_ir())
    ops = optimize(legal(program), 1 << 29, num_tiles=1472).module.main.block.walk()
    assert any(op.name == "convolution" for op in ops)


def test_cycles_are_those_of_shifted_products():
    """A depthwise convolution over time, as in selective state spaces, written as one and as its products."""
    x, w = jax.ShapeDtypeStruct((4, 512, 256), jnp.float32), jax.ShapeDtypeStruct((4, 1, 256), jnp.float32)

    def shifted(x, w):
        padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
        return sum(padded[:, k : k + x.shape[1]] * w[k, 0] for k in range(4))

    depthwise = lambda x, w: _conv(x, w, NHC, (1,), ((3, 0),))  # noqa: E731
    conv, products = (jax_ipu.estimate(f, x, w).cycles for f in (depthwise, shifted))
    assert conv <= 1.05 * products


def test_order_of_the_products():
    """All positions of the kernel are used once: a kernel of one nonzero element shifts its operand."""
    x = array(1, 8, 2)
    for k, back in itertools.product(range(3), (False, True)):
        w = jnp.zeros((3, 1, 2)).at[k].set(1)
        check(lambda x, w: _conv(x, w, NHC, (1,), ((1, 1),)), x, w[::-1] if back else w, mode=("fast", 8))
