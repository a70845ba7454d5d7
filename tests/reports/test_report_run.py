"""A run beside a report: what a profile of JAX says of the host, and what the model says of the chip, on one axis."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.command_line import main
from jax_ipu.reports import runs

ipu = jax.devices("ipu")[0]


def step(w, x):
    y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct((8, 16), jnp.float32), x @ w)
    return w - x.T @ y


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with a profile of two calls, the report of their program, and what the counters say."""
    folder = tmp_path_factory.mktemp("profile")
    f = jax.jit(step, donate_argnums=0)
    w, x = jax.device_put(jnp.ones((16, 16)), ipu), jax.device_put(jnp.ones((8, 16)), ipu)
    report = jax_ipu.report(f, w, x)
    before = jax_ipu.counters(ipu)
    with jax.profiler.trace(str(folder)):
        for _ in range(2):
            w = f(w, x)
        w.block_until_ready()
    after = jax_ipu.counters(ipu)
    return folder, report, after.cycles - before.cycles


def test_a_run_has_what_the_counters_count(recorded):
    folder, report, cycles = recorded
    found = report.with_profile(folder)
    assert report.as_dict()["run"] is None
    run = found.as_dict()["run"]
    assert [one["cycles"] for one in run["runs"]] == [report.estimate.cycles] * 2
    assert cycles == 2 * report.estimate.cycles
    clock = report.as_dict()["chip"]["clock_hz"]
    for one in run["runs"]:
        # On the chip it takes the cycles and the host link; it begins no earlier than the host begins it.
        assert one["duration"] >= math.floor(one["cycles"] / clock * 1e9)
        assert one["begin"] >= one["host_begin"] >= 0
        assert one["host_begin"] + one["host_duration"] <= run["duration"]
    assert run["runs"][1]["begin"] >= run["runs"][0]["begin"] + run["runs"][0]["duration"]


def test_lines_of_a_run(recorded):
    folder, report, _ = recorded
    run = report.with_profile(next(folder.rglob("*.xplane.pb"))).as_dict()["run"]
    kinds: dict[str, set[str]] = {}
    for line in run["lines"]:
        kinds.setdefault(line["clock"], set()).update(line["kinds"])
        assert len(line["event"]) == len(line["begin"]) == len(line["duration"]) > 0
        assert len(line["names"]) == len(line["kinds"]) and max(line["event"]) < len(line["names"])
        pairs = list(zip(line["begin"], (-d for d in line["duration"]), strict=True))
        assert pairs == sorted(pairs)
        assert 0 <= line["begin"][0] and line["begin"][-1] + line["duration"][-1] <= run["duration"]
    assert {"dispatch", "callback", "model"} <= kinds["measured"]
    assert kinds["modelled"] == {"program", "operation", "compute", "exchange", "sync", "host link"}
    callbacks = [line for line in run["lines"] if "callback" in line["kinds"]]
    assert [name for line in callbacks for name in line["names"] if "callback" in name] == [
        "ipu callback test_report_run.py:18"
    ]
    programs = next(line for line in run["lines"] if line["name"] == "Programs")
    assert programs["names"] == ["jit_step"]


def test_what_is_left_out_of_a_long_profile(recorded, monkeypatch):
    folder, report, _ = recorded
    whole = report.with_profile(folder).as_dict()["run"]
    monkeypatch.setattr(runs, "_MOST_EVENTS", 25)
    short = report.with_profile(folder).as_dict()["run"]
    events = sum(len(line["event"]) for line in whole["lines"])
    assert whole["left_out"] == 0 and short["left_out"] == events - 25
    assert sum(len(line["event"]) for line in short["lines"]) == 25
    assert short["runs"] == whole["runs"] and short["duration"] == whole["duration"]
    assert not any(line["kinds"] == ["python"] for line in short["lines"])


def test_profiles_that_are_refused(recorded, tmp_path):
    folder, report, _ = recorded
    other = jax_ipu.report(jnp.sin, jnp.ones(4))
    with pytest.raises(ValueError, match=r"no run of jit_sin: it has runs of .*jit_step"):
        other.with_profile(folder)
    with pytest.raises(FileNotFoundError, match="no file"):
        report.with_profile(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        report.with_profile(tmp_path / "x.xplane.pb")
    (tmp_path / "bad.xplane.pb").write_bytes(b"no profile")
    with pytest.raises(ValueError, match=r"is no profile|nothing of the host"):
        report.with_profile(tmp_path / "bad.xplane.pb")
    # A trace of this package has the chip only.
    with jax_ipu.trace(tmp_path / "chip.xplane.pb"):
        jnp.sin(jax.device_put(jnp.ones(4), ipu)).block_until_ready()
    with pytest.raises(ValueError, match="nothing of the host"):
        report.with_profile(tmp_path / "chip.xplane.pb")


def test_the_command_adds_a_profile(recorded, tmp_path, capsys):
    folder, report, _ = recorded
    saved = report.save(tmp_path / "step.json")
    assert main(["report", str(saved), "--profile", str(folder), "-o", str(tmp_path / "run.json")]) == 0
    assert len(jax_ipu.Report.load(tmp_path / "run.json").as_dict()["run"]["runs"]) == 2
    assert main(["report", str(saved), "--profile", str(tmp_path)]) == 2
    assert "--profile: " in capsys.readouterr().err
