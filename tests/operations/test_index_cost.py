"""Costs of lookups, scatters, sorts and top-k over five decades of sizes have no jumps: benchmarks/index_cost.py."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.modes import check

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import index_cost
from index_cost import CURVES, Point


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_neighbours_at_a_few_sizes(curve):
    sizes = (1_000, 31_623, 1_000_000)
    found = list(index_cost.points(curve, sizes))
    assert [point.size for point in found] == [size for size in sizes if size >= curve.least]
    assert not index_cost.jumps(found)


@pytest.mark.parametrize("columns", [1, 16])
@pytest.mark.parametrize("combine", ["add", "multiply", "max", "min", "set"])
def test_every_type_is_divided_by_updates(combine, columns):
    """Updates of a small table of any type cost about what sums of float32 do; replacements also mark what they set."""

    def cycles(dtype, combine):
        (point,) = index_cost.points(index_cost._scatter(1_000, columns, dtype, combine), [100_000])
        return point.cycles

    for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "complex64"):
        if dtype == "complex64" and combine not in ("add", "set"):
            continue  # no element leaves all others as they are
        # Parts of a word are written one at a time.
        factor = 4 if np.dtype(dtype).itemsize == 1 else 3
        assert cycles(dtype, combine) < factor * cycles("float32", "add")


def test_many_updates_of_a_small_table():
    """The table is spread however many updates there are, also where lookups of as many would need a copy of it."""
    few, many = index_cost.points(index_cost._scatter(1_000), [10_000_000, 50_000_000])
    assert many.fits and many.each < 1.5 * few.each


def test_unique_indices_cost_no_more():
    def cycles(unique):
        def add(x, i, u):
            return x.at[i].add(u, unique_indices=unique)

        (point,) = index_cost.points(index_cost._scatter(100_000)._replace(function=add), [100_000])
        return point.cycles

    assert cycles(True) <= cycles(False)


@pytest.mark.nightly
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_neighbours_at_all_sizes(curve):
    assert not index_cost.jumps(list(index_cost.points(curve)))


@pytest.mark.parametrize("size", [64, 100, 128])
def test_the_best_of_few_elements_is_found_where_they_lie(size):
    """Shorter parts take fewer cycles, but not so many fewer as the exchange that makes them."""
    (curve,) = (curve for curve in CURVES if curve.name == "top_k(x, 1)")
    assert not index_cost.jumps(list(index_cost.points(curve, [size, 200, 316])))


def test_what_counts_as_a_jump():
    good = [Point(100, True, 1000), Point(316, True, 1000), Point(1000, True, 5000)]
    assert not index_cost.jumps(good)
    for bad in (Point(3162, False, 20_000), Point(3162, True, 35_000), Point(3162, True, 3000)):
        assert len(index_cost.jumps([*good, bad])) == 1


def test_the_page_shows_every_curve():
    page, plot = index_cost.PAGE.read_text(), index_cost.PLOT.read_text()
    for curve in CURVES:
        assert f"`{curve.name}`" in page and f">{curve.name}<" in plot


@pytest.mark.parametrize("execution", ["fast", "tile", pytest.param("codelets", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint32", "int8", "uint16"])
def test_values_of_partial_results(dtype, execution):
    """Many updates of a small table: tiles combine shares of them, and then the results."""
    indices = (np.arange(9000) * 7919 % 12 - 2).astype(np.int32)
    updates = (np.arange(9000) % 7 - 3).astype(dtype)
    table = np.arange(8).astype(dtype)

    def extrema(x, i, u):
        return x.at[i].max(u), x.at[i].min(u), (x > 3).at[i].max(u > 0), (x > 3).at[i].min(u > -3)

    def products(x, i, u):  # few of them, which are exact
        few = jnp.where(jnp.arange(u.size) % 997 == 0, u, 1)
        return (-x).at[i].multiply(few)

    def sums(x, i, u):  # of few numbers that are not zero, which are exact
        few = jnp.where(jnp.arange(u.size) % 97 == 0, u, 0) if dtype == "bfloat16" else u
        parts = (jnp.arange(u.size) % 7 - 3).astype("float32")
        return x.at[i].add(few), jnp.zeros(8, "complex64").at[i].add(jax.lax.complex(parts, -parts))

    check(
        lambda x, i, u: (*sums(x, i, u), *extrema(x, i, u), products(x, i, u)),
        *(table, indices, updates),
        mode=(execution, 8),
    )
    if dtype.startswith("float"):
        special = np.where(indices == 3, np.nan, np.where(indices == 5, -np.inf, updates)).astype(dtype)
        check(extrema, table, indices, special, mode=(execution, 8))


@pytest.mark.parametrize("execution", ["fast", "tile", pytest.param("codelets", marks=pytest.mark.nightly)])
def test_the_last_update_counts_where_tiles_set_shares_of_them(execution):
    """As for XLA, by the order of the updates, and elements without one stay."""
    indices = (np.arange(9000) * 7919 % 12 - 2).astype(np.int32)
    updates = np.arange(9000).astype(np.float32)

    def program(x, i, u):
        pairs = jnp.stack([i.reshape(9, -1), -i.reshape(9, -1)], -1)
        square = jnp.zeros((8, 5)).at[pairs[..., 0], pairs[..., 1] % 5].set(u.reshape(9, -1))
        rows = jnp.ones((8, 3)).at[i].set(jnp.stack([u, -u, u * u], 1))
        narrow = [jnp.zeros(8, t).at[i].set((u % 7).astype(t)) for t in ("int8", "bool", "bfloat16", "complex64")]
        places = jnp.where(jnp.arange(9000) % 1500 == 0, jnp.arange(9000) // 1500, 9)
        once = x.at[places].set(u, unique_indices=True), x.at[places].add(u, unique_indices=True)
        return x.at[i].set(u), x.at[i].set(1), square, rows, *once, *narrow

    check(program, np.full(8, -0.0, np.float32), indices, updates, mode=(execution, 8))
