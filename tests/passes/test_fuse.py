"""Elementwise operations that read parts of the same tensors are one operation: how many remain, and values."""

import jax
import jax.numpy as jnp
import pytest

from jax_ipu.compiler import pipeline
from jax_ipu.compiler.passes.arithmetic import fuse
from jax_ipu.compiler.pipeline import optimize
from support.modes import array, check, each_mode
from support.stages import legal, optimized_ops

X, Y = array(60, 3), array(60, 3, seed=1)
MEMORY = 1 << 29


def _rotated(q, v):
    """Vectors rotated by quaternions, by components."""
    w, x, y, z = (q[:, i] for i in range(4))
    a, b, c = (v[:, i] for i in range(3))
    u = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    cross = y * u[2] - z * u[1], z * u[0] - x * u[2], x * u[1] - y * u[0]
    return jnp.stack([p + w * s + t for p, s, t in zip((a, b, c), u, cross, strict=True)], 1)


def _polar(z):
    return jnp.hypot(z[:, 0], z[:, 1]), jnp.arctan2(z[:, 1], z[:, 0])


def _needs_a_sum(x):
    """The second operation reads a sum of what the first one makes."""
    first = x[:, 0] * 2
    return first, x[:, 1] * first.sum()


def _overwritten(x, y):
    """The part is read before the state is changed."""
    first = x[:, 0] + y[:, 0]
    x = x.at[:, 1].set(first)
    return x[:, 1] * y[:, 1], first


def _third_derivatives(x):
    """Views of views, of which several operations read some."""
    return jax.jacfwd(jax.jacrev(jax.jacfwd(jnp.prod)))(x)


def _rotary(x, c, s):
    """Pairs of neighbours that are turned, read with strides."""
    a, b = x[:, ::2], x[:, 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


def _colours(x):
    """The pixels of a Bayer pattern."""
    return x[::2, ::2] * 2, (x[::2, 1::2] + x[1::2, ::2]) / 2, x[1::2, 1::2] * 3


PROGRAMS = {
    "cross": (jnp.cross, (X, Y), 1),
    "rotated": (_rotated, (array(50, 4), array(50, 3, seed=2)), None),
    "polar": (_polar, (array(70, 2),), 1),
    "rotary": (_rotary, (array(6, 20), array(10), array(10, seed=1)), 1),
    "colours": (_colours, (array(8, 12),), 1),
    "needs a sum": (_needs_a_sum, (X,), 2),
    "overwritten": (_overwritten, (X, Y), None),
    "third derivatives": (_third_derivatives, (array(4),), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", [name for name, (_, _, count) in PROGRAMS.items() if count is not None])
def test_readers_of_parts_are_one_operation(name):
    function, arguments, count = PROGRAMS[name]
    ops = optimized_ops(function, *arguments, memory=MEMORY)
    assert sum(op.name == "ipu.map" for op in ops) == count


# Of about 90 and 330 operations on each element; one function has a gradient for each element.
LONG = {"bessel": jnp.i0, "gradient": jax.vmap(jax.grad(jax.scipy.special.i1e)), "pieces": jax.scipy.special.ndtri}


@pytest.mark.parametrize("name", LONG)
def test_long_operations_on_large_values_are_one_where_memory_is_short(name):
    values = jax.ShapeDtypeStruct((MEMORY // 10,), "float32")
    program = legal(str(jax.jit(LONG[name]).lower(values).compiler_ir()))
    ops = optimize(program, MEMORY, memory_first=True).module.main.block.ops
    assert [op.name for op in ops if op.operands] == ["ipu.map", "return"]


@each_mode
@pytest.mark.parametrize("name", LONG)
def test_values_of_long_operations(name, mode, monkeypatch):
    monkeypatch.setattr(fuse, "LARGE", 0)
    monkeypatch.setattr(pipeline, "optimize", lambda program, memory, _, *rest: optimize(program, memory, True, *rest))
    check(LONG[name], jnp.linspace(0.01, 0.99, 70), mode=mode)


def test_where_memory_is_short_they_stay_apart():
    program = legal(str(jax.jit(jnp.cross).lower(X, Y).compiler_ir()))
    ops = optimize(program, MEMORY, memory_first=True).module.main.block.ops
    assert sum(op.name == "ipu.map" for op in ops) == 3
