"""Lookups and scatters of many indices: in parts where the whole does not fit, with equal values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from support.modes import array, check, lower
from support.stages import imported

TABLE = array(40, 6)
MANY = (np.arange(20_001) * 7919 % 43).astype(np.int32)
ROWS = array(len(MANY), 6)
CASES = {
    "elements": (lambda x, i: x[:, 0][i], TABLE, MANY),
    "rows": (lambda x, i: x[i], TABLE, MANY),
    "columns": (lambda x, i: x[:, i], TABLE.T, MANY),
    "windows": (lambda x, i: jax.vmap(lambda j: jax.lax.dynamic_slice(x, (j, 1), (3, 2)))(i), TABLE, MANY),
    "without a rest": (lambda x, i: x[i], TABLE, MANY[:20_000]),
    "add without a rest": (lambda x, i, u: x.at[i].add(u), TABLE, MANY[:20_000], ROWS[:20_000]),
    "two dimensions of indices": (lambda x, i: x[i], TABLE, MANY[:20_000].reshape(4, 5000)),
    "each row": (
        lambda x, i: jnp.take_along_axis(x, i % 7000, axis=1),
        array(2, 7000),
        MANY[:20_000].reshape(2, 10_000) * 160,
    ),
    "add": (lambda x, i, u: x.at[i].add(u), TABLE, MANY, ROWS),
    "add to columns": (lambda x, i, u: x.at[:, i].add(u), TABLE.T, MANY, ROWS.T),
    "the last one counts": (lambda x, i, u: x.at[i].set(u), TABLE, MANY, ROWS),
    "largest": (lambda x, i, u: x.at[i].max(u), TABLE, MANY, ROWS),
    "whole numbers": (lambda x, i: x.at[i].add(1), np.zeros(50, np.int32), np.tile(MANY, 4)),
}


def frugal(function, *args, memory=638976 // 2):
    module = imported(lower(function, *args)[0])
    module.memory, module.frugal = memory, True
    pipeline.rewrite(module, memory_first=True)
    return [op.name for op in module.main.block.ops]


@pytest.fixture
def always_frugal(monkeypatch):
    """All programs are compiled as where memory comes first."""
    monkeypatch.setattr(pipeline, "_SAVE_MEMORY", frozenset())


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_whole(name, execution, always_frugal):
    function, *args = CASES[name]
    assert "ipu.repeat" in frugal(function, *args)
    check(function, *args, mode=(execution, 2), rtol=1e-4)


def test_few_indices_stay_whole():
    assert "ipu.repeat" not in frugal(CASES["rows"][0], TABLE, MANY[:500])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, i: x[:, i], [(1000, 57_000), (57_000,)]),
        (lambda x, i: x[i], [(15_000_000,), (40_000_000,)]),
        (lambda x, i: x[i], [(5_000_000,), (49_999_991,)]),
        (lambda x, i, u: x.at[i].set(u), [(1000,), (55_000_000,), (55_000_000,)]),
    ],
    ids=["columns", "many", "a prime number", "set"],
)
def test_operands_of_half_an_ipu(function, shapes):
    args = [jax.ShapeDtypeStruct(s, np.int32 if i == 1 else np.float32) for i, s in enumerate(shapes)]
    assert jax_ipu.estimate(function, *args, compiler_options={"ipu_advice_seconds": 0.0}).fits
