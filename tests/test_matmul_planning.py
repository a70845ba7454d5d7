"""Planning a large matrix product takes little host memory, also where the IPU's memory does not suffice."""

import subprocess
import sys

import pytest

# In a process of its own: the peak of the resident set never falls.
PROGRAM = """
import resource, sys
import jax, numpy as np

jax.devices("ipu")
n = int(sys.argv[1])
x = jax.ShapeDtypeStruct((n, n), np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    jax.jit(lambda a, b: a @ b, backend="ipu").lower(x, x).compile()
    print("compiled")
except Exception as error:
    print(error)
print("KiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("size, outcome", [(4096, "compiled"), (8192, "RESOURCE_EXHAUSTED"), (16384, "dot_general at")])
def test_large_products_take_little_host_memory(size, outcome):
    command = [sys.executable, "-P", "-W", "ignore", "-c", PROGRAM, str(size)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    text, _, kibibytes = result.stdout.rpartition("KiB")
    assert outcome in text
    assert outcome == "compiled" or "RESOURCE_EXHAUSTED" in text
    assert int(kibibytes) < 300 * 1024


# Through the bindings nothing refuses the product before it is planned.
DIRECT = """
import resource, sys
from jax_ipu import _ipu

n = int(sys.argv[1])
graph, program = _ipu.Graph(_ipu.Target("ipu2")), _ipu.Sequence("program")
operands = [graph.add_variable("f32", (1, n, n), name) for name in "ab"]
for operand in operands:
    graph.map_linearly(operand)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_ipu.mat_mul_grouped(graph, *operands, "f32", program, "product", {}, None)
try:
    _ipu.compile_graph(graph, [program], "product")
except _ipu.Error as error:
    print(error)
print("KiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("size", [8700, 12288, 16384])
def test_products_that_do_not_fit_are_planned_in_little_memory(size):
    command = [sys.executable, "-P", "-c", DIRECT, str(size)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    text, _, kibibytes = result.stdout.rpartition("KiB")
    assert "out of IPU memory" in text
    assert int(kibibytes) < 100 * 1024
