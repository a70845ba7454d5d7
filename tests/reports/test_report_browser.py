"""The report in a real browser: report/test/browser.mjs clicks through it and compares figures with the JSON."""

import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.report_programs import cnn, loops, mnist_arguments, mnist_step, shape
from support.stage_loops import equal_stages, stage_arguments

REPORT = Path(__file__).parents[2] / "report"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node"),
    pytest.mark.skipif(not (REPORT / "node_modules").exists(), reason='needs "npm ci" in report/'),
]
needs_chromium = pytest.mark.skipif(not any(map(shutil.which, CHROMIUM)), reason="needs Chromium")


def run(*command):
    done = subprocess.run(command, cwd=REPORT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


IN_HOST_MEMORY = SingleDeviceSharding(jax.devices("ipu")[0], memory_kind="pinned_host")


def layers(weights, x):
    return jax.lax.scan(lambda h, w: (jnp.tanh(h @ jax.device_put(w, jax.memory.Space.Device)), None), x, weights)[0]


MESH = AbstractMesh((4,), ("ipus",), axis_types=(AxisType.Auto,))
# Name, function, arguments, target.
PROGRAMS = (
    ("MNIST step", mnist_step, mnist_arguments(32), "bow"),
    ("CNN", cnn, ([shape(3, 3, 4, 8), shape(3, 3, 8, 16)], shape(2, 16, 16, 4)), "bow:64"),
    ("loops", loops, (shape(8, 32), shape(dtype=jnp.int32)), "ipu2:32"),
    ("four IPUs", lambda x: x - x.mean(0), (shape(64, 48, sharding=NamedSharding(MESH, P("ipus"))),), "ipu2:32"),
    ("equal stages", equal_stages, stage_arguments(), "ipu2:32"),
    ("gradients of equal stages", jax.grad(lambda *args: equal_stages(*args).sum()), stage_arguments(), "ipu2:32"),
    ("host memory", layers, (shape(6, 64, 64, sharding=IN_HOST_MEMORY), shape(32, 64)), "ipu2:32"),
    ("too large for its buffers", jnp.dot, (shape(1290, 1290), shape(1290, 1290)), "ipu2:32"),
    ("too large", lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x)), (shape(1500, 1000),), "ipu2:32"),
    ("much too large", lambda x: x @ x.T, (shape(90000, 90000),), "ipu2:32"),
)


def test_bundle_is_what_the_sources_build():
    run("npm", "run", "check")


@needs_chromium
def test_synthetic_reports():
    assert "ok keyboard and roles" in run("node", "test/browser.mjs")


EVERY_TIME = ("MNIST step", "too large")


@needs_chromium
@pytest.mark.parametrize(
    "names", [EVERY_TIME, [n for n, *_ in PROGRAMS if n not in EVERY_TIME]], ids=["short", "others"]
)
def test_real_reports(names, tmp_path):
    cases = []
    reports = {
        name: jax_ipu.report(function, *arguments, target=target)
        for name, function, arguments, target in PROGRAMS
        if name in names
    }
    for number, (name, report) in enumerate(reports.items()):
        files = [report.save(tmp_path / f"{number}.{kind}") for kind in ("html", "json")]
        cases.append(f"{name}={','.join(map(str, files))}")
    assert "ok" in run("node", "test/model.mjs", *map(str, sorted(tmp_path.glob("[0-9]*.json"))))
    printed = run("node", "test/browser.mjs", "--only", *cases)
    assert printed.count("ok ") == len(cases)


@needs_chromium
def test_report_of_a_pipeline(tmp_path):
    stages = (lambda w, x: x @ w, lambda w, x: jnp.mean(x @ w))
    pipe = jax_ipu.pipeline(stages, devices=["IPU 0", "IPU 1"], gradient_accumulation=4)
    report = pipe.report([shape(64, 64)] * 2, shape(32, 64))
    files = [report.save(tmp_path / f"pipeline.{kind}") for kind in ("html", "json")]
    assert "ok" in run("node", "test/model.mjs", str(files[1]))
    assert run("node", "test/browser.mjs", "--only", f"pipeline={files[0]},{files[1]}").count("ok ") == 1


@needs_chromium
@pytest.mark.parametrize("names", [("MNIST step", "too large for its buffers"), ("CNN", "loops")], ids=lambda n: n[0])
def test_comparisons(names, tmp_path):
    programs = {name: (function, arguments, target) for name, function, arguments, target in PROGRAMS}
    first, second = (jax_ipu.report(f, *arguments, target=target) for f, arguments, target in map(programs.get, names))
    page = first.compare(second).save(tmp_path / "both.html")
    files = [page, first.save(tmp_path / "first.json"), second.save(tmp_path / "second.json")]
    printed = run("node", "test/browser.mjs", "--only", f"{names[0]}={','.join(map(str, files))}")
    assert printed.count("ok ") == 1
