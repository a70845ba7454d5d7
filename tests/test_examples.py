"""The two examples as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

MNIST = Path(__file__).parent.parent / "examples" / "mnist"


def run(script, *arguments):
    result = subprocess.run([sys.executable, MNIST / script, *arguments], capture_output=True, text=True, timeout=900)
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


def test_ten_lines_of_the_readme():
    readme = (MNIST.parent.parent / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.S).group(1)
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "Counters(h2d_bytes=" in result.stdout
