"""Traces: what jax.profiler.trace and jax_ipu.trace write is read back and compared with the counters and estimates."""

import contextlib
import functools
import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
import jax_ipu.debug
from support.modes import array
from support.processes import output

devices = jax.devices("ipu")
ipu = devices[0]


class Traced:
    """The planes of a written profile, by name; a plane is its lines, by name; a line is its events."""

    def __init__(self, path):
        self.path = path
        data = jax.profiler.ProfileData.from_file(str(path))
        self.stats, self.planes = {}, {}
        for plane in data.planes:
            self.stats[plane.name] = dict(plane.stats)
            self.planes[plane.name] = {line.name: list(line.events) for line in plane.lines}

    def ipu(self, number=0):
        return self.planes.get(f"/device:CUSTOM:IPU:{number}", {})

    def clock(self, number=0):
        return self.stats[f"/device:CUSTOM:IPU:{number}"]["clock_rate"] * 1e3

    def cycles(self, line, number=0):
        """The cycles of a line's events, by their statistics; durations agree, but are read in nanoseconds."""
        events = self.ipu(number).get(line, ())
        cycles = sum(dict(e.stats)["cycles"] for e in events)
        seconds = sum(e.duration_ns for e in events) * 1e-9
        assert abs(seconds - cycles / self.clock(number)) <= 1e-9 * len(events)
        return cycles

    def named(self, line, name, number=0):
        return [e for e in self.ipu(number).get(line, ()) if e.name.split(".")[0].split("(")[0] == name]


@contextlib.contextmanager
def tracing(folder, **configuration):
    """Traces without the events of Python's functions; the list that it gives gets the profile at the end."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    if configuration:
        options.advanced_configuration = configuration
    own = tempfile.mkdtemp(dir=folder)  # profiles of one second have the same name
    found = []
    jax.profiler.start_trace(own, profiler_options=options)
    try:
        yield found
    finally:
        jax.profiler.stop_trace()
        found += [Traced(path) for path in sorted(Path(own).rglob("*.xplane.pb"))]


def counted(function, *arguments, device=ipu):
    """The cycles of a call, by the counters."""
    before = jax_ipu.counters(device).cycles
    jax.block_until_ready(function(*arguments))
    return jax_ipu.counters(device).cycles - before


def test_events_of_one_program(tmp_path):
    @functools.partial(jax.jit, backend="ipu")
    def layer(w, x):
        with jax.named_scope("dense"):
            return jnp.tanh(x @ w)

    w, x = array(256, 128), array(64, 256, seed=1)
    layer(w, x).block_until_ready()
    with tracing(tmp_path) as profiles:
        cycles = counted(layer, w, x)
    (profile,) = profiles
    for line in ("XLA Ops", "BSP phases"):
        assert profile.cycles(line) == cycles > 0
    (module,) = profile.named("XLA Modules", "jit_layer")
    stats = dict(module.stats)
    assert stats["cycles"] == cycles and stats["clock_domain"] == "simulated"
    waited = sum(e.duration_ns for e in profile.ipu()["Host link"] if e.start_ns >= module.start_ns)
    assert abs(module.duration_ns - 1e9 * cycles / profile.clock() - waited) <= 4
    (product,) = profile.named("XLA Ops", "dot_general")
    of_product = dict(product.stats)
    row = next(o for o in jax_ipu.debug.profile(layer, w, x) if o.operation == "dot_general")
    assert of_product["flops"] == row.flops == 2 * 256 * 128 * 64
    assert of_product["compute_cycles"] == row.compute_cycles and of_product["exchange_bytes"] == row.exchange_bytes
    assert of_product["bytes_accessed"] == 4 * (256 * 128 + 64 * 256 + 64 * 128)
    assert of_product["hlo_category"] == row.kind and row.kind.startswith("poplin::matMul")
    assert of_product["hlo_module"] == "jit_layer" and of_product["hlo_op"] == product.name
    assert of_product["program_id"] == stats["program_id"] and of_product["run_id"] == stats["run_id"]
    assert of_product["source"].startswith("test_profiler.py:") and "layer)" in of_product["source_stack"]
    assert of_product["tf_op"] == "jit(layer)/dense/dot_general:" and row.scope + ":" == of_product["tf_op"]
    phases = {event.name for event in profile.ipu()["BSP phases"]}
    assert phases == {"sync", "exchange", "compute"}
    on_plane = profile.stats["/device:CUSTOM:IPU:0"]
    target = ipu.client.devices()[0]
    assert on_plane["core_count"] == target.num_tiles and on_plane["clock_domain"] == "simulated"
    assert on_plane["peak_teraflops_per_second"] > 100 and on_plane["memory_size"] > 800e6


def test_every_superstep_has_its_phases(tmp_path):
    """Those of the report, also in a loop."""

    @functools.partial(jax.jit, backend="ipu")
    def step(w, x):
        return jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w) - x.mean(), x)

    w, x = array(256, 256), array(64, 256, seed=1)
    step(w, x).block_until_ready()
    with tracing(tmp_path) as profiles:
        step(w, x).block_until_ready()
    target = ipu.client.devices()[0]
    steps = jax_ipu.report(step, w, x, target=f"ipu2:{target.num_tiles}").as_dict()["steps"]
    operations = steps["operation"]
    executions = np.repeat(steps["executions"]["rle"][::2], steps["executions"]["rle"][1::2])
    assert len(operations) > len({*operations} - {None}) + 2  # some have several supersteps
    phases = sorted(profiles[0].ipu()["BSP phases"], key=lambda event: event.start_ns)
    of_phase = [dict(event.stats) for event in phases]
    for phase in ("compute", "exchange"):
        shown = [stats["cycles"] for event, stats in zip(phases, of_phase, strict=True) if event.name == phase]
        columns = zip(steps[phase], executions, strict=True)
        assert sorted(shown) == sorted(cycles for cycles, times in columns for _ in range(times) if cycles > 0)
    numbers = [stats["superstep"] for stats in of_phase]
    assert max(numbers) > 0 and all(b - a <= 1 for a, b in itertools.pairwise(numbers))


def test_events_do_not_overlap_and_are_within_the_program(tmp_path):
    step = jax.jit(lambda x: jnp.sort(jnp.cumsum(x @ x.T, 1)), backend="ipu")
    with tracing(tmp_path) as profiles:
        for i in range(3):
            step(array(32, 16, seed=i)).block_until_ready()
    lines = profiles[0].ipu()
    assert len(lines["XLA Modules"]) == 3
    for name in ("XLA Modules", "XLA Ops", "BSP phases", "Host link"):
        events = sorted((e.start_ns, e.duration_ns) for e in lines[name])
        for (begin, duration), (following, _) in itertools.pairwise(events):
            assert begin + duration <= following + 1
    for event in lines["XLA Ops"]:
        assert any(
            m.start_ns - 1 <= event.start_ns and event.start_ns + event.duration_ns <= m.start_ns + m.duration_ns + 1
            for m in lines["XLA Modules"]
        )


def test_loops_have_the_trips_that_were_made(tmp_path):
    def nested(n, x):
        def inner(x):
            return jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 1.5), (n, x))[1]

        return jax.lax.fori_loop(0, 5, lambda i, x: inner(x) + i, x)

    f = jax.jit(nested, backend="ipu")
    x = array(64)
    f(0, x).block_until_ready()
    for trips in (0, 1, 7, 3000):
        with tracing(tmp_path) as profiles:
            cycles = counted(f, trips, x)
        assert profiles[0].cycles("XLA Ops") == cycles > 0
        if trips == 0:
            continue
        loops = [(e.start_ns, -e.duration_ns) for e in profiles[0].ipu()["Loops"]]
        assert loops == sorted(loops)  # an outer loop comes before those in it
        made = sum(dict(e.stats)["trips"] for e in profiles[0].ipu()["Loops"])
        assert made >= 5 * trips


def test_four_ipus(tmp_path):
    mesh = Mesh(np.array(devices[:4]), ("d",))
    sharded = NamedSharding(mesh, P("d"))

    @jax.jit
    def step(x):
        return jnp.tanh(x) + jnp.sum(x)

    x = jax.device_put(array(64, 8), sharded)
    step(x).block_until_ready()
    before = [jax_ipu.counters(d).cycles for d in devices[:4]]
    with tracing(tmp_path) as profiles:
        for _ in range(2):
            step(x).block_until_ready()
    (profile,) = profiles
    for number, start in enumerate(before):
        assert profile.cycles("XLA Ops", number) == jax_ipu.counters(devices[number]).cycles - start > 0
        modules = profile.named("XLA Modules", "jit_step", number)
        first = profile.named("XLA Modules", "jit_step", 0)
        # A launch is simultaneous, and has one number.
        assert [e.start_ns for e in modules] == [e.start_ns for e in first]
        assert [dict(e.stats)["run_id"] for e in modules] == [dict(e.stats)["run_id"] for e in first]
        links = profile.ipu(number)["IPU-Links"]
        assert len(links) >= 2 and all(dict(e.stats)["bytes_transferred"] > 0 for e in links)
    assert "/device:CUSTOM:IPU:4" not in profile.planes


def test_copies_between_ipus(tmp_path):
    x = jax.jit(lambda x: x + 1, backend="ipu", donate_argnums=0)(jnp.zeros(4096, jnp.float32, device=ipu))
    with tracing(tmp_path) as profiles:
        before = [jax_ipu.counters(d).cycles for d in devices[:2]]
        np.asarray(jax.device_put(x, devices[1]))
        moved = [jax_ipu.counters(d).cycles - b for d, b in zip(devices[:2], before, strict=True)]
    for number, name in enumerate(("copy to IPU", "copy from IPU")):
        (copy,) = profiles[0].ipu(number)["IPU-Links"]
        assert copy.name == name and dict(copy.stats)["bytes_transferred"] == 4 * 4096
        assert profiles[0].cycles("IPU-Links", number) == moved[number] > 0


def test_training_steps_with_donated_state(tmp_path):
    """The state crosses the host link before the first step, and after the last when it is read."""

    @functools.partial(jax.jit, backend="ipu", donate_argnums=0)
    def step(params, x, labels):
        def loss(params):
            hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
            logits = jax.nn.log_softmax(hidden @ params["w2"])
            return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))

        value, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    params = {"w1": array(784, 32), "b1": array(32), "w2": array(32, 10)}
    size = sum(p.nbytes for p in params.values())
    x, labels = array(16, 784), np.arange(16) % 10
    params, _ = jax.block_until_ready(step(params, x, labels))
    before = jax_ipu.counters(ipu)
    with tracing(tmp_path) as profiles:
        for _ in range(4):
            params, value = step(params, x, labels)
        assert np.isfinite(np.asarray(value))
        jax.tree.map(np.asarray, params)
    after = jax_ipu.counters(ipu)
    (profile,) = profiles
    assert profile.cycles("XLA Ops") == after.cycles - before.cycles > 0
    assert len(profile.named("XLA Modules", "jit_step")) == after.runs - before.runs == 4
    moved = {"from": 0, "to": 0}
    for event in profile.ipu()["Host link"]:
        moved[event.name.split()[0]] += dict(event.stats)["bytes_transferred"]
    assert moved["from"] == after.h2d_bytes - before.h2d_bytes
    assert moved["to"] == after.d2h_bytes - before.d2h_bytes >= size
    assert any("transpose(jvp" in str(dict(e.stats).get("tf_op")) for e in profile.ipu()["XLA Ops"])


def test_a_run_that_fails(tmp_path):
    """It has an event without operations; the runs before and after it are whole."""

    def fail(x):
        if x[0] > 1:
            raise RuntimeError("too large")
        return x

    f = jax.jit(lambda x: jax.pure_callback(fail, x, x) * 2, backend="ipu")
    good = jax.jit(lambda x: x * 3, backend="ipu")
    x = array(8) * 0
    with tracing(tmp_path) as profiles:
        cycles = counted(good, x) + counted(f, x)
        with pytest.raises(Exception, match="too large"):
            f(x + 2)
        cycles += counted(good, x)
    (profile,) = profiles
    runs = [dict(e.stats) for e in profile.ipu()["XLA Modules"]]
    (failed,) = [stats for stats in runs if "error" in stats]
    assert "too large" in failed["error"]
    assert sum(stats["cycles"] for stats in runs) >= cycles
    assert profile.cycles("XLA Ops") == sum(stats["cycles"] for stats in runs)
    assert any(e.name.startswith("host call: callback") for e in profile.ipu()["Host link"])


def test_tracing_again(tmp_path):
    """Each profile has the runs of its own time."""
    f = jax.jit(lambda x: x + 1, backend="ipu")
    x = array(16)
    f(x).block_until_ready()
    for runs in (2, 0, 3):
        with tracing(tmp_path) as profiles:
            for _ in range(runs):
                f(x).block_until_ready()
        f(x).block_until_ready()
        assert len(profiles[0].ipu().get("XLA Modules", ())) == runs


def test_tracing_while_other_threads_run(tmp_path):
    f = jax.jit(lambda x: jnp.tanh(x @ x), backend="ipu")
    x = jax.device_put(array(32, 32), ipu)
    f(x)
    ended = threading.Event()

    def work():
        # Without the pause there are more runs than a profile has the steps of.
        while not ended.wait(0.002):
            f(x).block_until_ready()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(5):
            with tracing(tmp_path) as profiles, jax_ipu.trace(tmp_path / f"{i}.json"):
                f(x).block_until_ready()
            (profile,) = profiles
            runs = profile.ipu()["XLA Modules"]
            assert profile.cycles("XLA Ops") == sum(dict(e.stats)["cycles"] for e in runs)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_stages_of_the_compiler_are_on_the_plane_of_the_host(tmp_path):
    with tracing(tmp_path) as profiles:
        jax.jit(lambda x: jnp.tanh(x) * 17, backend="ipu")(array(16))
    names = {e.name for events in profiles[0].planes["/host:CPU"].values() for e in events}
    for stage in ("parse", "partition", "legalise", "passes", "map", "lower", "build"):
        assert f"ipu compiler: {stage}" in names


def test_option_that_is_not_valid(tmp_path):
    """The rest of the profile is taken."""
    with tracing(tmp_path, ipu_trace_planes="gpu") as profiles:
        jax.jit(lambda x: x + 1, backend="ipu")(array(4)).block_until_ready()
    assert profiles[0].ipu() == {} and "/host:CPU" in profiles[0].planes


def as_tpu(folder):
    f = jax.jit(lambda w, x: jnp.tanh(x @ w), backend="ipu")
    w, x = array(256, 128), array(64, 256)
    f(w, x).block_until_ready()
    with tracing(folder, ipu_trace_planes="tpu") as profiles:
        for _ in range(3):
            f(w, x).block_until_ready()
    return profiles[0]


def test_planes_that_are_named_tpu(tmp_path):
    profile = as_tpu(tmp_path)
    assert profile.ipu() == {} and set(profile.planes["/device:TPU:0"]) >= {"Steps", "XLA Modules", "XLA Ops"}
    assert "Graphcore" in profile.stats["/device:TPU:0"]["device_type_string"]


NAMED = """
import glob, jax
with jax.profiler.trace("."):
    jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).block_until_ready()
(path,) = glob.glob("**/*.xplane.pb", recursive=True)
(plane,) = [plane for plane in jax.profiler.ProfileData.from_file(path).planes if "device" in plane.name]
print(plane.name, "Host link" in [line.name for line in plane.lines])
"""


def test_planes_that_the_environment_names(tmp_path):
    environment = {"JAX_PLATFORMS": "ipu,cpu", "JAX_IPU_TRACE_PLANES": "tpu"}
    assert output(NAMED, tmp_path, **environment).split() == ["/device:TPU:0", "True"]


def test_synthetic_data_does_not_cross_the_host_link(tmp_path):
    environment = {"JAX_PLATFORMS": "ipu,cpu", "JAX_IPU_SYNTHETIC_DATA": "1"}
    assert output(NAMED, tmp_path, **environment).split() == ["/device:CUSTOM:IPU:0", "False"]


def test_xprof(tmp_path):
    """The tools of XProf read a profile; those for TPUs if the planes are named so."""
    profile = as_tpu(tmp_path)
    script = Path(__file__).parents[1] / "support" / "xprof_tools.py"
    result = subprocess.run([sys.executable, script, profile.path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    tools = json.loads(result.stdout.splitlines()[-1])
    assert "dot_general" in tools["op_profile"] and "poplin::matMul" in tools["hlo_stats"]
    assert "test_profiler.py" in tools["hlo_stats"] and "Graphcore" in tools["roofline_model"]
    assert "BSP phases" in tools["trace_viewer@"]
    assert "No step time measured" not in tools["overview_page"]


def test_trace_as_json(tmp_path):
    f = jax.jit(lambda w, x: jnp.tanh(x @ w), backend="ipu")
    w, x = array(64, 32), array(16, 64)
    f(w, x).block_until_ready()
    for name in ("trace.json", "trace.json.gz"):
        before = jax_ipu.counters(ipu).cycles
        with jax_ipu.trace(tmp_path / name):
            f(w, x)  # not awaited
        cycles = jax_ipu.counters(ipu).cycles - before
        with gzip.open(tmp_path / name) if name.endswith(".gz") else open(tmp_path / name) as file:
            events = json.load(file)["traceEvents"]
        threads = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        assert {"XLA Modules", "XLA Ops", "BSP phases", "Host link"} <= set(threads.values())
        (process,) = [e["args"] for e in events if e["name"] == "process_name"]
        assert process["name"] == "/device:CUSTOM:IPU:0" and process["clock_domain"] == "simulated"
        operations = [e for e in events if e["ph"] == "X" and threads[e["tid"]] == "XLA Ops"]
        assert sum(e["args"]["cycles"] for e in operations) == cycles
        seconds = sum(e["dur"] for e in operations) * 1e-6
        np.testing.assert_allclose(seconds * process["clock_rate"] * 1e3, cycles, rtol=1e-6)
        assert any(e["args"].get("flops") == 2 * 64 * 32 * 16 for e in operations)


def test_trace_as_xspace_and_after_an_error(tmp_path):
    f = jax.jit(lambda x: x * 5, backend="ipu")
    with pytest.raises(KeyError), jax_ipu.trace(tmp_path / "trace.xplane.pb"):
        f(array(4))
        raise KeyError
    assert len(Traced(tmp_path / "trace.xplane.pb").ipu()["XLA Modules"]) == 1


def test_trace_refuses_other_names(tmp_path):
    with pytest.raises(ValueError, match=r"\.json"), jax_ipu.trace(tmp_path / "trace.txt"):
        raise AssertionError("the block does not run")
    with pytest.raises(OSError, match="nowhere"), jax_ipu.trace(tmp_path / "nowhere" / "trace.json"):
        raise AssertionError("the block does not run")


def test_names_of_operations_in_called_functions():
    @jax.jit
    def layer(x):
        with jax.named_scope("dense"):
            return jnp.cumsum(x)

    def model(x):
        with jax.named_scope("block"):
            return layer(layer(x) * 2)

    scopes = {o.scope for o in jax_ipu.debug.profile(model, array(64))}
    assert {"jit(model)/block/jit(layer)/dense/cumsum", "jit(model)/block/mul"} & scopes, scopes
    assert all(scope.startswith("jit(model)/block/") for scope in scopes), scopes


def test_profile_and_tile_map_as_data_and_html(capsys):
    def function(w, x):
        return jnp.tanh(x @ w)

    w, x = array(64, 32), array(16, 64)
    profile = jax_ipu.debug.profile(function, w, x)
    values = json.loads(json.dumps(profile.as_dict()))
    assert values["name"] == "jit_function" and values["cycles"] == sum(o["cycles"] for o in values["operations"])
    assert [o["name"] for o in values["operations"]] == [o.name for o in profile]
    assert any(o["scope"].endswith("dot_general") for o in values["operations"])
    placements = jax_ipu.debug.tile_map(function, w, x)
    shown = json.loads(json.dumps(placements.as_dict()))["placements"]
    assert [p["name"] for p in shown] == [p.name for p in placements] and shown[0]["shape"] == [64, 32]
    for result in (profile, placements):
        assert isinstance(result, list) and "<table>" in result._repr_html_()
        for cell in result.table()[1][:2]:
            assert cell.split()[0] in result._repr_html_()
    assert "dot_general" in capsys.readouterr().out
    with open("/dev/null", "w") as nowhere:
        jax_ipu.debug.profile(function, w, x, file=nowhere)
        jax_ipu.debug.tile_map(function, w, x, file=nowhere)
    assert capsys.readouterr().out == ""
