"""Integers of less than a byte sort by value, whatever the unused bits of their storage contain."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import each_mode, run_ipu

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
