"""The programs of examples/garden: their values on the IPU model and on the CPU, their options, and their table."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "garden"
sys.path.insert(0, str(FOLDER))

import garden  # noqa: E402

PROGRAMS = garden.programs()
# The reduced GPT-2 has one context length, so its two trainings would be the same.
CASES = [(name, task) for name, found in PROGRAMS.items() for task in found.tasks if task != "training 1024"]


def program(name):
    found = PROGRAMS[name]
    if missing := found.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    return found


def results(name, task, platform, ipus, precision, steps=2, small=True):
    found = program(name)
    options = garden.Options(found.small_batch * ipus, ipus, small, precision)
    return garden.run(found, task, options, jax.devices(platform)[:ipus], steps)


def compare(name, task, ipus, precision, tolerance, **options):
    got, expected = (results(name, task, platform, ipus, precision, **options) for platform in ("ipu", "cpu"))
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and np.isfinite(other).all()
        np.testing.assert_allclose(one, other, atol=tolerance * np.abs(other).max(), rtol=tolerance)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_two_steps_are_those_of_the_cpu(name, task):
    compare(name, task, PROGRAMS[name].ipus[0], "float32", 2e-3 if name == "nuts" else 1e-4)


@pytest.mark.parametrize(("name", "task"), [("resnet50", "training"), ("gpt2", "decoding")])
def test_a_step_in_half_precision_is_that_of_the_cpu(name, task):
    compare(name, task, 1, "float16", 2e-2, steps=1)


@pytest.mark.parametrize(("name", "task"), [("gpt2", "decoding"), ("heat", "2d"), ("nbody", "leapfrog")])
def test_four_ipus_compute_what_four_cpus_do(name, task):
    compare(name, task, 4, "float32", 1e-3)


def run(name, *arguments):
    command = [sys.executable, FOLDER / f"{name}.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_program_prints_losses_counters_and_throughput(tmp_path):
    done = run("vae", "--small", "--steps", "2", "--target", "bow", "--report", str(tmp_path / "vae.json"))
    assert done.returncode == 0, done.stderr
    assert "variational auto-encoder, training, float32, 8 images, 1 IPU\n" in done.stdout
    assert "step 2: " in done.stdout and " cycles\n" in done.stdout
    assert "Modelled on bow, without the host link: " in done.stdout and " images a second" in done.stdout
    assert json.loads((tmp_path / "vae.json").read_text())


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("resnet50", ["--batch", "6", "--ipus", "4"], "a batch of 6 does not divide into 4 parts"),
        ("resnet50", ["--ipus", "3"], "--ipus 3 is not possible: give one of 1, 2, 4, 8, 16"),
        ("heat", ["--ipus", "32"], "--ipus 32 is not possible: give one of 1, 2, 4, 8, 16"),
        ("vae", ["--target", "tpu"], "--target tpu is not a chip that the model knows"),
        ("vit", ["--task", "sleeping"], "--task sleeping is not possible: give one of training, inference"),
        ("vae", ["--precision", "float8"], "--precision float8 is not possible: give one of float32"),
        ("vae", ["--backend", "gpu"], "--backend gpu is not possible: give one of ipu, cpu"),
        ("vae", ["--steps", "0"], "--steps 0 is not possible: give at least 1"),
        ("bert_large", ["--batch", "4", "--ipus", "16", "--small"], "a batch of 4 does not divide into 16 parts"),
    ],
)
def test_wrong_options_end_with_one_sentence(name, arguments, sentence, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        garden.main(PROGRAMS[name], "")
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_the_table_has_a_row_for_each_program():
    rows = json.loads((ROOT / "docs" / "model_garden.json").read_text()).values()
    assert {row["program"] for row in rows} == set(PROGRAMS)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROGRAMS)
def test_full_programs_run_with_few_rows(name):
    found = program(name)
    task = next(iter(found.tasks))
    for result in results(name, task, "ipu", found.ipus[0], found.precisions[0], small=False):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result))
