"""The schedule of a pipeline in reports: which loops are pipelines, and what each IPU does when."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu.pipelines.order import SCHEDULES
from jax_ipu.reports import schedule as schedules
from jax_ipu.reports.schedule import Event, schedule_data
from support.stage_loops import BATCHES, MESH, STAGES, equal_stages, on_stage, shape, stage_arguments

TRIPS = BATCHES + STAGES - 1


def schedule_of(function, arguments):
    data = jax_ipu.report(function, *arguments, target="ipu2:32").as_dict()
    if data["schedule"] is not None and data["schedule"]["executions"] == 1:
        assert abs(data["schedule"]["duration"] - data["estimate"]["cycles"]) <= 1
    return data["schedule"]


def events_of(line, *kinds):
    columns = zip(line["event"], line["begin"], line["duration"], strict=True)
    return [(line["names"][e], begin, begin + size) for e, begin, size in columns if line["kinds"][e] in kinds]


def batches_of(line, kind):
    """The micro-batches in order, each once."""
    return list(dict.fromkeys(int(name) for name, _, _ in events_of(line, kind)))


def check_rows(found):
    for row, line in zip(found["rows"], found["lines"], strict=True):
        every = events_of(line, "forward", "backward", "links", "other", "idle")
        assert all(a[2] == b[1] for a, b in pairwise(every)), "all of the time, once"
        assert (every[0][1], every[-1][2]) == (0, found["duration"])
        for key, kinds in (("work", ("forward", "backward")), ("links", ("links",)), ("idle", ("idle",))):
            assert row[key] == sum(end - begin for _, begin, end in events_of(line, *kinds))
        assert row["work"] + row["links"] + row["other"] + row["idle"] == found["duration"]
    assert found["idle"] == sum(row["idle"] for row in found["rows"]) / (found["duration"] * len(found["rows"]))


@pytest.mark.parametrize("ring", [True, False], ids=["ring", "chain"])
def test_trips_of_equal_stages(ring):
    stages = jax.shard_map(partial(on_stage, ring=ring), mesh=MESH, in_specs=(P("stage"), P()), out_specs=P("stage"))
    found = schedule_of(stages, stage_arguments())
    check_rows(found)
    assert (found["kind"], found["stages"], found["batches"]) == ("loop", STAGES, BATCHES)
    assert [(row["ipu"], row["stage"]) for row in found["rows"]] == [(i, i) for i in range(STAGES)]
    first = [events_of(line, "forward")[0][1] for line in found["lines"]]
    assert sorted(first) == first and len(set(first)) == STAGES, "each stage begins a trip after the one before"
    for line in found["lines"]:
        assert batches_of(line, "forward") == list(range(BATCHES))
        assert len(events_of(line, "links")) == TRIPS
    shares = [row["idle"] / (row["idle"] + row["work"]) for row in found["rows"]]
    np.testing.assert_allclose(shares, (STAGES - 1) / TRIPS, rtol=1e-3)


def test_gradients_go_the_other_way():
    found = schedule_of(jax.grad(lambda *args: (equal_stages(*args)[-1] ** 2).sum()), stage_arguments())
    check_rows(found)
    begins = {kind: [events_of(line, kind)[0][1] for line in found["lines"]] for kind in ("forward", "backward")}
    assert begins["forward"] == sorted(begins["forward"]) and begins["backward"] == sorted(begins["backward"])[::-1]
    assert min(begins["backward"]) > max(begins["forward"])
    for line in found["lines"]:
        assert batches_of(line, "backward") == list(range(BATCHES))


def test_data_parallel_stages():
    mesh = AbstractMesh((2, STAGES), ("data", "stage"), axis_types=(AxisType.Auto,) * 2)
    specs = (P("stage"), P(None, "data"))
    one = partial(on_stage, axes=("data", "stage"))
    stages = jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=P("stage", None, "data"))
    found = schedule_of(stages, stage_arguments(mesh, specs[1]))
    check_rows(found)
    assert [(row["ipu"], row["stage"]) for row in found["rows"]] == [(i, i % STAGES) for i in range(2 * STAGES)]


def test_a_pipeline_in_a_loop_is_drawn_once():
    def twice(weights, batches):
        return jax.lax.fori_loop(0, 3, lambda _, x: equal_stages(weights, x)[-1], batches)

    found = schedule_of(twice, stage_arguments())
    check_rows(found)
    assert found["executions"] == 3 and batches_of(found["lines"][0], "forward") == list(range(BATCHES))


@partial(jax.shard_map, mesh=MESH, in_specs=P("stage"), out_specs=P("stage"))
def heat(u):
    """Borders come from the neighbours, and at the ends of the rod from nobody."""
    number = jax.lax.axis_index("stage")

    def trip(_, u):
        left = jax.lax.ppermute(u[-1:], "stage", [(i, (i + 1) % STAGES) for i in range(STAGES)])
        right = jax.lax.ppermute(u[:1], "stage", [((i + 1) % STAGES, i) for i in range(STAGES)])
        left, right = jnp.where(number == 0, 0, left), jnp.where(number == STAGES - 1, 0, right)
        padded = jnp.concatenate([left, u, right])
        return u + 0.1 * (padded[:-2] - 2 * u + padded[2:])

    return jax.lax.fori_loop(0, 20, trip, u)


@partial(jax.shard_map, mesh=MESH, in_specs=(P("stage"), P()), out_specs=P("stage"))
def rotated(x, w):
    """All IPUs see all parts: nobody waits."""

    def trip(_, carry):
        x, total = carry
        return jax.lax.ppermute(x, "stage", [(i, (i + 1) % STAGES) for i in range(STAGES)]), total + x @ w

    zero = jax.lax.pcast(jnp.zeros((x.shape[0], w.shape[1])), "stage", to="varying")
    return jax.lax.fori_loop(0, STAGES, trip, (x, zero))[1]


def test_what_is_no_pipeline():
    rows = shape(MESH, P("stage"), 64, 16)
    assert schedule_of(heat, (rows,)) is None
    assert schedule_of(rotated, (rows, shape(MESH, P(), 16, 8))) is None
    assert jax_ipu.report(jnp.sin, jnp.ones(64), target="ipu2:4").as_dict()["schedule"] is None


def test_long_pipelines_have_one_event_for_all_micro_batches(monkeypatch):
    monkeypatch.setattr(schedules, "_MOST_EVENTS", 50)
    found = schedule_of(equal_stages, stage_arguments())
    check_rows(found)
    assert [events_of(line, "forward")[0][0] for line in found["lines"]] == [f"0 to {BATCHES - 1}"] * STAGES


def test_copies_take_the_time_that_work_leaves():
    events = [Event(0, "forward", 10, 20, "0"), Event(0, "links", 5, 25, ""), Event(0, "links", 15, 30, ""),
              Event(0, "forward", 40, 50, "1")]  # fmt: skip
    found = schedule_data("grouped", [(0, 0)], events, 2)
    check_rows(found)
    assert found["rows"] == [{"ipu": 0, "stage": 0, "work": 20, "links": 15, "other": 0, "idle": 15}]
    assert events_of(found["lines"][0], "links") == [("", 5, 10), ("", 20, 25), ("", 25, 30)]


def first(w, x):
    return jnp.tanh(x @ w)


def last(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


WEIGHTS = [jax.ShapeDtypeStruct((64, 64), jnp.float32)] * 3
ROWS = jax.ShapeDtypeStruct((48, 64), jnp.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_programs_of_a_pipeline(schedule, tmp_path):
    pipe = jax_ipu.pipeline([first, first, last], devices=["a", "b", "c"], gradient_accumulation=4, schedule=schedule)
    report = pipe.report(WEIGHTS, ROWS, ROWS, path=tmp_path / "pipe.json")
    found = jax_ipu.Report.load(tmp_path / "pipe.json").as_dict()["schedule"]
    assert found == report.as_dict()["schedule"]
    check_rows(found)
    timeline = pipe.timeline(WEIGHTS, ROWS, ROWS)
    assert (found["kind"], found["stages"], found["batches"]) == (schedule, 3, 4)
    clock = report.as_dict()["chip"]["clock_hz"]
    np.testing.assert_allclose(found["duration"], timeline.whole * clock, atol=1)
    waits = sum(row["idle"] + row["links"] for row in found["rows"]) / (3 * found["duration"])
    np.testing.assert_allclose(waits, timeline.idle, rtol=1e-3)
    for stage, line in enumerate(found["lines"]):
        assert batches_of(line, "backward") == list(range(4))
        assert batches_of(line, "forward") == ([] if stage == 2 else list(range(4)))


def test_the_program_of_a_pipelines_report():
    pipe = jax_ipu.pipeline([first, first, last], devices=["a", "b", "c"], gradient_accumulation=4)
    names = {
        (stage, backward): pipe.report(WEIGHTS, ROWS, ROWS, stage=stage, backward=backward).as_dict()["program"]["name"]
        for stage, backward in ((0, False), (1, True), (2, None))
    }
    assert names == {(0, False): "jit_run_forward", (1, True): "jit_run_backward", (2, None): "jit_run_last"}
    with pytest.raises(ValueError, match="no program of stage=2, backward=False; it has these: stage 0 forward"):
        pipe.report(WEIGHTS, ROWS, ROWS, stage=2, backward=False)


def test_ipus_of_replicated_stages():
    pipe = jax_ipu.pipeline([first, last], devices=[["a", "b"], ["c", "d"]], gradient_accumulation=4)
    found = pipe.report(WEIGHTS[:2], ROWS, ROWS).as_dict()["schedule"]
    check_rows(found)
    assert [(row["ipu"], row["stage"]) for row in found["rows"]] == [(0, 0), (1, 0), (2, 1), (3, 1)]
