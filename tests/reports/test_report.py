"""jax_ipu.report: its numbers against those of estimates, its form against docs/report_format.md."""

import doctest
import json
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import reports
from jax_ipu.compiler.accuracy import ACCURACY
from jax_ipu.compiler.user_shapes import with_user_shapes
from jax_ipu.reports import html
from jax_ipu.reports.data import floor_plan
from jax_ipu.reports.insights import what_helps
from support import report_programs
from support.report_programs import LARGE, NOT_PLANNED, PROGRAMS, TARGET, TILES, error_text, matrix, shape
from support.supersteps import expanded

DOCS = Path(__file__).parents[2] / "docs"
MANUAL, FORMAT = DOCS / "report.md", (DOCS / "report_format.md").read_text()


def test_sums_are_those_of_the_estimate(made):
    name, report, estimate = made
    data = report.as_dict()
    wanted = estimate.as_dict()
    for key in ("operations", "reason"):  # JAX names the arguments only when it traces a function first
        del wanted[key]
    assert {**wanted, "reason": data["program"]["reason"]} == data["estimate"]
    assert data["program"]["fits"] == estimate.fits == (name not in LARGE)
    assert (data["program"]["reason"] is None) == estimate.fits
    if estimate.cycles is None:
        return
    steps = data["steps"]
    weight = expanded(steps["counted"]) * expanded(steps["executions"])
    for column in ("compute", "exchange", "sync"):
        assert (weight * expanded(steps[column])).sum() == wanted[f"{column}_cycles"]
    by_name = sorted((row["name"], row["cycles"], row["flops"]) for row in data["operations"])
    assert by_name == sorted((row.name, row.cycles, row.flops) for row in estimate.operations)
    for row in data["operations"]:
        own = np.array(steps["operation"], object) == row["id"]
        executions = expanded(steps["executions"])[own]
        parts = sum(expanded(steps[column])[own] for column in ("compute", "exchange", "sync"))
        assert (executions * parts).sum() == row["cycles"]
        assert (executions * np.array(steps["exchange_bytes"])[own]).sum() == row["exchange_bytes"]
    moved = {"in": 0, "out": 0}
    for stream in data["host"]["streams"]:
        if stream["when"] != "once":
            moved[stream["direction"]] += stream["bytes"]
    assert moved == {"in": wanted["host_bytes_in"], "out": wanted["host_bytes_out"]}
    assert (expanded(steps["executions"]) * expanded(steps["link_bytes"])).sum() == wanted["link_bytes"]
    assert (wanted["link_bytes"] > 0) == (name == "four IPUs")


COSTS = (
    *("cycles", "compute_cycles", "exchange_cycles", "link_cycles", "sync_cycles", "exchange_bytes", "link_bytes"),
    *("code_bytes", "tiles", "utilisation", "codelets"),
)


def test_what_was_not_planned_is_null(made):
    name, report, estimate = made
    data = report.as_dict()
    planned = name not in NOT_PLANNED
    assert (estimate.cycles is not None) == planned
    for row in data["operations"]:
        assert all((row[key] is not None) == planned for key in COSTS if planned is False or key != "utilisation")
    assert (data["exchange"] is not None) == planned
    assert (data["host"]["streams"] is not None) == (name != "much too large")
    if data["steps"] is None:
        assert name == "much too large"
        return
    moved = ("exchange_bytes", "link_bytes", "local_copies")
    columns = ("compute", "exchange", "links", "sync", *moved, "active_tiles", "mean_compute")
    assert all((data["steps"][column] is not None) == planned for column in columns)
    assert all((node["cycles"] is not None) == planned for node in data["tree"] + data["layers"] + data["functions"])
    unknown = {part for part, column in data["memory"]["categories"].items() if column is None}
    assert unknown == (set() if planned else {"temporaries", "exchange_buffers", "vertex_state", "code"})


def test_links_are_a_phase_of_their_own(made):
    name, report, _ = made
    if name in NOT_PLANNED:
        assert report.link_cycles is None
        return
    data = report.as_dict()
    steps = data["steps"]
    links, moved = expanded(steps["links"]), expanded(steps["link_bytes"])
    assert (links == np.where(moved > 0, expanded(steps["exchange"]), 0)).all()
    whole = (expanded(steps["counted"]) * expanded(steps["executions"]) * links).sum()
    assert report.link_cycles == whole
    assert (whole > 0) == (name == "four IPUs")
    for row in data["operations"]:
        own = np.array(steps["operation"], object) == row["id"]
        assert row["link_cycles"] == (expanded(steps["executions"])[own] * links[own]).sum() <= row["exchange_cycles"]
    assert ("IPU-Links" in repr(report)) == (name == "four IPUs")


def test_what_takes_most(made):
    _, report, estimate = made
    limits = [one for one in report.insights if one["id"] == "limit"]
    if not limits:
        assert not estimate.cycles
        return
    links = report.link_cycles
    parts = [estimate.compute_cycles, estimate.exchange_cycles - links, links, estimate.sync_cycles]
    assert ("most of" in limits[0]["title"]) == (2 * max(parts) > estimate.cycles)


def test_layers_and_functions_add_up(made):
    _, report, _ = made
    data = report.as_dict()
    operations = data["operations"]
    for key, own in (("layers", "layer"), ("functions", "function")):
        nodes = data[key]
        inside = {node["id"]: set(node["operations"]) for node in nodes}
        for node in reversed(nodes):
            assert nodes[node["id"]] is node and (node["parent"] is None or node["parent"] < node["id"])
            assert all(operations[i][own] == node["id"] for i in node["operations"])
            if node["parent"] is not None:
                inside[node["parent"]] |= inside[node["id"]]
        for node in nodes:
            rows = [operations[i] for i in inside[node["id"]]]
            for column in ("cycles", "link_cycles", "exchange_bytes", "flops", "code_bytes"):
                values = [row[column] for row in rows]
                assert node[column] == (None if None in values or not values else sum(values))
        placed = sum(len(node["operations"]) for node in nodes)
        assert placed == sum(row[own] is not None for row in operations)
    frames = data["frames"]
    assert all(0 <= i < len(frames) for row in operations for i in row["stack"])
    titles = [row["title"] for row in operations]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", ["MNIST step", "too large for its buffers", "too large"])
def test_variables_have_the_shapes_of_the_user(name):
    fun, args, donated = PROGRAMS[name]
    data = jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated).as_dict()
    shapes = {v["argument"]: tuple(v["shape"]) for v in data["variables"] if v["argument"]}
    wanted = {
        "MNIST step": {"params['w1']": (784, 64), "images": (32, 784)},
        "too large for its buffers": {"a": (1290, 1290), "b": (1290, 1290)},
        "too large": {"x": (1500, 1000)},
    }[name]
    assert wanted.items() <= shapes.items()
    made_by_products = [v["shape"] for v in data["variables"] if v["name"].startswith("dot_general") and v["shape"]]
    assert all(len(one) == 2 for one in made_by_products)


@pytest.mark.parametrize(
    ("fun", "args", "target", "shapes"),
    [
        (jnp.dot, (shape(1290, 1290),) * 2, TARGET, {"f32[1290,1290]"}),
        (lambda a, b: jnp.einsum("ij,kj->ik", a, b), (shape(1290, 1290),) * 2, TARGET, {"f32[1290,1290]"}),
        (
            jnp.matmul,
            (shape(1290, 1290), shape(1, 1290, 1290)),
            TARGET,
            {"f32[1290,1290]", "f32[1,1290,1290]", "f32[1290,1,1290]"},  # the last is dot_general's own
        ),
    ],
)
def test_errors_have_the_shapes_of_the_user(fun, args, target, shapes):
    reason = jax_ipu.estimate(fun, *args, target=target).reason
    assert set(re.findall(r"variable '.*' (f32\[[\d,]*\])", reason)) == shapes


def test_variables_are_told_apart(made):
    data = made[1].as_dict()
    if made[0] == "much too large":
        return
    titles = [(v["role"], v["title"]) for v in data["variables"]]
    assert len(set(titles)) == len(titles)
    assert all(v["title"] == v["name"] for v in data["variables"] if v["argument"])


def test_shapes_of_a_text():
    text = "of:\n  1 B here: variable 'a' f32[1,2]\n  1 B here: variable 'b' f32[]\n  variable 'c' f32[1,3]"
    assert with_user_shapes(text, {"a": (2, 1), "b": ()}, ()) == text.replace("f32[1,2]", "f32[2,1]")


def test_tiles_of_each_step(made):
    name, report, _ = made
    data = report.as_dict()
    if data["tile_compute"] is None:
        assert name in NOT_PLANNED
        return
    steps, compute = data["steps"], matrix(data["tile_compute"])
    assert (compute.max(1, initial=0) == expanded(steps["compute"])).all()
    assert ((compute > 0).sum(1) == expanded(steps["active_tiles"])).all()
    np.testing.assert_allclose(compute.sum(1) / TILES, steps["mean_compute"], atol=0.006)
    exchange = data["exchange"]
    wanted = np.array(steps["exchange_bytes"], int)[exchange["steps"]]
    assert set(np.flatnonzero(steps["exchange_bytes"])) == set(exchange["steps"])
    sent, received = matrix(exchange["sent"]), matrix(exchange["received"])
    assert (sent.sum(1) == wanted).all() and (received.sum(1) == wanted).all()
    size = exchange["group_tiles"]
    pairs = exchange["pairs"]
    for number, row in enumerate(pairs):
        flat = pairs[row["same"]] if isinstance(row, dict) else row
        triples = np.array(flat).reshape(-1, 3)
        groups = math.ceil(TILES / size)
        for column, tiles in ((0, sent), (1, received)):
            of_groups = np.bincount(triples[:, column], triples[:, 2], groups)
            assert (of_groups == np.add.reduceat(tiles[number], np.arange(0, TILES, size))).all()


def test_the_tree_holds_all_steps(made):
    data = made[1].as_dict()
    tree, steps = data["tree"], data["steps"]
    if steps is None:
        return
    covered = set()
    for node in tree:
        assert node["id"] == tree.index(node)
        parent = tree[node["parent"]] if node["parent"] is not None else None
        if parent is not None and node["first_step"] is not None:
            assert parent["id"] < node["id"]
            assert parent["first_step"] <= node["first_step"] <= node["last_step"] <= parent["last_step"]
    for step, node in enumerate(steps["node"]):
        assert tree[node]["first_step"] <= step <= tree[node]["last_step"]
        covered.add(step)
        if steps["operation"][step] is not None:
            assert tree[node]["operation"] == steps["operation"][step]
    assert len(covered) == data["liveness"]["steps"]
    if made[2].cycles:
        assert tree[0]["cycles"] == made[2].cycles


def test_kinds_of_nodes():
    fun, args, _ = PROGRAMS["loops and conditional"]
    data = jax_ipu.report(fun, *args, target=TARGET).as_dict()
    kinds = {node["kind"] for node in data["tree"]}
    assert {"sequence", "while", "repeat", "operation", "stream"} <= kinds
    assert kinds & {"if", "switch"}
    assert data["estimate"]["unknown_trip_counts"] == 1
    assert 0 in expanded(data["steps"]["counted"])
    assert "decision" in data["steps"]["kind"]
    [repeat] = [node for node in data["tree"] if node["kind"] == "repeat"]
    assert repeat["trips"] == 8


def test_source_lines_scopes_and_arguments():
    fun, args, donated = PROGRAMS["MNIST step"]
    data = jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated).as_dict()
    [here] = [i for i, source in enumerate(data["sources"]) if source["path"] == report_programs.__file__]
    text = Path(report_programs.__file__).read_text().splitlines()
    assert data["sources"][here]["lines"] == text
    products = [row for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
    assert products and all(row["source"] == here for row in products)
    assert any("images @ params" in text[row["line"] - 1] for row in products)
    assert any("gradient" in row["scope"] for row in products)
    arguments = {v["argument"] for v in data["variables"] if v["argument"]}
    assert {"params['w1']", "params['b2']", "images", "labels"} <= arguments
    state = next(v for v in data["variables"] if v["argument"] == "params['w1']")
    assert state["lasting"] and state["first_step"] == 0
    when = {stream["name"]: stream["when"] for stream in data["host"]["streams"]}
    assert when["params['w1']"] == "once" and when["images"] in ("new arrays", "each call")


def keys_of(value, prefix=""):
    """The names of all keys in lists and dictionaries."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value[:200]:
            yield from keys_of(inner)


def test_the_format_is_documented(made):
    data = made[1].as_dict()
    json.loads(html.text_of(data))
    documented = {word for code in re.findall(r"`([^`]+)`", FORMAT) for word in re.findall(r"\w+", code)}
    assert not set(keys_of({**data, "estimate": None})) - documented
    top = "format version jax_ipu program chip estimate accuracy sources operations steps tile_compute tree variables"
    top += " liveness memory tile_memory exchange host insights phases layers functions frames run libraries schedule"
    assert set(data) == set(top.split())


def test_insights(made):
    name, report, _ = made
    data = report.as_dict()
    found = {one["id"]: one for one in report.insights}
    assert ("does not fit" in found) == (name in LARGE)
    if name in LARGE:
        assert report.insights[0]["severity"] == "problem"
    for one in report.insights:
        assert one["title"] and one["detail"]
        assert one["saving"] is None  # nothing was compiled to know one
        assert all(0 <= i < len(data["operations"]) for i in one["operations"])
        assert all(0 <= i < len(data["variables"]) for i in one["variables"])
        assert all(0 <= i < TILES for i in one["tiles"])
    if name == "MNIST step":
        assert {"fullest tiles", "histogram", "always live", "exchange buffers"} <= set(found)
        assert {"limit", "sinks", "imbalance"} <= set(found)
        total = expanded(data["memory"]["total"])
        assert found["fullest tiles"]["tiles"][0] == total.argmax()
        assert sum(found["histogram"]["histogram"]["counts"]) == TILES
        most = max(data["operations"], key=lambda row: row["cycles"])
        assert found["sinks"]["operations"][0] == most["id"] and most["kind"] in found["sinks"]["detail"]


def test_alternatives_that_were_not_tried(made):
    name, report, _ = made
    found = [one for one in report.insights if one["id"] == "alternatives"]
    if name in LARGE:
        # Changes of it were compiled: the reason says which help.
        assert not found and what_helps(report.as_dict()["program"]["reason"])
        return
    (found,) = found
    assert found["severity"] == "advice" and found["title"] == "Alternatives were not tried"
    assert "advice=True" in found["action"]


def test_what_helps_is_a_list(made):
    name, report, _ = made
    found = [one for one in report.insights if one["id"] == "does not fit"]
    assert len(found) == (name in LARGE)
    if found:
        reason, helps, untried = report.as_dict()["program"]["reason"], found[0]["helps"], found[0]["untried"]
        assert len(helps) + len(untried) == reason.count("  * ") >= 1
        assert all(item in reason.partition("\nNot tried")[0] for item in helps)
        assert all(item in reason.partition("\nNot tried")[2] for item in untried)
        assert found[0]["action"] == "\n".join(helps + [f"Not tried: {item}" for item in untried])


def test_equal_programs_have_equal_reports():
    def without_times(report):
        return html.text_of({**report.as_dict(), "phases": []})

    fun, args, donated = PROGRAMS["MNIST step"]
    first, second = (jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated) for _ in range(2))
    assert without_times(first) == without_times(second)
    assert [p["name"] for p in first.as_dict()["phases"]] == [p["name"] for p in second.as_dict()["phases"]]


def test_time_of_a_call(made):
    name, report, estimate = made
    rows = dict(report.summary())
    if estimate.cycles is None:
        assert estimate.call_seconds is None and "call" not in rows
        return
    assert estimate.call_seconds == estimate.seconds + estimate.host_seconds
    batch = {"MNIST step": 32, "CNN": 2}.get(name)
    if batch:
        assert report.as_dict()["program"]["batch"] == batch
        assert f"{batch / estimate.call_seconds:,.0f} rows a second" in rows["call"]
    elif name in ("four IPUs", "nothing", *LARGE):
        assert "rows" not in rows["call"]


@pytest.mark.parametrize("mapped", [True, False])
def test_batch_that_is_cut_over_ipus(mapped):
    function = (lambda w, x: jnp.tanh(x @ w)) if mapped else jax.grad(lambda w, x: jnp.mean((x @ w) ** 2))
    mesh = AbstractMesh((2, 2), ("rows", "columns"))
    x = shape(48, 64, sharding=NamedSharding(mesh, P("rows")))
    report = jax_ipu.report(function, shape(64, 32, sharding=NamedSharding(mesh, P())), x, target=TARGET)
    assert report.as_dict()["program"]["batch"] == 48
    assert f"{48 / report.estimate.call_seconds:,.0f} rows a second" in dict(report.summary())["call"]


def test_repr(made):
    name, report, estimate = made
    assert estimate.title() in repr(report)
    assert ("What helps" in repr(report)) == (name in LARGE)


def test_floor_plans_have_a_place_for_each_tile():
    for tiles in (1, 2, 7, 32, 1216, 1472):
        plan = floor_plan(tiles)
        places = list(zip(plan["tiles"][::2], plan["tiles"][1::2], strict=True))
        assert len(set(places)) == tiles
        assert max(x for x, _ in places) < plan["columns"] and max(y for _, y in places) < plan["rows"]


def test_accuracy_names_kinds_of_operations(made):
    known = {row["kind"] for row in made[1].as_dict()["operations"]}
    assert all("::" in kind for entry in ACCURACY for kind in entry.applies_to)
    if made[0] == "MNIST step":
        assert {"poplin::matMulGrouped", "popops::map"} <= known
        assert {kind for entry in ACCURACY for kind in entry.applies_to} & known


def test_accuracy_is_that_of_the_manual():
    """The table of errors by kind, and that those which come from PopLibs are the medians of its tables."""
    manual = (DOCS / "model_accuracy.md").read_text()
    rows = re.findall(r"(?m)^\| ([A-Za-z ]+) \| (\d+ %|unknown) \| ([a-zA-Z ]+) \|$", manual)
    kinds = [entry for entry in ACCURACY if not entry.categories]
    assert rows == [(entry.kind, error_text(entry.cycles), entry.source) for entry in kinds]
    medians = dict(re.findall(r"(?m)^\| ([a-z ]+) \| \d+ \|[^|]+\|[^|]+\|[^|]+\| (\d+) % \|$", manual))
    for entry in kinds:
        if entry.kind in ("reductions", "slices", "windows"):
            assert round(100 * entry.cycles) >= int(medians[entry.kind])
    by_planner = re.search(r"Median error of the cycles (\d+) %, largest \d+ %; of the bytes (\d+) %", manual)
    [convolutions] = [entry for entry in kinds if entry.kind == "convolutions"]
    memory = {category: entry.memory for entry in ACCURACY for category in entry.categories}
    assert round(100 * convolutions.cycles) >= int(by_planner[1])
    assert round(100 * memory["exchange_buffers"]) >= max(int(medians["exchange buffers"]), int(by_planner[2]))
    assert round(100 * memory["vertex_state"]) >= int(medians["vertex state"])


IN_PLACE = {
    "set": lambda x: lax.fori_loop(0, 5, lambda k, c: c.at[k].set(1.0), x),
    "two states": lambda x: lax.fori_loop(0, 5, lambda k, c: (c[0].at[k].set(1.0), c[1].at[k].add(c[0][k])), (x, x)),
    "nested": lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.fori_loop(0, 4, lambda k, d: d.at[k].multiply(2.0), c.at[i].set(0.0)), x
    ),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1].at[c[0]].set(1.0)), (0, x)),
    "scan": lambda x: lax.scan(lambda c, k: (c.at[k].set(2.0), c[k]), x, jnp.arange(6)),
    "untouched": lambda x: lax.fori_loop(0, 5, lambda k, c: (c[0], c[1] + c[0]), (x, x)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_loops_that_update_in_place(name):
    """Where the body leaves a carried value in its variable, nothing is copied, and no step says so."""
    data = jax_ipu.report(IN_PLACE[name], shape(64), target=TARGET).as_dict()
    steps = len(data["steps"]["node"])
    assert all(v["last_use_step"] is None or v["last_use_step"] < steps for v in data["variables"])
    assert all(o["tiles"] > 0 and o["compute_cycles"] > 0 for o in data["operations"])


def test_manager_makes_reports():
    manager = jax_ipu.GraphCoreManager(compile_only=True)
    with manager:
        report = manager.report(lambda x: jnp.tanh(x) * 2, shape(16, 4))
    assert report.fits and report.as_dict()["operations"]


@pytest.mark.parametrize("number", range(4))
def test_manual(number, capsys, monkeypatch, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.S)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[number], "manual.py", "exec"), {})
    printed = capsys.readouterr().out
    wanted = (r"jit_step on bow:1472", r"^<Supersteps of jit_dot", r"(?m)^.* -?\d+$", r"(?m)^1 True$")
    assert re.search(wanted[number], printed)


def test_examples_of_docstrings():
    assert doctest.testmod(reports).attempted and not doctest.testmod(reports).failed
