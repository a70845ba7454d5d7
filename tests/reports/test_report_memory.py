"""The memory of jax_ipu.report: each tile's, by category and variable, against the estimate's and the manual."""

import re
from pathlib import Path

import numpy as np

from jax_ipu.compiler.accuracy import ACCURACY
from jax_ipu.compiler.tables import bytes_text
from jax_ipu.reports.insights import insights
from support.report_programs import NOT_PLANNED, TILES, error_text, matrix, ranges, tile_bytes
from support.supersteps import expanded

MANUAL = Path(__file__).parents[2] / "docs" / "model_accuracy.md"


def test_memory_is_that_of_the_estimate(made):
    name, report, estimate = made
    data = report.as_dict()
    if name == "much too large":
        assert data["memory"] is None
        assert sum(v["bytes"] for v in data["variables"]) == estimate.total_bytes
        return
    total = expanded(data["memory"]["total"])
    assert len(total) == TILES
    assert total.max() == estimate.fullest_tile_bytes
    assert total.sum() == estimate.total_bytes
    categories = {part: expanded(column) for part, column in data["memory"]["categories"].items() if column is not None}
    assert (sum(categories.values()) == total).all()
    fixed = sum(categories.get(part, np.zeros(TILES, np.int64)) for part in ("code", "vertex_state"))
    live = data["liveness"]
    if data["tile_memory"] is not None and live["steps"]:
        # Each tile's memory in each step is code, state and the variables that are live.
        held = matrix(data["tile_memory"])
        expected = np.tile(fixed, (live["steps"], 1))
        for variable, row in zip(data["variables"], tile_bytes(data), strict=True):
            assert (row.sum(), row.max(), (row > 0).sum()) == (
                variable["bytes"],
                variable["max_tile_bytes"],
                variable["tiles"],
            )
            for first, last in ranges(variable):
                expected[first : last + 1] += row
        assert (held == expected).all()
        assert (held.sum(1) == live["always_live_bytes"] + expanded(live["not_always_live"])).all()
        assert (held.max(1) == expanded(live["max_tile"])).all()
        assert (held[np.arange(len(held)), expanded(live["fullest"])] == held.max(1)).all()
        assert (expanded(live["not_always_live"]) >= 0).all()
        if data["memory"]["peak_step"] is not None:
            assert held[data["memory"]["peak_step"]].max() == estimate.fullest_tile_bytes


def test_addresses(made):
    name, report, _ = made
    data = report.as_dict()
    if name == "much too large":
        return
    memory, steps = data["memory"], data["liveness"]["steps"]
    total, gaps = expanded(memory["total"]), expanded(memory["gaps"])
    assert (gaps >= 0).all()
    addresses_of_tile = expanded(memory["addresses"]["of_tile"])
    assert len(gaps) == len(addresses_of_tile) == TILES
    assert addresses_of_tile[total.argmax()] >= 0
    assert sum(map(len, memory["addresses"]["lists"])) <= 20_000
    known = [memory["categories"][part] for part in ("code", "vertex_state")]
    fixed = sum((expanded(column) for column in known if column is not None), np.zeros(TILES, np.int64))
    rows = tile_bytes(data)
    for tile in np.flatnonzero(addresses_of_tile >= 0)[:8]:
        flat = memory["addresses"]["lists"][addresses_of_tile[tile]]
        address = dict(zip(flat[::2], flat[1::2], strict=True))
        assert sorted(address) == [v["id"] for v, row in zip(data["variables"], rows, strict=True) if row[tile]]
        assert all(at % 8 == 0 for at in address.values())
        highest = fixed[tile]
        for step in range(steps):
            live = [v["id"] for v in data["variables"] if any(a <= step <= b for a, b in ranges(v))]
            end = fixed[tile]
            for at, size in sorted((address[v], rows[v][tile]) for v in live if v in address):
                assert at >= end
                end = at + size
            highest = max(highest, end)
        # Another program than the main one may be fuller; addresses are those of the main program.
        assert max(highest, total[tile]) == total[tile] + gaps[tile]


def test_gaps_that_do_not_fit_are_an_insight(made):
    _, report, _ = made
    data = report.as_dict()
    if data["memory"] is None:
        return
    total = expanded(data["memory"]["total"])
    data = {**data, "chip": {**data["chip"], "tile_memory_bytes": int(total.max())}}
    data["memory"] = {**data["memory"], "gaps": {"rle": [8, TILES]}}
    (found,) = [one for one in insights(data) if one["id"] == "gaps"]
    assert found["tiles"] == [tile for tile in range(TILES) if total[tile] + 8 > total.max()][:5]
    data["chip"]["tile_memory_bytes"] += 8
    assert "gaps" not in [one["id"] for one in insights(data)]


def test_parts_of_what_is_always_live(made):
    name, report, _ = made
    data = report.as_dict()
    found = [one for one in report.insights if one["id"] == "always live"]
    if not found:
        assert name in NOT_PLANNED
        return
    parts = found[0]["parts"]
    assert sum(parts.values()) == data["liveness"]["always_live_bytes"]
    code = expanded(data["memory"]["categories"]["code"]).sum()
    assert parts["code"] == code and f"{bytes_text(code)} of code" in found[0]["detail"]
    # Only variables have types.
    assert ("types" in found[0]["action"]) == (parts.get("variables", 0) > 0.1 * sum(parts.values()))
    assert ("less code" in found[0]["action"]) == (code > 0.1 * sum(parts.values()))


def test_accuracy_of_each_part_of_the_memory(made):
    data = made[1].as_dict()
    named = [category for entry in data["accuracy"] for category in entry["categories"]]
    assert sorted(named) == sorted(data["memory"]["categories"] if data["memory"] else named)
    # The report gives the error of memory that the manual gives.
    manual = MANUAL.read_text()
    rows = dict(re.findall(r"(?m)^\| ([a-z, ]+) \| (exact|unknown|\d+ %) \|", manual))
    for entry in ACCURACY:
        for category in entry.categories:
            [said] = [v for parts, v in rows.items() if category.replace("_", " ") in parts.split(", ")]
            assert said == ("exact" if entry.memory == 0 else error_text(entry.memory))
