"""Lookups and updates in one row: no batching dimensions remain, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode
from support.stages import optimized_ops

TABLE, ROWS = array(1, 40), array(1, 12, 5)
PLACES = np.random.default_rng(0).integers(-45, 45, (1, 30)).astype(np.int32)


def _along(x, i):
    return jnp.take_along_axis(x, i % 40, 1)


# Each with how many gathers and scatters with batching dimensions remain.
PROGRAMS = {
    "along an axis": (_along, (TABLE, PLACES), 0),
    "its gradient": (jax.grad(lambda x, i: (_along(x, i) ** 2).sum()), (TABLE, PLACES), 0),
    "rows": (jax.vmap(lambda x, i: x[i]), (ROWS, PLACES % 12), 0),
    "windows": (
        jax.vmap(lambda x, i: jax.vmap(lambda k: lax.dynamic_slice(x, (k, 0), (2, 5)))(i)),
        (ROWS, PLACES % 12),
        0,
    ),
    "the last batch": (jax.vmap(lambda x, i: x[i], -1, -1), (ROWS[0].T[..., None], PLACES.T % 5), 0),
    "two of them": (jax.vmap(jax.vmap(lambda x, i: x[i])), (ROWS[None], PLACES[None] % 12), 0),
    "one of two": (jax.vmap(jax.vmap(lambda x, i: x[i])), (array(1, 3, 9), PLACES.reshape(1, 3, 10) % 9), 1),
    "set": (jax.vmap(lambda x, i, v: x.at[i].set(v)), (TABLE, PLACES[:, :1], TABLE[:, :1]), 0),
    "added": (jax.vmap(lambda x, i: x.at[i].add(i * 1.0)), (TABLE, PLACES), 0),
    "rows that are added": (jax.vmap(lambda x, i, v: x.at[i].add(v)), (ROWS, PLACES[:, :7], array(1, 7, 5)), 0),
    "largest": (jax.vmap(lambda x, i: x.at[:, i % 5].max(2.0)), (ROWS, PLACES), 0),
    "beyond the end": (jax.vmap(lambda x, i: x.at[i].get(mode="fill", fill_value=7)), (TABLE, PLACES), 0),
    "two rows": (jax.vmap(lambda x, i: x[i]), (array(2, 40), PLACES.reshape(2, 15) % 40), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batching_dimensions_that_remain(name):
    function, arguments, count = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    batched = 0
    for op in ops:
        numbers = op.attrs.get("dimension_numbers") or op.attrs.get("scatter_dimension_numbers") or {}
        names = ("operand_batching_dims", "input_batching_dims")
        batched += op.name in ("gather", "scatter") and any(numbers.get(name) for name in names)
    assert batched == count
