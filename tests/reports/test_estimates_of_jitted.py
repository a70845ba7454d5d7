"""Estimates of functions that others have jitted: equinox, flax and JAX itself."""

import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.training_step import floats


class Scaled:
    """Methods that are jitted, and a method `lower` that has nothing to do with it."""

    def __call__(self, x):
        return jnp.sin(x) * 3

    def lower(self):
        raise AssertionError("not of JAX")

    @functools.partial(jax.jit, static_argnums=0)
    def static_self(self, x):
        return self(x)

    @classmethod
    @functools.partial(jax.jit, static_argnums=0)
    def of_class(cls, x):
        return cls()(x)

    @staticmethod
    @jax.jit
    def of_none(x):
        return jnp.sin(x) * 3


def with_equinox(x):
    eqx = pytest.importorskip("equinox")

    class Module(eqx.Module):
        factor: jax.Array

        @eqx.filter_jit
        def filtered(self, x):
            return jnp.sin(x) * self.factor

        @jax.jit
        def jitted(self, x):
            return jnp.sin(x) * self.factor

    module = Module(jnp.float32(3))
    return {
        "filter_jit": (eqx.filter_jit(lambda m, x: jnp.sin(x) * m.factor), module, x),
        "static argument": (eqx.filter_jit(lambda name, m, x: jnp.sin(x) * m.factor), "name", module, x),
        "filtered method": (module.filtered, x),
        "jitted method": (module.jitted, x),
    }


def with_nnx(x):
    nnx = pytest.importorskip("flax.nnx")

    class Module(nnx.Module):
        def __init__(self):
            self.factor = nnx.Param(jnp.float32(3))

        def __call__(self, x):
            return jnp.sin(x) * self.factor[...]

        @nnx.jit
        def jitted(self, x):
            return self(x)

    module = Module()
    return {
        "jit": (nnx.jit(lambda m, x: m(x)), module, x),
        "jit of a module": (nnx.jit(module), x),
        "jitted method": (module.jitted, x),
    }


def with_jax(x):
    product = jax.jit(lambda n, x: jnp.sin(x) * n)
    return {
        "method": (Scaled().static_self, x),
        "class method": (Scaled.of_class, x),
        "class method of an object": (Scaled().of_class, x),
        "static method": (Scaled().of_none, x),
        "callable object": (Scaled(), x),
        "partial": (functools.partial(product, np.float32(3)), x),
        "partial of partial": (functools.partial(functools.partial(product), x=x), np.float32(3)),
        "partial as a tree": (jax.tree_util.Partial(product, jnp.float32(3)), x),
    }


@pytest.mark.parametrize("made", [with_jax, with_equinox, with_nnx])
def test_functions_that_others_have_jitted(made):
    x = floats(30)
    expected = jax_ipu.estimate(lambda x: jnp.sin(x) * 3, x).cycles
    of_argument = jax_ipu.estimate(lambda n, x: jnp.sin(x) * n, np.float32(3), x).cycles
    for name, (function, *args) in made(x).items():
        assert jax_ipu.estimate(function, *args).cycles in (expected, of_argument), name
        assert jax_ipu.report(function, *args).fits, name
        assert jax_ipu.debug.tile_map(function, *args, file=io.StringIO()), name
        assert jax_ipu.debug.profile(function, *args, file=io.StringIO()), name
    # Outside of an estimate, lowering is for the platform that it was for.
    assert jax.jit(jnp.sin).lower(x)._lowering._platforms == (jax.default_backend(),)
