"""Lookups of any number of rows fit, in steps where buffers would not, and cost about the same for each row."""

import jax
import numpy as np
import pytest

from jax_ipu import estimate
from support.modes import array, check, each_mode

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
def test_lookups_fit_and_cost_the_same_for_each_row(shape, dtype):
    last = None
    for count, cost in costs(shape, dtype):
        assert cost.fits, (count, cost)
        assert last is None or last / 2 < cost.cycles / count < last * 2, (count, last, cost.cycles / count)
        last = cost.cycles / count
    assert last is not None


@each_mode
@pytest.mark.parametrize("count", [6_000, 20_001])
def test_values_of_lookups_in_steps(mode, count):
    shapes = jax.ShapeDtypeStruct((10_000, 2), np.float32), jax.ShapeDtypeStruct((count,), np.int32)
    assert estimate(lookup, *shapes, target="ipu2:8").sync_cycles > 2 * SYNC
    indices = np.random.default_rng(count).integers(-10_000, 10_000, count).astype(np.int32)
    check(lookup, array(10_000, 2), indices, mode=mode)


def test_values_of_steps_whose_rows_are_cut_over_the_tiles():
    """The positions of a step are cut over the tiles, and the last step has fewer."""
    shape, count = (100_000, 16), 10_001
    cost = estimate(lookup, jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct((count,), np.int32))
    # More than one step, and a tile sees half of the rows at most: 19 cycles for each.
    assert cost.sync_cycles > 2 * SYNC and cost.cycles < 10 * count
    indices = np.random.default_rng(0).integers(-shape[0], shape[0], count).astype(np.int32)
    check(lookup, array(*shape), indices, mode=("tile", 1472))


@pytest.mark.parametrize("k", [8, 53, 54, 64, 256, 1024, 16_384])
def test_top_k_of_a_long_row_fits_wherever_its_operands_do(k):
    row = jax.ShapeDtypeStruct((1_000_000,), np.float32)
    with jax.default_device(jax.devices("ipu")[0]):
        compiled = jax.jit(lambda x: jax.lax.top_k(x, k)).lower(row).compile()
    # A pass over its part on each tile, and the candidates of a few stages.
    assert compiled.cost_analysis()["cycles"] < 3_000 + 1_800 * k


@each_mode
@pytest.mark.parametrize(("n", "k"), [(40_000, 5), (20_000, 300)])
def test_values_of_top_k_in_stages(mode, n, k):
    x = array(2, n).round(2)  # with ties
    check(lambda x: jax.lax.top_k(x, k), x, mode=mode)
