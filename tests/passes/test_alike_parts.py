"""Lists of alike expressions are one expression: which operations remain, values, and the cost of Python loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

N = 9
X, Y, ROWS, CUBE = array(N + 4), array(N + 4, seed=1), array(N, 5), array(2, N, 3)
KEYS = np.arange(N + 4, dtype=np.int32) % 5


def waves(x):
    return jnp.stack([jnp.sin(x * (i + 2)) for i in range(N)])


def waves_last(x):
    return jnp.stack([jnp.sin(x * (i + 2)) for i in range(N)], -1)


def triangle(x):
    return jnp.stack([jnp.where(jnp.arange(len(x)) <= i, x, -1) for i in range(N)])


def one_hots(keys):
    return jnp.concatenate([jax.nn.one_hot(keys[i], 5) for i in range(N)])


def neighbours(x):
    return jnp.array([x[i] * x[i + 1] - 2 * x[i + 3] for i in range(N)])


def elsewhere(x):
    order = [5, 1, 7, 0, 3, 8, 2]
    return jnp.array([jnp.exp(x[i]) + i for i in order])


def columns(x):
    return jnp.concatenate([x[:, i : i + 1] * 2 + i for i in range(1, N)], 1)


def blocks(x):
    return jnp.block([[x[i] * (j + 2) for j in range(4)] for i in range(N)])


def shared(x):
    parts = []
    for i in range(N):
        t = x[i] * (i + 0.5)
        parts.append(jnp.tanh(t) + t * t)
    return jnp.array(parts)


def half_alike(x, y):
    return jnp.array([x[0], *[jnp.cos(x[i]) for i in range(1, 6)], y[1] * y[2], *[jnp.cos(y[i]) for i in range(6)]])


def used_elsewhere(x):
    parts = [jnp.cos(x[i]) for i in range(N)]
    return jnp.array(parts), parts[3] * 2


def outer_products(x):
    return jnp.stack([x[:, i, None] * x[:, None, i] for i in range(N)], 1)


def constants_of_a_shape(x):
    return jnp.stack([x + np.arange(len(x), dtype=np.float32) ** i for i in range(4)])


def selected(keys, x):
    return jnp.select([keys == i for i in range(N)], [x * i for i in range(N)], 7.0)


def with_bits(keys):
    return jnp.stack([(keys >> i) & 1 for i in range(8)], -1) == 1


def norms(x):
    return jnp.array([jnp.sqrt(jnp.sum(x[i] ** 2)) for i in range(N)])


def softmaxes(x):
    return jnp.stack([jax.nn.softmax(x[i] * (i + 2)) for i in range(N)])


def columns_reduced(x):
    return jnp.stack([x[:, :, i].max(0) - x[:, :, i].sum(0) for i in range(5)], 1)


def means(x):
    return jnp.array([x[i : i + 3].mean() for i in range(N)])


def any_of(x):
    return jnp.array([jnp.any(x[i] > i / 4) for i in range(N)])


# Each with the most elementwise operations that may remain.
PROGRAMS = {
    "waves": (waves, (X,), 1),
    "waves, last": (waves_last, (X,), 1),
    "waves of rows": (waves, (ROWS,), 1),
    "waves in a row": (jax.vmap(waves), (ROWS,), 1),
    "triangle": (triangle, (X,), 1),
    "one hot": (one_hots, (KEYS,), 1),
    "neighbours": (neighbours, (X,), 1),
    "elsewhere": (elsewhere, (X,), 1),
    "columns": (columns, (array(3, N),), 1),
    "blocks": (blocks, (array(N, 3, 2),), 1),
    "shared": (shared, (X,), 1),
    "half alike": (half_alike, (X, Y), 4),
    "used elsewhere": (used_elsewhere, (X,), N + 1),
    "outer products": (outer_products, (CUBE,), 1),
    "constants of a shape": (constants_of_a_shape, (X,), 1),
    "selected": (selected, (KEYS, X), 4),
    "norms": (norms, (ROWS,), 2),
    "softmaxes": (softmaxes, (ROWS,), 3),
    "columns, reduced": (columns_reduced, (array(4, 3, 5),), 1),
    "means": (means, (array(N + 2, 3),), 1),
    "any": (any_of, (ROWS,), 1),
    "norms of half": (norms, (ROWS.astype(np.float16),), 3),
    "reversed rows": (lambda x: jnp.stack([x[i, ::-1].reshape(5, 1) for i in range(N)]), (ROWS,), 0),
    "bits": (with_bits, (KEYS,), 2),
    "half": (waves, (X.astype(np.float16),), 1),
    "f64": (neighbours, (X.astype(np.float64),), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode) -> None:
    function, arguments, _ = PROGRAMS[name]
    with jax.enable_x64(any(a.dtype == np.float64 for a in arguments)):
        check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_few_operations_remain(name) -> None:
    function, arguments, most = PROGRAMS[name]
    with jax.enable_x64(any(a.dtype == np.float64 for a in arguments)):
        names = [op.name for op in optimized_ops(function, *arguments)]
    assert names.count("ipu.map") <= most and names.count("reduce") <= 2, names


# Constants that are joined: one number in each part, or arrays.
CONSTANTS = {"numbers": lambda i: np.full(5, i % 2), "arrays": lambda i: np.roll(np.arange(5), i)}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int4", "uint8", "int16", "complex64", "bool"])
@pytest.mark.parametrize("constants", CONSTANTS)
def test_types(constants, dtype) -> None:
    def chosen(x):
        return jnp.stack([jnp.where(x == x[i], CONSTANTS[constants](i).astype(dtype), x) for i in range(5)])

    x = np.array([1, 0, 3, 2, 1]).astype(dtype)
    check(chosen, x, mode=("fast", 8))
    assert [op.name for op in optimized_ops(chosen, x)].count("ipu.map") == 1


@pytest.mark.parametrize("function", [waves, neighbours, shared])
def test_gradients(function) -> None:
    check(lambda x: jax.grad(lambda x: jnp.sum(function(x) ** 2))(x), X, mode=("fast", 8))


@pytest.mark.parametrize("step", [lambda t: t * t, lambda t: jnp.sin(t) + 1], ids=["square", "sine"])
def test_long_expressions(step) -> None:
    def parts(x):
        values = [x[i] for i in range(5)]
        for _ in range(300):
            values = [step(t) for t in values]
        return jnp.array(values)

    check(parts, np.linspace(-0.9, 0.9, 5, dtype=np.float32), mode=("fast", 8), atol=1e-5)


def test_the_line_of_the_expression_is_reported() -> None:
    def rows(x):
        parts = [jnp.tanh(x[i] * (i + 2)) for i in range(N)]
        return jnp.stack(parts)

    line = rows.__code__.co_firstlineno + 1
    (operation,) = jax_ipu.estimate(rows, jax.ShapeDtypeStruct((N, 5), jnp.float32)).operations
    assert f"test_alike_parts.py:{line}" in operation.source_line


def test_large_operands_of_reductions_are_not_joined() -> None:
    def sums(x):
        return jnp.array([jnp.sum(x * (i + 2)) for i in range(64)])

    assert jax_ipu.estimate(sums, jax.ShapeDtypeStruct((4 << 20,), jnp.float32)).fits


def test_a_list_costs_the_same_for_more_parts() -> None:
    def cycles(count):
        def rows(x):
            return jnp.stack([jnp.tanh(x[i] * i + 1) for i in range(2, 2 + count)])

        return jax_ipu.estimate(rows, jax.ShapeDtypeStruct((64, 16), jnp.float32)).cycles

    assert cycles(40) <= 1.5 * cycles(5)
