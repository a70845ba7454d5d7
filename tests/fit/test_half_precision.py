"""The variant of a program in half precision has the element types that JAX gives the user's own float16 program."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu.compiler.passes import dce
from jax_ipu.compiler.pipeline import optimize
from jax_ipu.compiler.variants.half_precision import halve
from support.stages import legal

KEY = jnp.array([1, 2], jnp.uint32)


def dropout(x, w):
    return jnp.where(jax.random.bernoulli(KEY, 0.9, x.shape), x / 0.9, 0) @ w


def samples(x, w):
    return jnp.where(jax.random.uniform(KEY, x.shape) * 3 > 0.5, x, -x) @ w


def in_a_loop(x, w):
    def step(i, x):
        return jnp.tanh(jnp.where(jax.random.bernoulli(jax.random.fold_in(KEY, i), 0.5, x.shape), x, 0) @ w)

    return jax.lax.fori_loop(0, 3, step, x)


def softmax(x, w):
    return jax.nn.softmax(x @ w)


PROGRAMS = {function.__name__: function for function in (dropout, samples, in_a_loop, softmax)}


def _instructions(module):
    """How often each scalar operation is computed in each type; conversions of constants may differ."""
    dce.run(module)
    maps = (op for op in module.main.block.walk() if op.name == "ipu.map")
    code = [instruction[:2] for op in maps for instruction in op.attrs["program"].code]
    return collections.Counter(key for key in code if key[0] != "convert")


def _optimized(function, dtype, change=None):
    arguments = (np.zeros((16, 16), dtype), np.zeros((16, 16), dtype))
    text = str(jax.jit(function).lower(*arguments).compiler_ir())
    return optimize(legal(text), 1 << 29, False, change).module


@pytest.mark.parametrize("name", PROGRAMS)
def test_types_are_those_of_the_users_program(name):
    function = PROGRAMS[name]
    variant = _instructions(_optimized(function, np.float32, halve))
    assert variant == _instructions(_optimized(function, np.float16))


def test_noise_is_made_wide_and_added_half():
    """What meets values of the program is of their type."""
    module = _optimized(lambda x, w: x @ w + jax.random.uniform(KEY, x.shape), np.float32, halve)
    instructions = _instructions(module)
    assert ("bitcast", "u32") in instructions
    assert module.main.block.ops[-1].operands[0].dtype == "f16"
