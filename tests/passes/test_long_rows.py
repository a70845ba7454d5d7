"""Top-k of rows that take much of the memory: in parts where they do not fit, with equal values and positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from jax_ipu.integration.programs import artifact
from support.modes import array, lower, on_cpu, run_ipu
from support.stages import imported

# A sort of so many elements with their positions does not fit into a tile.
LENGTH = 60_001
# Few values: equal ones are in the order of their positions.
TIES = (np.arange(LENGTH) * 7919 % 257).astype(np.float32)
CASES = {
    "ties": (3000, TIES),
    "one": (1, TIES),
    "special values": (3000, np.where(TIES < 20, np.nan, np.where(TIES < 60, -0.0, np.where(TIES < 90, np.inf, 0)))),
    "integers": (2000, (TIES - 128).astype(np.int32)),
    "half": (2000, np.concatenate([TIES, -TIES]).astype(np.float16)),
    "two rows": (1500, np.stack([TIES[:30_000], TIES[30_000:60_000]])),
    "two loops": (100, np.concatenate([TIES, -TIES])[:100_000]),
}


def frugal(k, x, memory=638976):
    lowered = lower(lambda x: jax.lax.top_k(x, k), x)[1]
    module = imported(artifact(lowered.compiler_ir("stablehlo")))
    module.memory, module.frugal = memory, True
    pipeline.rewrite(module, memory_first=True)
    return [op.name for op in module.main.block.ops]


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_whole(name, execution):
    k, x = CASES[name]
    x = x.astype(np.float32) if x.dtype == np.float64 else x
    assert "ipu.repeat" in frugal(k, x)
    results = run_ipu(lambda x: jax.lax.top_k(x, k), [x], (execution, 1), as_jit=True)
    for result, expected in zip(results, on_cpu(lambda x: jax.lax.top_k(x, k), [x]), strict=True):
        np.testing.assert_array_equal(result, np.asarray(expected))


def test_small_rows_and_large_shares_stay_whole():
    assert "ipu.repeat" not in frugal(10, array(1000))
    assert "ipu.repeat" not in frugal(LENGTH, TIES)


def test_the_tiles_of_a_row_find_its_largest_elements():
    """Where they lie: none is sent to another tile, however long the row is."""

    def cycles(length):
        row = jax.ShapeDtypeStruct((length,), jnp.float32)
        return jax_ipu.estimate(lambda x: jax.lax.top_k(x, 16), row).cycles

    assert cycles(110_000_000) < 2 * cycles(55_000_000)


def test_narrow_rows_cost_no_more():
    def cycles(dtype):
        row = jax.ShapeDtypeStruct((316_228,), dtype)
        return jax_ipu.estimate(lambda x: jax.lax.top_k(x, 10), row).cycles

    assert cycles("int8") < 1.5 * cycles("float32")


def test_rows_of_half_an_ipu():
    for k, *shape in (
        *((20_000, 70_000_000), (8_000_000, 70_000_000), (5_000, 110_000_000)),
        *((16, 117_000_000), (100_000, 117_000_000), (16, 117, 1_000_000)),
    ):
        row = jax.ShapeDtypeStruct(tuple(shape), jnp.float32)
        found = jax_ipu.estimate(lambda x, k=k: jax.lax.top_k(x, k), row, compiler_options={"ipu_advice_seconds": 0.0})
        assert found.fits
