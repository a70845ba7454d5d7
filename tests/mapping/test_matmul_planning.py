"""Planning a large matrix product takes little host memory, even if the IPU's memory does not suffice."""

import pytest

from support.processes import output

# In a separate process, because the peak of the resident set never decreases.
PROGRAM = """
import os, resource
import jax, numpy as np

jax.devices("ipu")
n = int(os.environ["SIZE"])
x = jax.ShapeDtypeStruct((n, n), np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    jax.jit(lambda a, b: a @ b, backend="ipu").lower(x, x).compile()
    print("compiled")
except Exception as error:
    print(error)
print("KiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


# Where the error comes from has no part in what planning takes: the largest size is a test of the night.
@pytest.mark.parametrize(
    "size, outcome",
    [
        (4096, "compiled"),
        (8192, "RESOURCE_EXHAUSTED"),
        pytest.param(16384, "dot_general at", marks=pytest.mark.nightly),
    ],
)
def test_large_products_take_little_host_memory(size, outcome):
    text, _, kibibytes = output(PROGRAM, SIZE=str(size)).rpartition("KiB")
    assert outcome in text
    assert outcome == "compiled" or "RESOURCE_EXHAUSTED" in text
    assert int(kibibytes) < 300 * 1024


# Through the bindings, nothing rejects the product before it is planned.
DIRECT = """
import os, resource
from jax_ipu import _ipu

n = int(os.environ["SIZE"])
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


@pytest.mark.parametrize("size", [8700, pytest.param(12288, marks=pytest.mark.nightly), 16384])
def test_products_that_do_not_fit_are_planned_in_little_memory(size):
    text, _, kibibytes = output(DIRECT, SIZE=str(size)).rpartition("KiB")
    assert "out of IPU memory" in text
    assert int(kibibytes) < 100 * 1024
