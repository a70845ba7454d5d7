"""Runs the examples as a user does."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import output

EXAMPLES = Path(__file__).parents[2] / "examples"
MNIST = EXAMPLES / "mnist"


def run(script, *arguments, folder=MNIST, **environment):
    command = [sys.executable, folder / script, *arguments]
    variables = {**os.environ, **environment}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def number(pattern, text):
    return float(re.search(pattern, text).group(1).replace(",", ""))


def test_classifier_learns_the_digits_with_resident_weights():
    output = run("mnist_classifier.py")
    assert "1,797 handwritten digits" in output
    assert number(r"Test accuracy: ([\d.]+)%", output) >= 96
    # A batch of 128 images and one-hot labels in, one loss out.
    assert number(r"steady state: ([\d,]+) bytes in", output) == 128 * (784 + 10) * 4
    assert number(r"bytes in, ([\d,]+) bytes out", output) == 4
    assert number(r"([\d,]+) cycles per step", output) > 0
    # Weights and momentum of 784-1024-1024-10.
    assert number(r"SRAM: ([\d,]+) bytes", output) > 2 * 4 * (784 * 1024 + 1024 * 1024 + 1024 * 10)


def test_cnn_learns():
    output = run("mnist_cnn.py", "--epochs", "6")
    assert number(r"Test accuracy: ([\d.]+)%", output) >= 80
    assert number(r"bytes in, ([\d,]+) bytes out", output) == 4


def test_four_ipus_train_like_one():
    one, four = (
        run("mnist_multi_ipu.py", "--epochs", "2", JAX_PLATFORMS="ipu,cpu", JAX_IPU_DEVICE_COUNT=count)
        for count in ("1", "4")
    )
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", output)] for output in (one, four)]
    assert len(losses[0]) == 2 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    # Each IPU receives a quarter of the images and labels, and one loss returns; all other data goes over the links.
    per_ipu = re.findall(r"ipu:\d per step: ([\d,]+) bytes in, ([\d,]+) out", four)
    assert per_ipu == [(f"{32 * (784 + 10) * 4:,}", "4")] * 4
    weights = 784 * 1024 + 1024 * 1024 + 1024 * 10
    assert number(r"from other IPUs: ([\d,]+) bytes", four) > 2 * 3 / 4 * 4 * weights
    assert number(r"from other IPUs: ([\d,]+) bytes", one) == 0
    # A quarter of the batch on each of four IPUs takes more than a quarter of the time, because the links are slow.
    cycles = [number(r"out; ([\d,]+) cycles", output) for output in (one, four)]
    assert cycles[0] > 50_000 and cycles[1] > cycles[0] / 4


def test_gpt_learns_on_four_ipus_and_writes_with_a_cache():
    sizes = ("--steps", "60", "--width", "64", "--layers", "2", "--positions", "32", "--letters", "20")
    platforms = {"JAX_PLATFORMS": "ipu,cpu", "JAX_IPU_DEVICE_COUNT": "4"}
    output = run("train_gpt.py", *sizes, "--prompt", "The ", folder=EXAMPLES / "gpt", **platforms)
    first, last = (number(rf"{which} ([\d.]+)", output) for which in ("First loss", "last"))
    assert first > 4 and last < 0.75 * first
    assert number(r"not seen: ([\d.]+)", output) < 0.75 * first
    # Each IPU receives a quarter of 32 windows of 33 letters, and one loss returns.
    per_step = re.findall(r"ipu:\d per step: ([\d,]+) bytes in, ([\d,]+) out", output)
    assert per_step == [(f"{8 * 33 * 4:,}", "4")] * 4
    # One letter returns; the cache does not.
    assert number(r"per letter: [\d,]+ bytes in, ([\d,]+) out", output) == 4
    cycles = [number(rf"per {what}: .*; ([\d,]+) cycles", output) for what in ("step", "letter")]
    assert cycles[0] > cycles[1] > 1_000
    written = output[output.index("\n", output.index("per letter")) + 1 :].removesuffix("\n")
    assert len(written) == 20 and written.startswith("The ")


def test_ten_lines_of_the_readme():
    readme = (MNIST.parent.parent / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.S).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    printed = output(code)
    losses = [float(line) for line in printed.splitlines()[:-1]]
    assert all(after < before for before, after in itertools.pairwise(losses)) and losses[-1] < 0.1 * losses[0]
    on_cpu = output(code.replace('backend="ipu"', 'backend="cpu"')).splitlines()[:-1]
    assert losses == pytest.approx([float(line) for line in on_cpu], rel=1e-3)
    # The weights are sent once and stay. Each step receives only a batch and returns a loss.
    assert number(r"h2d_bytes=(\d+)", printed) <= 4 * 784 * (10 + 3 * 128)
    assert number(r"d2h_bytes=(\d+)", printed) == 3 * 4


TILES = EXAMPLES / "tiles"


def test_hello_poplar():
    lines = run("hello_poplar.py", folder=TILES).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["ipu", "cpu"]
    assert all(line.endswith("= [0.5 1.5 2.5 3.5]") for line in lines)


def test_vertex_of_ones_own():
    output = run("demo.py", folder=TILES)
    # 12 cycles for each of 16 elements on one of six threads.
    assert number(r"([\d,]+) cycles for 3 vertices", output) == 6 * 12 * 16
    assert "the gradient, on ipu: [0.    1.125 0.    3.375]" in output


@pytest.mark.parametrize("script", ["qr.py", "jacobi.py"])
def test_decompositions_on_tiles(script):
    output = run(script, "8", folder=TILES)
    errors = [float(e) for e in re.findall(r"\| = ([\d.e-]+)", output)]
    assert len(errors) == 2 and max(errors) < 2e-5
    assert number(r"tiles: ([\d,]+) cycles", output) > 10_000
