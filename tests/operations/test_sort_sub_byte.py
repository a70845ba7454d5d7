"""Integers of less than a byte are ordered, and are indices, by value, whatever their unused bits contain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import cpu_jit, each_mode, run_ipu, with_codelets

VALUES = {"int2": [1, -2, 0, -1, 1], "int4": [3, -8, 7, -1, 0, 2], "uint2": [3, 0, 2, 1], "uint4": [3, 15, 0, 9]}


@each_mode
@pytest.mark.parametrize("dtype", VALUES)
def test_sort(dtype, mode):
    # XLA:CPU does not sort these types correctly, and sorting 2-bit integers there corrupts the heap of the process.
    expected = sorted(VALUES[dtype])
    x = np.array(VALUES[dtype]).astype(jnp.dtype(dtype))
    for function in (lax.sort, lambda x: lax.sort(x + x.dtype.type(0))):
        [actual] = run_ipu(function, (x,), mode)
        assert actual.astype(int).tolist() == expected
    [order] = run_ipu(jnp.argsort, (x,), mode)
    assert order.tolist() == np.argsort(VALUES[dtype], kind="stable").tolist()


# Each op whose result depends on the order of numbers; none leaves the range of the type.
ORDERED = {
    "top_k": lambda x: lax.top_k(x, 3),
    "top_k_of_long_rows": lambda x: lax.top_k(jnp.tile(x, 100).reshape(2, -1), 40),
    "argsort_descending": lambda x: jnp.argsort(x, descending=True),
    "sort_with_values": lambda x: lax.sort((x, jnp.arange(x.size)), num_keys=1),
    "sort_by_two_keys": lambda x: lax.sort((x[::-1], x), num_keys=2),
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "max": jnp.max,
    "min": jnp.min,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "maximum": lambda x: (jnp.maximum(x, x[::-1]), jnp.minimum(x, x[::-1])),
    "compare": lambda x: (x < x[::-1], x <= x[::-1], x > x[::-1], x >= x[::-1]),
    "clamp": lambda x: lax.clamp(x.dtype.type(0), x, x.dtype.type(1)),
    "scatter_max": lambda x: x.at[jnp.array([0, 1, 0])].max(x[:3]),
    "segment_min": lambda x: jax.ops.segment_min(x, jnp.arange(x.size) % 3, 3),
    "searchsorted": lambda x: jnp.searchsorted(lax.sort(x), x),
    "unique": lambda x: jnp.unique(x, size=4),
}


@each_mode
@pytest.mark.parametrize("dtype", VALUES)
def test_every_op_orders_by_value(dtype, mode):
    """As a byte, which XLA:CPU orders correctly."""
    x = np.array(VALUES[dtype]).astype(jnp.dtype(dtype))
    wide = np.array(VALUES[dtype]).astype(np.uint8 if dtype.startswith("u") else np.int8)

    def all_of(x):
        return [op(x) for op in ORDERED.values()]

    expected = jax.tree.leaves(cpu_jit(all_of)(wide))
    for a, e in zip(run_ipu(all_of, (x,), mode, as_jit=True), expected, strict=True):
        np.testing.assert_array_equal(a.astype(int), np.asarray(e).astype(int))


@with_codelets
def test_top_k_ignores_unused_bits(mode):
    """Sums leave the range of the type in the byte that an element takes."""
    x = np.array([3, -8, 7, -1, 0, 2]).astype(jnp.dtype("int4"))
    values, indices = run_ipu(lambda x: lax.top_k(x + x, 4), (x,), mode, as_jit=True)
    assert values.astype(int).tolist() == [6, 4, 0, 0] and indices.tolist() == [0, 5, 1, 4]


def _indexed(x, i):
    """What is read and written at indices, of which some are outside."""
    rows, adds = lax.GatherDimensionNumbers((), (0,), (0,)), lax.ScatterDimensionNumbers((), (0,), (0,))
    return (
        *(lax.gather(x, i[:, None], rows, (1,), mode=mode) for mode in ("clip", "fill")),
        lax.scatter_add(x, i[:, None], x[: i.size], adds, mode="drop"),
        lax.dynamic_slice(x, (i[1],), (2,), allow_negative_indices=False),
        lax.dynamic_update_slice(x, x[:2] * 2, (i[1],), allow_negative_indices=False),
    )


@with_codelets
@pytest.mark.parametrize("dtype", VALUES)
def test_indices(dtype, mode):
    x, i = np.linspace(0, 1, 20, dtype=np.float32), np.array(VALUES[dtype])
    expected = jax.tree.leaves(cpu_jit(_indexed)(x, i.astype(np.int32)))
    for a, e in zip(run_ipu(_indexed, (x, i.astype(jnp.dtype(dtype))), mode), expected, strict=True):
        np.testing.assert_array_equal(a, e)
