"""8-bit floats are ordered as on the CPU, for every bit pattern of every type."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from support.modes import cpu_jit, each_mode, run_ipu, with_codelets

TYPES = [
    *("float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


def patterns(dtype, seed=0):
    """All numbers and NaN of the type, in any order; without those that XLA:CPU takes for zero in comparisons."""
    bits = np.random.default_rng(seed).permutation(256).astype(np.uint8)
    x = bits.view(getattr(ml_dtypes, dtype))
    if dtype == "float8_e5m2fnuz":
        with np.errstate(invalid="ignore"):
            magnitude = np.abs(x.astype(np.float32))
        x = x[~((magnitude > 0) & (magnitude < 2.0**-14))]
    return x


ORDERED = {
    "top_k": lambda x: lax.top_k(x, 9),
    "top_k of all": lambda x: lax.top_k(x, x.size),
    "top_k of rows": lambda x: lax.top_k(x[:240].reshape(3, 8, 10), 3),
    "top_k of long rows": lambda x: lax.top_k(jnp.tile(x, 12).reshape(2, -1), 40),
    "sort": jnp.sort,
    "argsort": jnp.argsort,
    "sort_descending": lambda x: jnp.sort(x, descending=True),
    "sort with values": lambda x: lax.sort((x, jnp.arange(x.size)), num_keys=1),
    "max": jnp.max,
    "min": jnp.min,
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "cummax": lax.cummax,
}


def same(actual, expected):
    """Equal bits, or NaN on both sides."""
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if actual.dtype.itemsize > 1:
        np.testing.assert_array_equal(actual, expected)
        return
    with np.errstate(invalid="ignore"):
        nan = np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.where(nan, 0, actual.view(np.uint8)), np.where(nan, 0, expected.view(np.uint8)))


@each_mode
@pytest.mark.parametrize("dtype", TYPES)
def test_every_op_orders_as_the_cpu(dtype, mode):
    x = patterns(dtype)

    def all_of(x):
        return [op(x) for op in ORDERED.values()]

    actual = run_ipu(all_of, (x,), mode, as_jit=True)
    for a, e in zip(actual, jax.tree.leaves(cpu_jit(all_of)(x)), strict=True):
        same(a, e)


@with_codelets
def test_top_k_beside_nan_and_ties(mode):
    x = np.array([1, np.nan, -2, 3, 3, -np.inf, np.inf, -0.0, 0.0], ml_dtypes.float8_e5m2)
    values, indices = run_ipu(lambda x: lax.top_k(x, 5), (x,), mode, as_jit=True)
    np.testing.assert_array_equal(values.astype(np.float32), np.float32([np.nan, np.inf, 3, 3, 1]))
    assert indices.tolist() == [1, 6, 3, 4, 0]


@each_mode
def test_top_k_of_four_bits(mode):
    """XLA:CPU refuses it."""
    x = np.array([1, -6, 0.5, 6, 3, 6, -0.5], ml_dtypes.float4_e2m1fn)
    values, indices = run_ipu(lambda x: lax.top_k(x, 4), (x,), mode, as_jit=True)
    assert values.astype(np.float32).tolist() == [6, 6, 3, 1] and indices.tolist() == [3, 5, 4, 0]
