"""Costs of lookups, scatters, sorts and top-k over five decades of sizes have no jumps: benchmarks/index_cost.py."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import index_cost
from index_cost import CURVES, Point


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_neighbours_at_a_few_sizes(curve):
    sizes = (1_000, 31_623, 1_000_000)
    found = list(index_cost.points(curve, sizes))
    assert [point.size for point in found] == [size for size in sizes if size >= curve.least]
    assert not index_cost.jumps(found)


@pytest.mark.nightly
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_neighbours_at_all_sizes(curve):
    assert not index_cost.jumps(list(index_cost.points(curve)))


def test_what_counts_as_a_jump():
    good = [Point(100, True, 1000), Point(316, True, 1000), Point(1000, True, 5000)]
    assert not index_cost.jumps(good)
    for bad in (Point(3162, False, 20_000), Point(3162, True, 35_000), Point(3162, True, 3000)):
        assert len(index_cost.jumps([*good, bad])) == 1


def test_the_page_shows_every_curve():
    page, plot = index_cost.PAGE.read_text(), index_cost.PLOT.read_text()
    for curve in CURVES:
        assert f"`{curve.name}`" in page and f">{curve.name}<" in plot
