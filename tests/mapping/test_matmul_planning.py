"""Planning a large matrix product takes little host memory, even if the IPU's memory does not suffice."""

import pytest

from support.processes import PEAK, output

# In a separate process, because the peak never decreases.
PROGRAM = f"""{PEAK}
import os
import jax, numpy as np

jax.devices("ipu")
n = int(os.environ["SIZE"])
x = jax.ShapeDtypeStruct((n, n), np.float32)
before = peak()
try:
    # Without trials of what would fit, which are other products.
    jax.jit(lambda a, b: a @ b, backend="ipu", compiler_options={{"ipu_advice_seconds": 0}}).lower(x, x).compile()
    print("compiled")
except Exception as error:
    print(error)
print("KiB", peak() - before)
"""


@pytest.mark.parametrize("size, outcome", [(8192, "compiled"), (8500, "RESOURCE_EXHAUSTED"), (16384, "dot_general at")])
def test_large_products_take_little_host_memory(size, outcome):
    text, _, kibibytes = output(PROGRAM, SIZE=str(size)).rpartition("KiB")
    assert outcome in text
    assert outcome == "compiled" or "RESOURCE_EXHAUSTED" in text
    assert int(kibibytes) < 150 * 1024


# Through the bindings, nothing rejects the product before it is planned.
DIRECT = f"""{PEAK}
import os
from jax_ipu import _ipu

n = int(os.environ["SIZE"])
graph, program = _ipu.Graph(_ipu.Target("ipu2")), _ipu.Sequence("program")
operands = [graph.add_variable("f32", (1, n, n), name) for name in "ab"]
for operand in operands:
    graph.map_linearly(operand)
before = peak()
_ipu.mat_mul_grouped(graph, *operands, "f32", program, "product", {{}}, None)
try:
    _ipu.compile_graph(graph, [program], "product")
except _ipu.Error as error:
    print(error)
print("KiB", peak() - before)
"""


@pytest.mark.parametrize("size", [8700, pytest.param(12288, marks=pytest.mark.nightly), 16384])
def test_products_that_do_not_fit_are_planned_in_little_memory(size):
    text, _, kibibytes = output(DIRECT, SIZE=str(size)).rpartition("KiB")
    assert "out of IPU memory" in text
    assert int(kibibytes) < 100 * 1024
