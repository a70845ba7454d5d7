"""Small tensors that are sliced, which do not all fit on one tile: each has a tile of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler import mapping
from jax_ipu.compiler.options import serialize_options
from support.modes import array, close, lower, on_cpu

APART = serialize_options({"ipu_mapping": "apart"})


def windows(*tables):
    """Adds windows of vectors, and writes one of the vectors."""

    def step(i, carried):
        total, *rest = carried
        for table in rest:
            total = total + lax.dynamic_slice(table, (i * 3,), (16,))
        return total, lax.dynamic_update_slice(rest[0], total * 0.1, (i,)), *rest[1:]

    return lax.fori_loop(0, 5, step, (jnp.zeros(16), *tables))[:2]


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_values(execution, monkeypatch):
    monkeypatch.setattr(mapping, "_TILE_OF_ITS_OWN", 1)
    tables = [array(50, seed=k) for k in range(4)]
    executable = compiler.compile(lower(windows, *tables)[0], "mlir", APART, "ipu2:8")
    results = _ipu.run(executable, [table.tobytes() for table in tables], execution)
    for result, expected in zip(results, map(np.asarray, on_cpu(windows, tables)), strict=True):
        close(np.frombuffer(result, np.float32).reshape(expected.shape), expected)


def test_vectors_that_fill_a_tile_lie_on_several():
    tables = [jax.ShapeDtypeStruct((30_000,), np.float32)] * 8

    def cycles(**options):
        return jax_ipu.estimate(windows, *tables, compiler_options=options).cycles

    assert cycles() == cycles(ipu_mapping="apart") < cycles(ipu_mapping="products")
