"""Loops over few elements, which the fast engine turns into machine code: random bodies, types, sizes and control flow.

The tile engine runs every vertex by itself, so both engines must give the same bits; JAX on CPU gives the values.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import close, cpu_jit, run_ipu

SIZES = [(), (1,), (2,), (3,), (4,), (5,), (8,), (13,), (16,), (3, 4), (33,)]
STEPS = 7

UNARY_FLOAT = [
    lambda x: x * 0.5 + 0.25,
    jnp.negative,
    jnp.abs,
    jnp.sign,
    jnp.floor,
    jnp.ceil,
    jnp.trunc,
    jnp.round,
    lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: lax.rsqrt(jnp.abs(x) + 1),
    lambda x: 1 / (x * x + 1),
    lambda x: jnp.clip(x, -1.5, 2.0),
    lambda x: x.astype(jnp.int32).astype(jnp.float32) * 0.1,
    lambda x: jnp.where(jnp.isfinite(x), x, 1.0),
    jnp.tanh,
    lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
]
BINARY_FLOAT = [
    jnp.add,
    jnp.subtract,
    lambda x, y: x * y * 0.25,
    lambda x, y: x / (jnp.abs(y) + 0.5),
    jnp.maximum,
    jnp.minimum,
    lambda x, y: x * 0.3 - y * 0.7,
    lambda x, y: (x + y) * (x - y) * 0.125,
    lambda x, y: jnp.where(x < y, x * 0.5, y),
    lambda x, y: jnp.where((x >= y) & ~(x == 0) | (y > 1), x, -y),
    lambda x, y: (x > y).astype(jnp.float32) + (x != y),
]
UNARY_INTEGER = [
    jnp.negative,
    jnp.invert,
    jnp.abs,
    lambda x: x * 1664525 + 101,
    lambda x: x << 3,
    lambda x: x >> 2,
    lambda x: lax.shift_right_logical(x, jnp.asarray(5, x.dtype)),
    lambda x: lax.shift_left(x, x),
    lambda x: x * x,
    lambda x: (x << 7) | lax.shift_right_logical(x, jnp.asarray(25, x.dtype)),
    lambda x: lax.population_count(x),
]
BINARY_INTEGER = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.bitwise_and,
    jnp.bitwise_or,
    jnp.bitwise_xor,
    jnp.maximum,
    jnp.minimum,
    lambda x, y: jnp.where(x < y, x, y + 3),
    lambda x, y: jnp.where((x <= y) ^ (x == y), x, x - y),
    lambda x, y: x // jnp.where(y == 0, 1, y),
    lambda x, y: (x > y).astype(x.dtype) + (x >= y).astype(x.dtype),
]
OPERATIONS = {"float32": (UNARY_FLOAT, BINARY_FLOAT), "int32": (UNARY_INTEGER, BINARY_INTEGER)}
OPERATIONS["uint32"] = OPERATIONS["int32"]


def random_step(rng, dtype):
    """A function of a list of three values: some of them, and scalars made of them, are combined at random."""
    unary, binary = OPERATIONS[dtype]
    plan = [(rng.integers(3), *rng.integers(100, size=3)) for _ in range(rng.integers(3, 9))]

    def step(values):
        values = list(values)
        for kind, operation, a, b in plan:
            x, y = values[a % len(values)], values[b % len(values)]
            if kind == 0:
                values.append(unary[operation % len(unary)](x))
            elif kind == 1:
                values.append(binary[operation % len(binary)](x, y))
            else:  # an element for all
                values.append(binary[operation % len(binary)](x, jnp.broadcast_to(y.reshape(-1)[0], x.shape)))
        return tuple(v.astype(dtype) for v in values[-3:])

    return step


def in_fori_loop(step, values):
    return lax.fori_loop(0, STEPS, lambda i, v: step((v[0], v[1], v[2] + i.astype(v[2].dtype))), values)


def in_scan(step, values):
    return lax.scan(lambda v, x: (step((v[0], v[1] + x, v[2])), v[0]), values, jnp.stack([values[0]] * STEPS))


def in_while_loop(step, values):
    def more(state):
        count, v = state
        return (count < STEPS) & (v[0].reshape(-1)[0] < 100)

    return lax.while_loop(more, lambda s: (s[0] + 1, step(s[1])), (0, values))


def in_branches(step, values):
    def body(i, v):
        return lax.cond(v[0].reshape(-1)[0] > v[1].reshape(-1)[0], step, lambda w: (w[1], w[2], w[0]), v)

    return lax.fori_loop(0, STEPS, body, values)


def in_nested_loops(step, values):
    return lax.fori_loop(0, 3, lambda _, v: lax.fori_loop(0, 2, lambda _, w: step(w), (v[1], v[2], v[0])), values)


def in_table(step, values):
    """Rows of a table, at indices that are clamped, are read and replaced; so are neighbours that are not sliced."""

    def body(i, state):
        table, v = state
        read = lax.dynamic_index_in_dim(table, i * 3 % 8 - 2, keepdims=False)
        v = step((read, v[1], table[0]))
        table = lax.dynamic_update_index_in_dim(table, v[0], i * 5 % 7 - 1, 0)
        return table, (v[0], v[1] + table[1], table[3])

    return lax.fori_loop(0, STEPS, body, (jnp.stack([*values, values[0] + values[1]]), values))


LOOPS = [in_fori_loop, in_scan, in_while_loop, in_branches, in_nested_loops, in_table]


def random_values(rng, dtype, shape):
    if dtype == "float32":
        values = rng.normal(size=(3, *shape)).astype(np.float32) * 2
        special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e9, -3e9, 0.5])
        chosen = rng.random(values.shape) < 0.1
        return tuple(np.where(chosen, rng.choice(special, values.shape), values).astype(np.float32))
    return tuple(rng.integers(-(2**31), 2**31, (3, *shape)).astype(dtype))


def same_bits(a, b):
    """NaNs are equal, whichever of two NaNs they come from."""
    nan = np.isnan(a) & np.isnan(b)
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(nan | (np.signbit(a) == np.signbit(b)) & (a == b)))


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("dtype", OPERATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_random_loops(loop, dtype, seed):
    rng = np.random.default_rng([seed, LOOPS.index(loop), len(dtype)])
    shape = SIZES[rng.integers(len(SIZES))]
    step = random_step(rng, dtype)
    values = random_values(rng, dtype, shape)
    function = functools.partial(loop, step)
    fast, tile = (run_ipu(function, (values,), (execution, 8)) for execution in ("fast", "tile"))
    expected = [np.asarray(x) for x in jax.tree.leaves(cpu_jit(function)(values))]
    for f, t, e in zip(fast, tile, expected, strict=True):
        assert same_bits(f.reshape(t.shape), t)
        if dtype != "float32":
            close(f, e)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (40,)], ids=str)
def test_stacked_values(shape, dtype):
    """Slices of every size are read from one stack, and written to two others."""

    def step(total, x):
        return jnp.logical_xor(total, x) if dtype == "bool" else total + x, (total, (x == total).astype(jnp.int32))

    def function(first, stack):
        return lax.scan(step, first, stack)

    stack = np.random.default_rng(1).integers(0, 3, (11, *shape)).astype(dtype)
    expected = jax.tree.leaves(cpu_jit(function)(stack[0], stack))
    for execution in ("fast", "tile"):
        for got, want in zip(run_ipu(function, (stack[0], stack), (execution, 8)), expected, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_values_of_an_integration(shape):
    """A smooth system, where rounding does not grow: values as on CPU."""

    def step(i, y):
        def slope(y, t):
            return y * (1.0 - y) * 0.5 - 0.1 * t * y

        h, t = 0.01, i * 0.01
        k1 = slope(y, t)
        k2 = slope(y + h / 2 * k1, t + h / 2)
        k3 = slope(y + h / 2 * k2, t + h / 2)
        k4 = slope(y + h * k3, t + h)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def function(y):
        return lax.fori_loop(0, 200, step, y)

    y = np.linspace(0.1, 0.9, max(1, int(np.prod(shape))), dtype=np.float32).reshape(shape)
    close(run_ipu(function, (y,), ("fast", 8))[0], np.asarray(cpu_jit(function)(y)))
