"""Large values between a broadcast and a reduction: computed block by block, equal values, memory and cycles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from support.modes import array, check, lower, run_ipu
from support.stages import imported

# The differences of so many rows take most of the memory of two tiles, and no block size divides them.
ROWS, WIDTH, TILES = 203, 7, 2


def differences(x, y):
    return x[:, None] - y[None]


def squares(x, y):
    return (differences(x, y) ** 2).sum(-1)


def others(x):
    return jnp.where(jnp.eye(len(x), dtype=bool), jnp.inf, squares(x, x))


def centred(x):
    d = squares(x, x)
    return d - d.mean()


def weighted(x):
    return (squares(x, x) * jnp.arange(len(x), dtype=jnp.float32)[:, None]).sum(0)


def in_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: y + 0.01 * jnp.exp(-squares(y, y)).sum(1, keepdims=True), x)


def started(x):
    return jax.lax.reduce(differences(x, x), jnp.float32(3), jax.lax.add, (0,))


def largest_product(x):
    return jax.lax.reduce(x[:, None] * x[None], jnp.float32(-jnp.inf), jax.lax.max, (0, 2))


def energy(x):
    return jnp.exp(-squares(x, x)).sum()


def nearest(x):
    return jnp.abs(differences(x, x)).sum(-1).min(-1).sum()


def chain(x):
    return jnp.sqrt(squares(x, x) + 1e-9).sum()


ROWS_OF_X = array(ROWS, WIDTH)
CASES = {
    "distances": lambda x: jnp.sqrt(squares(x, x)),
    "sums of distances": lambda x: jnp.sqrt(squares(x, x) + 1e-9).sum(1),
    "L1": lambda x: jnp.abs(differences(x, x)).sum(-1),
    "maximum": lambda x: jnp.abs(differences(x, x)).max(-1),
    "minimum": lambda x: jnp.abs(differences(x, x)).min(-1),
    "products": lambda x: (x[:, None] * x[None]).sum(-1),
    "equal rows": lambda x: (jnp.round(x)[:, None] == jnp.round(x)[None]).all(-1).sum(1),
    "nearest centre": lambda x: squares(x, x[:150] * 1.1).argmin(-1),
    "nearest other": lambda x: others(x).min(1),
    "five nearest": lambda x: jax.lax.top_k(-squares(x, x), 5),
    "median": lambda x: jnp.sort(squares(x, x), -1)[:, ROWS // 2],
    "kernel": lambda x: jnp.exp(-squares(x, x)) @ x,
    "softmax": lambda x: jax.nn.softmax(-squares(x, x), axis=1),
    "logsumexp": lambda x: jax.nn.logsumexp(-squares(x, x), axis=1),
    "norms by vmap": lambda x: jax.vmap(lambda a: jax.vmap(lambda b: jnp.linalg.norm(a - b))(x))(x),
    "forces": lambda x: (differences(x, x) / (1 + squares(x, x)[..., None])).sum(1),
    "centred": centred,
    "weighted": weighted,
    "in a loop": in_loop,
    "another initial value": started,
    "reduced over rows": largest_product,
    "sum of all": energy,
    "gradient of a kernel": jax.grad(energy),
    "gradient of distances": jax.grad(chain),
    "gradient of nearest": jax.grad(nearest),
    "value and gradient": jax.value_and_grad(energy),
}


def rewritten(function, *args, tiles=TILES):
    module = imported(lower(function, *args)[0])
    module.memory = tiles * 638976
    pipeline.rewrite(module)
    return module.main.block


def largest(block):
    """The bytes of the largest value that is no view."""
    views = ("broadcast_in_dim", "reshape", "transpose", "constant")
    return max(
        r_bytes
        for op in block.walk()
        if op.name not in views
        for r_bytes in (int(np.prod(r.shape)) * 4 for r in op.results)
    )


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_whole(name, execution):
    whole = ROWS * ROWS * WIDTH * 4
    assert largest(rewritten(CASES[name], ROWS_OF_X)) * 4 < whole
    check(CASES[name], ROWS_OF_X, mode=(execution, TILES), rtol=1e-4, atol=2e-4 if "forces" in name else None)


def gram(x):
    squares = (x * x).sum(-1)
    return squares[:, None] + squares[None] - 2 * x @ x.T


def attention(x):
    return jax.nn.softmax(x @ x.T) @ x


def causal(x):
    positions = jnp.arange(len(x))
    return jax.nn.softmax(jnp.where(positions[:, None] >= positions, x @ x.T, -jnp.inf)) @ x


def both_sides(x):
    kernel = jnp.exp(-gram(x))
    return kernel @ x, kernel.T @ jnp.cos(x)


def heads(x):
    q = x.reshape(len(x) // 4, 4, -1)
    scores = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, q[::-1]))
    return jnp.einsum("hqk,khd->qhd", scores, q)


def layer(x):
    return jnp.tanh(x @ jnp.cos(x[:300]).T) @ x[:300]


def of_labels(x):
    """The cross-entropy of a label in each row."""
    scores = x @ x.T
    labels = (jnp.arange(len(x)) * 7 + 3) % len(x)
    chosen = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - chosen)


def of_labels_in_a_table(x):
    """The table is large as well, and each block reads all of it, transposed."""
    table = jnp.concatenate([x, jnp.sin(x[:59])])
    scores = x @ table.T
    chosen = jnp.take_along_axis(scores, jnp.arange(len(x))[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - chosen)


def two_of_each_row(x):
    positions = jnp.stack([jnp.arange(len(x)) // 2, jnp.arange(len(x))[::-1]], 1)
    scores = jnp.tanh(x @ x.T)
    return jnp.take_along_axis(scores, positions, axis=1) - scores.mean(1, keepdims=True)


def one_of_each_row(x):
    scores = jax.nn.softmax(x @ x.T)
    places = (jnp.arange(len(x)) * 5) % len(x)
    return jax.vmap(lambda row, i: row[i])(scores, places) @ x


# The scores of so many rows take more than half of the memory of a tile.
LONG = array(301, WIDTH)
PRODUCTS = {
    "kernel": (lambda x: jnp.exp(-squares(x, x)) @ x, LONG),
    "kernel by products": (lambda x: jnp.exp(-gram(x)) @ x, LONG),
    "attention": (attention, LONG),
    "causal": (causal, LONG),
    "both sides": (both_sides, LONG),
    "heads": (heads, array(600, WIDTH)),
    "layer": (layer, array(1001, WIDTH)),
    "nearest": (lambda x: gram(x).argmin(1), LONG),
    "in a scan": (lambda x: jax.lax.scan(lambda x, _: (attention(x), x[0]), x, None, length=2), LONG),
    "labels": (of_labels, LONG),
    "gradient of labels": (jax.value_and_grad(of_labels), LONG),
    "labels in a table": (of_labels_in_a_table, array(301, 60)),
    "two of each row": (two_of_each_row, LONG),
    "gradient of two of each row": (jax.grad(lambda x: (two_of_each_row(x) ** 2).sum()), LONG),
    "one of each row": (one_of_each_row, LONG),
    "gradient": (jax.grad(lambda x: (attention(x) ** 2).sum()), LONG),
    "gradient of both sides": (jax.grad(lambda x: (both_sides(x)[0] * both_sides(x)[1]).sum()), LONG),
}


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_large_values(name, execution):
    function, x = PRODUCTS[name]
    assert largest(rewritten(function, x, tiles=1)) * 4 < len(x) * 300 * 4
    check(function, x, mode=(execution, 1), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_products_that_sum_over_blocks(dtype):
    """Partial sums of narrow floats are not rounded at each block."""
    x = array(701, 8, dtype=dtype, low=0, high=3)

    def sums(x):
        equal = (x[:, :1] == x[:, 1]) | (x[:, :1] < 1)
        return equal.astype(x.dtype) @ x, equal.astype(x.dtype).T @ x

    ops = list(rewritten(sums, x, tiles=1).walk())
    sum_types = {op.result.dtype for op in ops if op.name == "dot_general"}
    assert "ipu.repeat" in [op.name for op in ops]
    assert dtype == "int32" or "f32" in sum_types
    expected = [np.asarray(r, np.float64) for r in jax.jit(sums, backend="cpu")(x.astype(np.float32))]
    for result, exact in zip(run_ipu(sums, [x], ("fast", 1)), expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), exact, rtol={"bfloat16": 1e-2}.get(dtype, 2e-3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8", "bool"])
def test_partial_results_of_each_type(dtype):
    """Sums of narrow floats are rounded once, not at each block."""
    x = array(701, 8, dtype=dtype, low=0, high=1)
    combine = jax.lax.bitwise_or if dtype == "bool" else jax.lax.add
    start = x.dtype.type(0)

    def sums(x):
        pairs = x[:, None] & x[None] if dtype == "bool" else x[:, None] * x[None]
        return jax.lax.reduce(pairs, start, combine, (0, 2))

    if dtype in ("float16", "bfloat16"):
        x = (x / 64).astype(x.dtype)
    assert largest(rewritten(sums, x, tiles=1)) < 701 * 701 * 8 * 2
    exact = (x.astype(np.float64)[:, None] * x.astype(np.float64)[None]).sum((0, 2)) if "float" in dtype else None
    if exact is None:
        check(sums, x, mode=("fast", 1))
        return
    (result,) = run_ipu(sums, [x], ("fast", 1))
    np.testing.assert_allclose(result.astype(np.float64), exact, rtol=1e-2)


def test_what_is_large_anyway_stays_whole():
    x = array(ROWS, ROWS * WIDTH)
    for function in (
        lambda x: jnp.exp(x).sum(1),  # the operand
        lambda x: (differences(x[:, :WIDTH], x[:, :WIDTH]), squares(x[:, :WIDTH], x[:, :WIDTH])),  # a result
    ):
        assert "ipu.repeat" not in [op.name for op in rewritten(function, x).ops]


def test_effects_keep_their_order():
    """A callback between two sums is not moved, and the second sum may depend on it."""
    seen = []

    def f(x):
        first = squares(x, x).sum(1)
        jax.debug.callback(lambda v: seen.append(float(v)), first[0], ordered=True)
        return first + differences(x, x).sum((1, 2))

    with jax.default_device(jax.devices("ipu")[0]):
        result = jax.jit(f)(ROWS_OF_X)
        jax.effects_barrier()
    x = ROWS_OF_X.astype(np.float64)
    d = x[:, None] - x[None]
    np.testing.assert_allclose(np.asarray(result), (d**2).sum((1, 2)) + d.sum((1, 2)), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(seen, [(d[0] ** 2).sum()], rtol=1e-4)


SCALED = {
    "distances": CASES["sums of distances"],
    "maximum": CASES["maximum"],
    "nearest other": CASES["nearest other"],
    "five nearest": CASES["five nearest"],
    "gradient": CASES["gradient of distances"],
    "forces": CASES["forces"],
    "product": CASES["kernel"],
    "attention": attention,
    "gradient of attention": PRODUCTS["gradient"][0],
}


@pytest.mark.parametrize("name", SCALED)
def test_memory_and_cycles_of_many_rows(name):
    """The differences of 10,000 rows take seven times the memory of an IPU; a pair costs what it does with few rows."""
    few, many, more = (
        jax_ipu.estimate(SCALED[name], jax.ShapeDtypeStruct((n, 16), np.float32)) for n in (1000, 3000, 10_000)
    )
    assert few.fits and many.fits and more.fits
    assert many.fullest_tile_bytes < many.tile_memory_bytes / 2
    for n, estimate in ((3000, many), (10_000, more)):
        assert estimate.cycles / n**2 < 1.5 * few.cycles / 1000**2


def looked_up(scores, labels):
    """The mean of -log softmax of the scores at the labels."""
    found = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - found)


def one_hot(scores, labels):
    """The same, as a sum over all classes."""
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(scores) * jax.nn.one_hot(labels, scores.shape[1]), axis=1))


@pytest.mark.parametrize("loss", [looked_up, one_hot])
@pytest.mark.parametrize("tokens", [2048, 4096])
def test_gradients_of_a_loss_over_many_classes_fit(tokens, loss):
    """The scores take 45 % and 90 % of an IPU, the weights and their gradient half of what the smaller ones do."""
    shapes = (((tokens, 768), np.float32), ((768, 50_257), np.float32), ((tokens,), np.int32))
    gradients = jax.grad(lambda x, w, labels: loss(x @ w, labels), (0, 1))
    options = {"ipu_advice_seconds": 0.0}
    arguments = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    assert jax_ipu.estimate(gradients, *arguments, compiler_options=options).fits


LINES = {
    "a count": lambda x: jnp.count_nonzero(x > 0.1),
    "a sum beside what is made again": lambda x: jnp.nanmean(jnp.where(x > 1, jnp.nan, x)),
    "a gradient": jax.grad(lambda x: jnp.exp(x).max()),
    "numbers of bits": lambda x: ((x > 0).reshape(-1, 8) << jnp.arange(8)).sum(1),
    "one element everywhere": lambda x: jnp.count_nonzero(x > jax.lax.broadcast_in_dim(x[:1], x.shape, (0,))),
}


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("name", LINES)
def test_lines_in_blocks(name, execution):
    x = array(131072)
    assert any(op.name == "ipu.repeat" for op in rewritten(LINES[name], x).walk())
    check(LINES[name], x, mode=(execution, TILES), rtol=1e-5)


@pytest.mark.parametrize("name", LINES)
def test_blocks_of_lines_stay_on_their_tiles(name):
    estimate = jax_ipu.estimate(LINES[name], jax.ShapeDtypeStruct((32_000_000,), jnp.float32))
    assert any(row[0] == "dynamic_slice" for row in estimate.table(top=99))
    assert estimate.exchange_cycles < 0.05 * estimate.cycles
