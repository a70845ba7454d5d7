"""Rows of large tables, and one element of each row: looked up and updated in place."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler.options import serialize_options
from support.devices import compare
from support.modes import array, check, each_mode, lower

TILES = 1472
TARGET = f"ipu2:{TILES}"
BYTES_PER_TILE = 624 * 1024
EXCHANGE_BYTES_PER_CYCLE = 4


def compiled(function, *args) -> _ipu.Executable:
    return compiler.compile(lower(function, *args)[0], "mlir", b"", TARGET)


def spec(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def cross_entropy(logits, labels):
    """The formula of optax.softmax_cross_entropy_with_integer_labels."""
    label_logits = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - label_logits)


def tied(table, tokens, x):
    return (table[tokens] + x) @ table.T


# Values ---------------------------------------------------------------------------------------------------------------

TABLE = array(301, 24)
TOKENS = np.random.default_rng(3).integers(-301, 301, 70).astype(np.int32)  # with duplicates

FORMS = {
    "rows": lambda t, i: t[i],
    "rows_of_rows": lambda t, i: t[i.reshape(7, 10)],
    "columns": lambda t, i: t.T[:, i],
    "clamped": lambda t, i: t.at[2 * i].get(mode="clip"),
    "filled": lambda t, i: jnp.take(t, 2 * i, axis=0, fill_value=7),
    "scaled": lambda t, i: t[i] * 2 + t[i[::-1]],
    "tied": lambda t, i: tied(t, i, jnp.ones((70, 24), t.dtype)),
    "one_of_each_row": lambda t, i: jnp.take_along_axis(t[:70], i[:, None] % 24, axis=1),
    "some_of_each_row": lambda t, i: jnp.take_along_axis(t[:14], i.reshape(14, 5) % 24, axis=1),
    "one_of_each_column": lambda t, i: jnp.take_along_axis(t, i[None, :24], axis=0),
    "batches": lambda t, i: jax.vmap(lambda a, b: a[b])(t[:300].reshape(5, 60, 24), i.reshape(5, 14) % 60),
    "cross_entropy": lambda t, i: cross_entropy(t[:70], i % 24),
}


@each_mode
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients(form, mode):
    check(FORMS[form], TABLE, TOKENS, mode=mode, rtol=1e-4, atol=1e-4, grad=True)


@each_mode
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8"])
def test_types(dtype, mode):
    table, tokens = array(301, 24, dtype=dtype), TOKENS % 301
    check(lambda t, i: t[i], table, tokens, mode=mode)
    check(lambda t, i: t.at[i].set(jnp.ones((), t.dtype)), table, tokens, mode=mode)
    # Each row occurs once, so the order of sums does not matter.
    check(lambda t, i: t.at[i].add(t[:60]), table, np.arange(300, 0, -5, dtype=np.int32), mode=mode)
    check(
        lambda t, i: jnp.take_along_axis(t, i[:, None] % 24, axis=1),
        table,
        np.arange(301, dtype=np.int32) * 7,
        mode=mode,
    )


@each_mode
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_index_types(dtype, mode):
    """Indices of any type, some of them outside: lookups, in a row as well, and sums."""
    index = np.array([0, 3, 99, 100, 120, 7, 2, 2, 5], dtype)
    if index.dtype.kind == "i":
        index[4:6] = -1, -120
    table, columns = array(100), array(2, 100, seed=1)
    check(lambda t, i: t.at[i].get(mode="clip"), table, index, mode=mode)
    check(lambda t, i: (t[i], jnp.take(t, i, mode="fill")), table, index, mode=mode)
    check(lambda t, i: jnp.take_along_axis(t, jnp.stack([i, i]), 1, mode="clip"), columns, index, mode=mode)
    check(lambda t, i: t.at[i].add(1.5), table, index, mode=mode)
    check(lambda t, i: t.at[:, i].max(0.25), columns, index, mode=mode)


@each_mode
def test_updates_outside_are_dropped_and_repeated_ones_add_up(mode):
    index = np.array([0, 300, 301, -302, 5, 5, 5, 2**31 - 1, -(2**31)], np.int32)
    check(lambda t, i: t.at[i].add(jnp.ones((9, 24), t.dtype)), TABLE, index, mode=mode)
    check(lambda t, i: t.at[i].add(jnp.ones((9, 24), t.dtype), mode="drop"), TABLE, index, mode=mode)


@each_mode
@pytest.mark.parametrize(("rows", "columns", "windows"), [(5, 3, 0), (0, 4, 0), (5, 0, 4), (1, 1, 1), (1, 40, 9)])
def test_small_and_empty(rows, columns, windows, mode):
    index = np.zeros(windows, np.int32)
    check(lambda t, i: 2 * t[i], array(rows, columns), index, mode=mode)
    check(lambda t, i: t.at[i].add(jnp.ones((windows, columns), t.dtype)), array(rows, columns), index, mode=mode)


def test_a_tied_table_trains_over_several_ipus():
    def build(devices):
        mesh = Mesh(np.array(devices), ("batch",))
        everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))

        def loss(table, tokens):
            return jnp.mean(jax.vmap(lambda i: cross_entropy(tied(table, i, 1.0), i))(tokens))

        return jax.jit(jax.value_and_grad(loss), in_shardings=(everywhere, split), out_shardings=everywhere)

    compare(build, TABLE, TOKENS[:64].reshape(4, 16) % 301, rtol=1e-4, atol=1e-4)


# Cost -----------------------------------------------------------------------------------------------------------------


def vector_width(dtype) -> int:
    return 8 // jnp.dtype(dtype).itemsize


@pytest.mark.parametrize("rows", [8000, 30522, 128_000])
def test_labels_pick_their_logits_where_these_lie(rows):
    """In addition to the logits and their elementwise results, a tile needs very little memory."""
    logits, labels = spec(127, rows), spec(127, dtype="int32")
    held = math.ceil(127 * rows * 4 / TILES)
    forward = compiled(cross_entropy, logits, labels)
    backward = compiled(jax.value_and_grad(cross_entropy), logits, labels)
    # The logits, the exponentials and one more tensor; plus code and small tensors.
    for executable in (forward, backward):
        assert executable.fullest_tile_bytes < 4 * held * 1.2 + 40_000
    # At most a few dozen passes over the logits.
    passes = 40 * math.ceil(127 * rows / TILES)
    assert backward.cycles < 2 * passes + 20_000


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("rows", [30522, 50257])
def test_a_lookup_and_its_gradient_fit_in_little_memory(rows, dtype):
    table, tokens = spec(rows, 768, dtype=dtype), spec(128, dtype="int32")
    size = jnp.dtype(dtype).itemsize
    held = math.ceil(rows * 768 * size / TILES)
    lookup = compiled(lambda t, i: t[i], table, tokens)
    gradient = compiled(jax.grad(lambda t, i: (t[i] ** 2).sum().astype("float32")), table, tokens)
    # The bytes of the 128 rows that are looked up.
    windows = 128 * 768 * size
    assert lookup.fullest_tile_bytes < 1.5 * held + BYTES_PER_TILE // 16 + 40_000
    assert gradient.fullest_tile_bytes < 2.5 * held + BYTES_PER_TILE // 8 + 60_000
    # At most the cost of a broadcast of all windows to every tile.
    assert lookup.cycles < windows / EXCHANGE_BYTES_PER_CYCLE
    # Plus a pass over the table for the zeros.
    assert gradient.cycles < 2 * windows / EXCHANGE_BYTES_PER_CYCLE + held


@pytest.mark.parametrize(("rows", "dtype"), [(50257, "float16"), (50257, "float32"), (128_000, "float16")])
def test_a_table_that_a_product_shares_is_neither_moved_nor_copied(rows, dtype):
    table, tokens, x = spec(rows, 768, dtype=dtype), spec(128, dtype="int32"), spec(128, 768, dtype=dtype)
    product = jax_ipu.estimate(lambda t, x: x @ t.T, table, x, target=TARGET)
    both = jax_ipu.estimate(tied, table, tokens, x, target=TARGET)
    extra = both.exchange_cycles - product.exchange_cycles
    windows = 128 * 768 * jnp.dtype(dtype).itemsize
    # Every tile looks up its part of each row; two or more tiles share a part.
    assert extra < windows / EXCHANGE_BYTES_PER_CYCLE * 1.5
    assert both.fullest_tile_bytes < product.fullest_tile_bytes + BYTES_PER_TILE // 8


def test_a_training_step_updates_the_gradient_of_the_product():
    """A lookup's gradient is added to the product's, without a second tensor of the table's size."""
    table, tokens, x = spec(50257, 768, dtype="float16"), spec(128, dtype="int32"), spec(128, 768, dtype="float16")

    def loss(table, tokens, x):
        return cross_entropy(tied(table, tokens, x).astype(jnp.float32), tokens)

    def without_lookup(table, tokens, x):
        return cross_entropy((x @ table.T).astype(jnp.float32), tokens)

    def step(loss):
        def update(t, i, x):
            of_table, of_x = jax.grad(loss, argnums=(0, 2))(t, i, x)
            return t - jnp.float16(0.01) * of_table, of_x

        return update

    full = compiled(step(loss), table, tokens, x)
    product = compiled(step(without_lookup), table, tokens, x)
    windows = 128 * 768 * 2
    assert full.cycles < 1.1 * product.cycles + 2 * windows / EXCHANGE_BYTES_PER_CYCLE
    assert full.fullest_tile_bytes < product.fullest_tile_bytes + BYTES_PER_TILE // 8


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
def test_columns_of_a_product(mode):
    # The product is mapped by blocks of rows of a finer shape, and so is a column of it.
    def columns(x):
        def copy(j, y):
            part = jax.lax.dynamic_slice_in_dim(x, 32 * (j // 32), 32, 1)
            column = jax.lax.dynamic_index_in_dim(part.T @ part, j, 1)
            return jax.lax.dynamic_update_slice_in_dim(y, column, j, 1)

        return jax.lax.fori_loop(0, 32, copy, jnp.zeros((32, 32)))

    check(columns, array(40, 64), mode=mode)


# Memory that is free --------------------------------------------------------------------------------------------------

LINEAR = serialize_options({"ipu_mapping": "linear"})  # tables by rows, so that a step needs whole rows of updates


def run_on_eight_tiles(function, execution, options, *args):
    program, _ = lower(function, *args)
    executable = compiler.compile(program, "mlir", options, "ipu2:8")
    (result,) = _ipu.run(executable, [a.tobytes() for a in args], execution)
    return executable, np.frombuffer(result, args[0].dtype).reshape(args[0].shape)


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_updates_of_a_table_that_leaves_little_memory_take_more_steps(execution):
    """With 590 of the 624 KiB of a tile in use, the updates of a step cannot take their usual share of the memory."""
    table, tokens, rows = array(1140, 1024), np.arange(40, dtype=np.int32) ** 2 % 1140, array(40, 1024, seed=1)
    executable, result = run_on_eight_tiles(lambda t, i, u: t.at[i].add(u), execution, LINEAR, table, tokens, rows)
    assert executable.memory.max_tile_bytes <= BYTES_PER_TILE
    np.add.at(table, tokens, rows)
    np.testing.assert_array_equal(result, table)


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_a_window_at_a_position_known_at_run_time_only_is_added_in_parts(execution):
    """No tile has room for the whole window, which is 244 KiB, besides its 519 KiB of the grid."""
    numbers = jax.lax.ScatterDimensionNumbers((0, 1), (), (0, 1))
    grid, at, window = array(1000, 1000), np.array([413, 390], np.int32), array(250, 250, seed=1)

    def f(x, i, u):
        return jax.lax.scatter_add(x, i, u, numbers, mode=jax.lax.GatherScatterMode.FILL_OR_DROP)

    executable, result = run_on_eight_tiles(f, execution, b"", grid, at, window)
    assert executable.memory.max_tile_bytes <= BYTES_PER_TILE
    grid[413:663, 390:640] += window
    np.testing.assert_array_equal(result, grid)
    # A window that is partly outside is left out.
    _, same = run_on_eight_tiles(f, execution, b"", grid, np.array([751, 0], np.int32), window)
    np.testing.assert_array_equal(same, grid)


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_lookups_in_a_table_that_leaves_little_memory_take_more_steps(execution):
    table, tokens = array(1080, 1024), np.arange(64, dtype=np.int32) ** 2 % 1080
    program, _ = lower(lambda t, i: t[i], table, tokens)
    executable = compiler.compile(program, "mlir", LINEAR, "ipu2:8")
    (result,) = _ipu.run(executable, [table.tobytes(), tokens.tobytes()], execution)
    assert executable.memory.max_tile_bytes <= BYTES_PER_TILE
    np.testing.assert_array_equal(np.frombuffer(result, np.float32).reshape(64, 1024), table[tokens])


def test_a_program_that_fits_keeps_its_large_steps():
    table, tokens, rows = spec(1000, 1024), spec(40, dtype="int32"), spec(40, 1024)
    few = compiler.compile(lower(lambda t, i, u: t.at[i].add(u), table, tokens, rows)[0], "mlir", LINEAR, "ipu2:8")
    full = compiler.compile(
        lower(lambda t, i, u: t.at[i].add(u), spec(1140, 1024), tokens, rows)[0], "mlir", LINEAR, "ipu2:8"
    )
    assert few.cost.cycles < full.cost.cycles
