"""Where what products, slices and lookups place starts: on the tiles that have room, where a program does not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler.options import serialize_options
from support.modes import array, close, lower, on_cpu

BALANCED = serialize_options({"ipu_mapping": "balanced"})


def counted(rows, *tables):
    """Adds to some rows of each table, and reads them: no op goes over all of a table."""

    def step(i, carried):
        total, *tables = carried
        row = rows[i]
        tables = [lax.dynamic_update_index_in_dim(t, t[row] + 1, row, 0) for t in tables]
        return sum((t[row] for t in tables), total), *tables

    return lax.fori_loop(0, len(rows), step, (jnp.zeros(tables[0].shape[1]), *tables))


def layers(x, *weights):
    for w in weights:
        x = jnp.tanh(x @ w)
    return x


def lookups(tokens, table, weights):
    x = table[tokens]
    return jnp.tanh(x @ weights) @ table.T


PROGRAMS = {
    "slices": (counted, (np.array([3, 1, 7], np.int32), *(array(12, 9, seed=k) for k in range(4)))),
    "products": (layers, (array(6, 20), *(array(20, 20, seed=k) for k in range(3)))),
    "lookups": (lookups, (np.array([3, 1, 7, 7], np.int32), array(40, 12), array(12, 12))),
}


@pytest.mark.parametrize("execution", ["fast", "tile", "codelets"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, execution):
    function, arguments = PROGRAMS[name]
    executable = compiler.compile(lower(function, *arguments)[0], "mlir", BALANCED, "ipu2:16")
    results = _ipu.run(executable, [a.tobytes() for a in arguments], execution)
    for raw, expected in zip(results, map(np.asarray, jax.tree.leaves(on_cpu(function, arguments))), strict=True):
        close(np.frombuffer(raw, expected.dtype).reshape(expected.shape), expected, rtol=1e-4)


def tables(count):
    """Each lies on 5 tiles, and takes a fifth of these."""
    f32 = [jax.ShapeDtypeStruct((17_000, 9), jnp.float32)] * count
    return jax.ShapeDtypeStruct((100,), jnp.int32), *f32


def estimate(count, **options):
    donated = tuple(range(1, count + 1))
    compiler_options = {"ipu_advice_seconds": 0, **options}
    return jax_ipu.estimate(
        counted, *tables(count), target="ipu2:16", donate_argnums=donated, compiler_options=compiler_options
    )


def test_a_program_whose_tables_would_all_lie_on_the_first_tiles_fits():
    assert not estimate(8, ipu_fit="off").fits
    found = estimate(8)
    assert found.fits and "tensors on the tiles that have room" in str(found.savings)


def test_it_costs_few_cycles():
    as_it_is, balanced = estimate(3), estimate(3, ipu_mapping="balanced")
    assert as_it_is.savings is None
    assert balanced.cycles <= 1.03 * as_it_is.cycles < estimate(3, ipu_mapping="products").cycles
    assert balanced.fullest_tile_bytes < 0.8 * as_it_is.fullest_tile_bytes
