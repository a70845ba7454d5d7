"""Pallas kernels compiled for the whole grid: values as in interpret mode on the CPU, and what is not compiled."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import jax_ipu
from jax_ipu.integration import folding
from support.modes import close, run_ipu

Spec = pl.BlockSpec


def random(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def shaped(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def add(x, y, o):
    o[...] = x[...] * 2 + jnp.tanh(y[...])


def number(x, o):
    o[...] = x[...] + pl.program_id(0) * 10 + pl.program_id(1) + pl.num_programs(1) * 100


def dot(x, y, o):
    o[...] = x[...] @ y[...]


def add_products(x, y, o):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...] @ y[...]


def add_products_apart(x, y, o, sums):
    @pl.when(pl.program_id(2) == 0)
    def _():
        sums[...] = jnp.zeros_like(sums)

    sums[...] += x[...] @ y[...]

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = jnp.maximum(sums[...], 0)


def softmax(x, o):
    e = jnp.exp(x[...] - x[...].max(-1, keepdims=True))
    o[...] = e / e.sum(-1, keepdims=True)


def attend(q, k, v, o, most, total, sums):
    """Attention over blocks of keys, with the running maximum and sum of the exponentials."""

    @pl.when(pl.program_id(2) == 0)
    def _():
        most[...] = jnp.full_like(most, -jnp.inf)
        total[...] = jnp.zeros_like(total)
        sums[...] = jnp.zeros_like(sums)

    scores = q[...] @ k[...].T
    new = jnp.maximum(most[...], scores.max(-1, keepdims=True))
    weights, old = jnp.exp(scores - new), jnp.exp(most[...] - new)
    most[...] = new
    total[...] = total[...] * old + weights.sum(-1, keepdims=True)
    sums[...] = sums[...] * old + weights @ v[...]

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = sums[...] / total[...]


def mean_and_most(x, mean, most):
    mean[...] = x[...].mean(-1)
    most[...] = x[...].max(-1)


def rows_by_loop(x, o):
    def body(i, total):
        o[i, :] = x[i, :] + total
        return total + x[i, :].sum()

    jax.lax.fori_loop(0, x.shape[0], body, jnp.float32(0))


def first_row(x, o):
    o[0, :] = x[0, :]
    o[1:, :] = jnp.zeros_like(o[1:, :])


def scale_by(scales, x, o):
    o[...] = x[...] * scales[pl.program_id(0)]


def with_edges(x, o):
    o[...] = x[0:8, :] + x[1:9, :] + x[2:10, :]


def add_one(x, o):
    o[...] = x[...] + 1


def matmul(kernel, steps, **options):
    n = 64 // steps
    return dict(
        kernel=kernel,
        grid=(2, 3, steps),
        in_specs=[Spec((16, n), lambda i, j, k: (i, k)), Spec((n, 8), lambda i, j, k: (k, j))],
        out_specs=Spec((16, 8), lambda i, j, k: (i, j)),
        out_shape=shaped(32, 24),
        **options,
    )


SUMS = [pltpu.VMEM((16, 8), jnp.float32)]
X, Y = random(32, 64), random(64, 24)
ROWS = Spec((8, 20), lambda i: (i, 0))

# Parameters of pallas_call, and the arguments.
COMPILED = {
    "one point": (dict(kernel=add, out_shape=shaped(8, 20)), random(8, 20), random(8, 20) + 1),
    "rows": (
        dict(kernel=add, grid=4, in_specs=[ROWS, ROWS], out_specs=ROWS, out_shape=shaped(32, 20)),
        X[:, :20],
        Y[:32, :20],
    ),
    "a last block over the end": (
        dict(kernel=add, grid=5, in_specs=[ROWS, ROWS], out_specs=ROWS, out_shape=shaped(33, 20)),
        random(33, 20),
        random(33, 20),
    ),
    "ids": (
        dict(
            kernel=number,
            grid=(2, 3),
            in_specs=[Spec((4, 8), lambda i, j: (i, j))],
            out_specs=Spec((4, 8), lambda i, j: (i, j)),
            out_shape=shaped(8, 24),
        ),
        random(8, 24),
    ),
    "transposed blocks": (
        dict(
            kernel=number,
            grid=(3, 2),
            in_specs=[Spec((4, 8), lambda i, j: (j, i))],
            out_specs=Spec((4, 8), lambda i, j: (1 - j, i)),
            out_shape=shaped(8, 24),
        ),
        random(8, 24),
    ),
    "product": (
        dict(
            kernel=dot,
            grid=(2, 3),
            in_specs=[Spec((16, 64), lambda i, j: (i, 0)), Spec((64, 8), lambda i, j: (0, j))],
            out_specs=Spec((16, 8), lambda i, j: (i, j)),
            out_shape=shaped(32, 24),
        ),
        X,
        Y,
    ),
    "sum of products": (matmul(add_products, 4), X, Y),
    "sum of products in a loop": (matmul(add_products, 16), X, Y),
    "sum of products in scratch": (matmul(add_products_apart, 4, scratch_shapes=SUMS), X, Y),
    "sum of products in scratch, in a loop": (matmul(add_products_apart, 16, scratch_shapes=SUMS), X, Y),
    "softmax": (dict(kernel=softmax, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20)), X[:, :20]),
    "attention": (
        dict(
            kernel=attend,
            grid=(3, 2, 4),
            in_specs=[Spec((None, 8, 16), lambda h, q, k: (h, q, 0))]
            + [Spec((None, 4, 16), lambda h, q, k: (h, k, 0))] * 2,
            out_specs=Spec((None, 8, 16), lambda h, q, k: (h, q, 0)),
            out_shape=shaped(3, 16, 16),
            scratch_shapes=[pltpu.VMEM((8, n), jnp.float32) for n in (1, 1, 16)],
        ),
        random(3, 16, 16),
        random(3, 16, 16) * 2,
        random(3, 16, 16) + 1,
    ),
    "one block for several points": (
        dict(
            kernel=add,
            grid=(4,),
            in_specs=[ROWS, Spec((8, 20), lambda i: (i // 2, 0))],
            out_specs=ROWS,
            out_shape=shaped(32, 20),
        ),
        X[:, :20],
        random(16, 20),
    ),
    "blocks with common rows": (
        dict(
            kernel=with_edges,
            grid=(3,),
            in_specs=[Spec((pl.Element(10), pl.Element(20)), lambda i: (8 * i, 0))],
            out_specs=ROWS,
            out_shape=shaped(24, 20),
        ),
        random(26, 20),
    ),
    "several results": (
        dict(
            kernel=mean_and_most,
            grid=(4,),
            in_specs=[ROWS],
            out_specs=[Spec((8,), lambda i: (i,)), Spec((8,), lambda i: (3 - i,))],
            out_shape=[shaped(32), shaped(32)],
        ),
        X[:, :20],
    ),
    "scalars": (dict(kernel=add, out_shape=shaped()), random(), random() + 1),
    "loop in the kernel": (
        dict(kernel=rows_by_loop, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20)),
        X[:, :20],
    ),
    "parts of a block": (
        dict(kernel=first_row, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20)),
        X[:, :20],
    ),
    "scalar operand": (
        dict(
            kernel=scale_by,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(4,),
                in_specs=[Spec((8, 20), lambda i, _: (i, 0))],
                out_specs=Spec((8, 20), lambda i, _: (i, 0)),
            ),
            out_shape=shaped(32, 20),
        ),
        np.arange(4, dtype=np.float32),
        X[:, :20],
    ),
    "in place": (
        dict(
            kernel=add_one,
            grid=2,
            in_specs=[Spec((8, 20), lambda i: (2 * i, 0))],
            out_specs=Spec((8, 20), lambda i: (2 * i, 0)),
            out_shape=shaped(32, 20),
            input_output_aliases={0: 0},
        ),
        X[:, :20],
    ),
    "integers": (
        dict(kernel=add_one, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20, dtype=jnp.int32)),
        np.arange(640, dtype=np.int32).reshape(32, 20),
    ),
    "half": (
        dict(kernel=softmax, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20, dtype=jnp.float16)),
        X[:, :20].astype(np.float16),
    ),
}


def reference(function, *arguments):
    return jax.tree.leaves(jax.jit(function, backend="cpu")(*arguments))


@pytest.mark.parametrize("mode", [("fast", 1472), ("tile", 8)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_kernels(name, mode):
    parameters, *arguments = COMPILED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        results = run_ipu(pl.pallas_call(**parameters), tuple(arguments), mode)
    for result, expected in zip(
        results, reference(pl.pallas_call(**parameters, interpret=True), *arguments), strict=True
    ):
        close(result, np.asarray(expected))


def test_tiles_of_a_product_are_one_product():
    parameters, x, y = COMPILED["product"]
    assert (
        jax_ipu.estimate(pl.pallas_call(**parameters), x, y).cycles == jax_ipu.estimate(lambda x, y: x @ y, x, y).cycles
    )


@pytest.mark.parametrize(
    "transform",
    [jax.vmap, lambda f: lambda x: jax.jvp(f, (x,), (2 * x,))],
    ids=["vmap", "jvp"],
)
def test_transformed_kernels(transform):
    parameters = dict(kernel=softmax, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20))
    x = random(3, 32, 20) if transform is jax.vmap else X[:, :20]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        results = run_ipu(transform(pl.pallas_call(**parameters)), (x,), ("fast", 1472))
    for result, expected in zip(
        results, reference(transform(pl.pallas_call(**parameters, interpret=True)), x), strict=True
    ):
        close(result, np.asarray(expected))


def test_names_of_a_grid():
    """JAX's interpret mode does not know them."""

    def kernel(x, o):
        o[...] = x[...] + jax.lax.axis_index("rows") * 10 + jax.lax.psum(1, "rows")

    f = pl.pallas_call(kernel, grid=(("rows", 4),), in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20))
    (result,) = run_ipu(f, (X[:, :20],), ("fast", 1472))
    np.testing.assert_array_equal(result, X[:, :20] + np.repeat(np.arange(4), 8)[:, None].astype(np.float32) * 10 + 4)


def running_sum(x, o, total):
    @pl.when(pl.program_id(0) == 0)
    def _():
        total[...] = jnp.zeros_like(total)

    o[...] = x[...] + total[...]
    total[...] += x[...].sum(0, keepdims=True)


def total_of_points(x, o, total):
    @pl.when(pl.program_id(0) == 0)
    def _():
        total[...] = jnp.zeros_like(total)

    total[...] += x[...]
    o[...] = total[...]


def overwrite(x, o):
    o[...] = x[...]
    x[...] = jnp.zeros_like(x)


def show(x, o):
    jax.debug.print("{}", x[0, 0])
    o[...] = x[...]


PREFETCH = dict(num_scalar_prefetch=1, grid=(4,), out_specs=Spec((8, 20), lambda i, _: (i, 0)))

# Why the kernel is not compiled, its parameters, and the arguments.
INTERPRETED = {
    "left in a scratch buffer": (
        dict(
            kernel=running_sum,
            grid=4,
            in_specs=[ROWS],
            out_specs=ROWS,
            out_shape=shaped(32, 20),
            scratch_shapes=[pltpu.VMEM((1, 20), jnp.float32)],
        ),
        X[:, :20],
    ),
    "left in a scratch buffer.": (
        dict(
            kernel=total_of_points,
            grid=(2, 4),
            in_specs=[Spec((8, 20), lambda k, i: (i, k))],
            out_specs=Spec((8, 20), lambda k, i: (i, 0)),
            out_shape=shaped(32, 20),
            scratch_shapes=[pltpu.VMEM((8, 20), jnp.float32)],
        ),
        X[:, :40],
    ),
    "depends on more than the grid": (
        dict(
            kernel=lambda _, x, o: add_one(x, o),
            grid_spec=pltpu.PrefetchScalarGridSpec(in_specs=[Spec((8, 20), lambda i, at: (at[i], 0))], **PREFETCH),
            out_shape=shaped(32, 20),
        ),
        np.array([2, 0, 3, 0], np.int32),
        X[:, :20],
    ),
    "write the same block of result 0 at different steps": (
        dict(
            kernel=add_one,
            grid=4,
            in_specs=[ROWS],
            out_specs=Spec((8, 20), lambda i: (i // 2, 0)),
            out_shape=shaped(16, 20),
        ),
        X[:, :20],
    ),
    "another result does not": (
        dict(
            kernel=mean_and_most,
            grid=4,
            in_specs=[ROWS],
            out_specs=[Spec((8,), lambda i: (i,)), Spec((8,), lambda i: (0,))],
            out_shape=[shaped(32), shaped(8)],
        ),
        X[:, :20],
    ),
    "writes to an input": (
        dict(kernel=overwrite, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20)),
        X[:, :20],
    ),
    "has effects": (dict(kernel=show, grid=4, in_specs=[ROWS], out_specs=ROWS, out_shape=shaped(32, 20)), X[:, :20]),
}


@pytest.mark.parametrize("reason", INTERPRETED)
def test_interpreted_kernels_say_why(reason):
    parameters, *arguments = INTERPRETED[reason]
    ipu = jax.devices("ipu")[0]
    with pytest.warns(UserWarning, match=rf"test_pallas_kernels.py:\d+ is not compiled: .*{reason}.*interpret mode"):
        result = jax.jit(pl.pallas_call(**parameters))(*jax.device_put(tuple(arguments), ipu))
    expected = reference(pl.pallas_call(**parameters, interpret=True), *arguments)
    for r, e in zip(jax.tree.leaves(result), expected, strict=True):
        close(np.asarray(r), np.asarray(e))


def test_known_integers_are_as_on_the_device():
    def function(a, b):
        return (
            a // b,
            a % b,
            jax.lax.div(a, b),
            jax.lax.rem(a, b),
            jnp.where(a > b, a, -b),
            jnp.clip(a, -2, 2) ^ b,
            jnp.sign(a),
        )

    a, b = (np.asarray(v, np.int32) for v in np.indices((9, 9)) - 4)
    a, b = a[b != 0], b[b != 0]
    found = folding.integers(jax.make_jaxpr(function)(np.int32(1), np.int32(1)), [a, b])
    for result, expected in zip(found, jax.vmap(function)(a, b), strict=True):
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype


def test_unknown_integers_are_refused():
    traced = jax.make_jaxpr(functools.partial(jnp.add))(np.int32(1), np.int32(1))
    with pytest.raises(folding.Unknown):
        folding.integers(traced, [np.arange(3, dtype=np.int32), None])
