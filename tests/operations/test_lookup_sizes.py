"""Lookups of any number of rows fit, in steps where buffers would not, and cost about the same for each row."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, estimate
from support.modes import array, check, each_mode
from support.supersteps import supersteps

# From where on the cost of a row is not that of the supersteps.
COUNTS = (3_000, 10_000, 30_000, 100_000, 200_000, 300_000, 1_000_000, 3_000_000)
HALF_OF_AN_IPU = 1472 * 624 * 1024 // 2
SYNC = 126


def lookup(table, indices):
    return table[indices]


def costs(shape, dtype):
    """The estimates of lookups whose operands and results take at most half of an IPU."""
    row = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    for count in COUNTS:
        if row * (shape[0] + count) + 4 * count <= HALF_OF_AN_IPU:
            arguments = jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((count,), np.int32)
            yield count, estimate(lookup, *arguments, target="ipu2")


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((200_000, 16), np.float32),
        ((1_000_000, 16), np.float32),
        ((50_000, 128), np.float16),
        ((9_000_000,), np.float32),
    ],
)
def test_lookups_fit_and_cost_no_more_for_each_row(shape, dtype):
    last = None
    for count, cost in costs(shape, dtype):
        assert cost.fits, (count, cost)
        if last is not None:
            assert cost.cycles / count < 2 * last[1] / last[0], (count, last, cost.cycles)
            assert cost.cycles >= last[1], (count, last, cost.cycles)
        last = count, cost.cycles
    assert last is not None


@pytest.mark.parametrize("columns", [1, 16])
def test_lookups_in_tables_that_grow_along(columns):
    """As many rows as indices, up to half of the IPU: neighbours cost alike, and what is planned is short."""
    last = None
    for k in range(8, 16):
        n = min(round(10 ** (k / 2)), HALF_OF_AN_IPU // (8 * columns + 4))
        shape = (n,) if columns == 1 else (n, columns)
        cost = estimate(
            lookup, jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct((n,), np.int32), target="ipu2"
        )
        assert cost.fits, (n, cost)
        assert last is None or cost.cycles / n < 2 * last, (n, last, cost.cycles / n)
        last = cost.cycles / n
    assert last < 2


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 1), ("float32", 4), ("float16", 1), ("uint8", 1)])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_lookups_of_half_the_memory_fit(dtype, columns, share):
    """The table takes a share of that; costs are far from those of tiles that look up all rows."""
    row = np.dtype(dtype).itemsize * columns
    rows = int(HALF_OF_AN_IPU * share / row)
    n = (HALF_OF_AN_IPU - rows * row) // (row + 4)
    shape = (rows,) if columns == 1 else (rows, columns)
    cost = estimate(lookup, jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((n,), np.int32), target="ipu2")
    assert cost.fits
    assert cost.cycles < n + rows * row / 4


@pytest.mark.parametrize("mode", [("fast", 16), ("tile", 16), ("codelets", 16)], ids=lambda mode: mode[0])
@pytest.mark.parametrize(
    ("rows", "dtype", "index"),
    [(900_000, "float32", "int32"), (1_900_000, "float16", "int32"), (1_200_000, "uint8", "uint32")],
)
def test_values_of_lookups_in_rounds(mode, rows, dtype, index):
    """A tile has the memory for a quarter of the table only. Indices are anywhere, some of them outside."""
    count = 40_000
    random = np.random.default_rng(0)
    indices = random.integers(0 if index == "uint32" else -rows, rows + 99, count).astype(index)
    table = (np.arange(rows) % 251).astype(dtype)

    def lookups(x, i):
        return x.at[i].get(mode="clip"), x.at[i].get(mode="fill", fill_value=3)

    shapes = jax.ShapeDtypeStruct(table.shape, table.dtype), jax.ShapeDtypeStruct(indices.shape, index)
    assert supersteps(lookup, *shapes, target="ipu2:16") > 8  # trips of a loop
    check(lookups, table, indices, mode=mode)


@each_mode
@pytest.mark.parametrize("count", [6_000, 20_001])
def test_values_of_lookups_in_steps(mode, count):
    # A tile can copy less than half of the table, so there are partial results.
    shapes = jax.ShapeDtypeStruct((40_000, 2), np.float32), jax.ShapeDtypeStruct((count,), np.int32)
    assert supersteps(lookup, *shapes, target="ipu2:8") > 2
    indices = np.random.default_rng(count).integers(-40_000, 40_000, count).astype(np.int32)
    check(lookup, array(40_000, 2), indices, mode=mode)


def test_values_of_steps_whose_rows_are_cut_over_the_tiles():
    """The positions of a step are cut over the tiles, and the last step has fewer."""
    shape, count = (100_000, 16), 40_001
    cost = estimate(lookup, jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct((count,), np.int32))
    # More than one step, and a tile sees half of the rows at most: 19 cycles for each.
    assert cost.sync_cycles > 2 * SYNC and cost.cycles < 10 * count
    indices = np.random.default_rng(0).integers(-shape[0], shape[0], count).astype(np.int32)
    check(lookup, array(*shape), indices, mode=("tile", 1472))


@pytest.mark.parametrize("k", [8, 53, 54, 64, 256, 1024, 16_384, 30_000, 500_000, 1_000_000])
def test_top_k_of_a_long_row_fits_wherever_its_operands_do(k):
    row = jax.ShapeDtypeStruct((1_000_000,), np.float32)
    with jax.default_device(jax.devices("ipu")[0]):
        compiled = jax.jit(lambda x: jax.lax.top_k(x, k)).lower(row).compile()
    # A pass over its part on each tile, and the candidates of a few stages; or a sort.
    assert compiled.cost_analysis()["cycles"] < min(3_000 + 1_800 * k, 900_000)


@each_mode
@pytest.mark.parametrize(("n", "k"), [(40_000, 5), (20_000, 300)])
def test_values_of_top_k_in_stages(mode, n, k):
    x = array(2, n).round(2)  # with ties
    check(lambda x: jax.lax.top_k(x, k), x, mode=mode)


@pytest.mark.parametrize(("n", "k"), [(57_000_000, 30_000), (38_000_000, 38_000_000)])
def test_top_k_of_a_large_share_of_the_memory_fits(n, k):
    cost = estimate(lambda x: jax.lax.top_k(x, k), jax.ShapeDtypeStruct((n,), np.float32), target="ipu2")
    assert cost.fits and cost.cycles < 2 * n


@pytest.mark.parametrize("mode", [("fast", 64), ("tile", 64), ("codelets", 64)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("k", [2_400, 9_000, 20_000])
def test_values_of_top_k_by_a_sort(mode, k):
    """The positions show the order of equal elements."""
    n = 20_000
    cost = estimate(lambda x: jax.lax.top_k(x, k), jax.ShapeDtypeStruct((n,), np.float32), target="ipu2:64")
    assert cost.sync_cycles > 6 * SYNC  # the stages of a sort, not of merges
    x = array(n).round(2)
    x[:4] = np.nan, -np.nan, 0, -0.0
    check(lambda x: jax.lax.top_k(x, k), x, mode=mode)


def test_scatters_in_steps_cost_the_same_for_each_row():
    """Partial sums of shares of the updates take several steps where these do not fit at once."""

    def add(x, i, u):
        return x.at[i].add(u)

    last = None
    for count in (31_623, 100_000, 316_228, 1_000_000, 3_162_278):
        shapes = [((1_000_000,), np.float32), ((count,), np.int32), ((count,), np.float32)]
        cost = estimate(add, *(jax.ShapeDtypeStruct(*shape) for shape in shapes), target="ipu2")
        assert cost.fits, (count, cost)
        assert last is None or cost.cycles / count < 1.2 * last, (count, last, cost.cycles / count)
        last = cost.cycles / count
    assert last < 4


def add(x, i, u):
    return x.at[i].add(u)


@pytest.mark.parametrize("columns", [1, 16])
def test_sums_in_tables_that_grow_along(columns):
    """As many rows as updates, up to half of the IPU."""
    last = None
    for k in range(8, 16):
        n = min(round(10 ** (k / 2)), HALF_OF_AN_IPU // (12 * columns + 4))
        shape = (n,) if columns == 1 else (n, columns)
        shapes = [(shape, np.float32), ((n,), np.int32), (shape, np.float32)]
        cost = estimate(add, *(jax.ShapeDtypeStruct(*shape) for shape in shapes), target="ipu2")
        assert cost.fits, (n, cost)
        assert last is None or cost.cycles / n < 2.5 * last, (n, last, cost.cycles / n)
        last = cost.cycles / n
    assert last < 4 + columns / 4


@pytest.mark.parametrize("mode", [("fast", 64), ("tile", 64), ("codelets", 64)], ids=lambda mode: mode[0])
@pytest.mark.parametrize(("columns", "dtype"), [(1, "float32"), (4, "float16"), (1, "int32")])
def test_values_of_scatters_in_rounds(mode, columns, dtype):
    """Small whole numbers, whose sums are exact in any order. Indices are anywhere, some of them outside."""
    rows, count = 1_500_000 // columns, 300_000 // columns
    random = np.random.default_rng(0)
    indices = random.integers(-rows - 99, rows + 99, count).astype(np.int32)
    indices[: count // 20] = 7
    row = () if columns == 1 else (columns,)
    updates = random.integers(0, 2, (count, *row)).astype(dtype)
    updates[: count // 20] *= np.arange(count // 20).reshape(-1, *(1 for _ in row)) % 97 == 0
    table = (np.arange(rows * columns) % 5).reshape(rows, *row).astype(dtype)

    def combine(x, i, u):
        return x.at[i].add(u), x.at[i].max(4 * u)

    shapes = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (table, indices, updates))
    assert supersteps(add, *shapes, target="ipu2:64") > 100  # trips of a loop
    check(combine, table, indices, updates, mode=mode)


@each_mode
def test_values_of_scatters_in_steps(mode):
    """Whole numbers, whose sums do not depend on the order."""
    rows, count = 50, 30_000
    random = np.random.default_rng(0)
    indices = random.integers(-60, 60, count).astype(np.int32)
    updates = random.integers(-4, 5, (count, 4)).astype(np.float32)
    shapes = jax.ShapeDtypeStruct((rows, 4), np.float32), jax.ShapeDtypeStruct(indices.shape, indices.dtype)
    shapes = *shapes, jax.ShapeDtypeStruct(updates.shape, updates.dtype)
    assert supersteps(add, *shapes, target="ipu2:8") > 2  # more than one block of updates, and the total
    check(lambda x, i, u: x.at[i].add(u), array(rows, 4).round(), indices, updates, mode=mode)


@pytest.mark.parametrize("n", [30_000_000, 56_000_000])
def test_sorts_of_half_the_memory_fit(n):
    cost = estimate(jnp.sort, jax.ShapeDtypeStruct((n,), np.float32), target="ipu2")
    assert cost.fits and cost.cycles < 2 * n


def test_the_cost_of_a_sort_has_no_jumps():
    costs = [
        estimate(jnp.sort, jax.ShapeDtypeStruct((10**k,), np.float32), target="ipu2").cycles / 10**k
        for k in range(2, 8)
    ]
    assert costs[-1] < 1
    assert all(b < 1.2 * a for a, b in itertools.pairwise(costs)), costs


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("shape", [(20_000,), (3, 4_000), (40_001, 2)])
def test_values_of_sorts_in_several_chunks_of_a_tile(mode, shape):
    """With ties, whose order shows in the positions; 40,001 elements are several chunks on each of 8 tiles."""
    x = array(*shape).round(1)
    check(lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=0, stable=True)), x, mode=mode)


@pytest.mark.parametrize("rows", [58_000_000, 100_000_000])
def test_a_table_is_spread_where_no_buffers_fit(rows):
    """Whatever looks it up, no tile is full of it."""
    graph = _ipu.Graph(_ipu.Target("ipu2", 1472))
    table = _ipu.create_gather_input(graph, "f32", (rows,), (rows, 1), (), (0,), (), (), (0,), 1, (1,), "table")
    most = max(sum(end - begin for begin, end in tile) for tile in graph.get_tile_mapping(table))
    assert 4 * most <= 624 * 1024 // 2
