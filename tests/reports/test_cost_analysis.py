"""``cost_analysis`` says what scripts for other devices read: XLA's counts, always there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import serialize_executable
from jax.sharding import NamedSharding, PartitionSpec

READ = ("flops", "transcendentals", "bytes accessed")

X, W = np.ones((64, 128), np.float32), np.ones((128, 32), np.float32)
V, ROWS = np.ones(1000, np.float32), (np.arange(1000) % 7).astype(np.int32)
IMAGES, KERNEL = np.ones((2, 12, 13, 4), np.float32), np.ones((3, 2, 4, 6), np.float32)


def convolution(*window, **options):
    return lambda x, k: lax.conv_general_dilated(x, k, *window, **options, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 2, 1), "VALID")


# Programs whose counts are those of XLA to the operation.
EQUAL = {
    "product": (lambda x, w: x @ w, X, W),
    "fused": (lambda v: v * 2 + v - 1, V),
    "integers": (lambda i: (i + 1) & 7, ROWS),
    "identity": (lambda v: v, V),
    "constant": (lambda: jnp.zeros(3),),
    "no result": (lambda v: (), V),
    "empty array": (lambda v: v + 1, np.ones((0, 4), np.float32)),
    "concatenation": (lambda v: jnp.concatenate([v, v]), V),
    "transpose": (lambda x: x.T, X),
    "tanh": (jnp.tanh, V),
    "sigmoid": (jax.nn.sigmoid, V),
    "power": (lambda v: v**2.5, V),
    "cube": (lambda v: v**3, V),
    "cast": (lambda v: v.astype(np.float16), V),
    "compare and select": (lambda v: lax.select(v > 0, v, v), V),
    "complex": (lambda v: v * v, V.astype(np.complex64)),
    "sum": (lambda v: v.sum(), V),
    "maximum of rows": (lambda x: x.max(1), X),
    "argmax": (lambda v: jnp.argmax(v), V),
    "mean": (lambda x: x.mean(0), X),
    "pooling": (pooled, IMAGES),
    "convolution": (convolution((1, 1), "VALID"), IMAGES, KERNEL),
    "padded convolution": (convolution((2, 1), "SAME"), IMAGES, KERNEL),
    "dilated kernel": (convolution((1, 2), "SAME", rhs_dilation=(2, 3)), IMAGES, KERNEL),
    "dilated input": (convolution((1, 3), ((2, 1), (-1, 4)), lhs_dilation=(3, 2)), IMAGES, KERNEL),
    "grouped convolution": (
        convolution((1, 1), "SAME", feature_group_count=2),
        IMAGES,
        np.ones((3, 3, 2, 6), np.float32),
    ),
    "gradient": (jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), W, X),
    "sort": (jnp.sort, V),
    "spectrum": (jnp.fft.fft, V.astype(np.complex64)),
    "added rows": (lambda v, i: v.at[i].add(v, mode="promise_in_bounds"), V, ROWS.view(np.uint32)),
}
# Programs with nothing to multiply, or that XLA counts in another form.
OTHER = {
    "softmax": (jax.nn.softmax, X),
    "cumulative sum": (jnp.cumsum, V),
    "known trips": (lambda v: lax.fori_loop(0, 10, lambda _, a: a * 2 + 1, v), V),
    "unknown trips": (lambda v: lax.while_loop(lambda a: a.sum() < 1e6, lambda a: a * 2, v), V),
    "branches": (lambda v: lax.cond(v[0] > 0, lambda a: a * 2, lambda a: a - a * a, v), V),
    "lookup": (lambda v, i: v[i], V, ROWS),
    "random": (lambda s: jax.random.uniform(jax.random.key(s), (1000,)), np.uint32(1)),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(64)), X),
}


def lowered(name, platform):
    function, *arguments = (EQUAL | OTHER)[name]
    with jax.default_device(jax.devices(platform)[0]):
        return jax.jit(function).lower(*arguments)


@pytest.mark.parametrize("name", EQUAL)
def test_counts_are_those_of_xla(name):
    expected = lowered(name, "cpu").cost_analysis()
    program = lowered(name, "ipu")
    for counted in (program.cost_analysis(), program.compile().cost_analysis()):
        assert counted["flops"] == expected.get("flops", 0)
        assert counted["transcendentals"] == expected.get("transcendentals", 0)
        assert "bytes accessed" in counted


@pytest.mark.parametrize("name", OTHER)
def test_counts_are_always_there(name):
    program = lowered(name, "ipu")
    for counted in (program.cost_analysis(), program.compile().cost_analysis()):
        assert all(counted[key] >= 0 for key in READ)


def test_known_trips_are_counted_and_slices_are_what_they_touch():
    program = lowered("known trips", "ipu")
    assert program.compile().cost_analysis()["flops"] == 10 * 2 * V.size
    with jax.default_device(jax.devices("ipu")[0]):
        row = jax.jit(lambda x, i: lax.dynamic_index_in_dim(x, i, 0)).lower(X, np.int32(1)).compile()
    assert 2 * 4 * 128 <= row.cost_analysis()["bytes accessed"] < 2 * 4 * 128 + 100


def test_of_several_ipus():
    """The counts are those of one device, as XLA's are after its partitioner."""
    mesh = jax.make_mesh((2,), ("i",), devices=jax.devices("ipu")[:2])
    x = jax.device_put(X, NamedSharding(mesh, PartitionSpec("i")))
    program = jax.jit(lambda x: x * 2 + 1).lower(x)
    assert program.cost_analysis()["flops"] == pytest.approx(2 * X.size, abs=9)  # -1 for each annotation, as XLA does
    assert program.compile().cost_analysis()["flops"] == X.size


def test_of_a_loaded_executable():
    compiled = lowered("fused", "ipu").compile()
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), backend="ipu", execution_devices=jax.devices("ipu")[:1]
    )
    assert all(loaded.cost_analysis()[key] == compiled.cost_analysis()[key] for key in READ)


def test_other_platforms_count_as_before():
    counted = lowered("identity", "cpu").cost_analysis()
    assert "flops" not in counted
