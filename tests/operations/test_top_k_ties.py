"""The largest elements of rows with ties, NaN and both zeros: values and positions, for few and for many results."""

import jax
import numpy as np
import pytest
from jax import lax


def rows(dtype, length):
    random = np.random.default_rng(length)
    x = random.integers(-5, 5, (7, length)).astype(dtype)
    if dtype == np.float32:
        for value in (np.nan, -0.0, np.inf):
            x[random.random(x.shape) < 0.1] = value
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("length", [17, 600])
def test_top_k_of_ties(dtype, length):
    def largest(x):
        return [lax.top_k(x, k) for k in (1, 2, 15, 16, 17)]

    x = rows(dtype, length)
    ours, expected = (jax.jit(largest, backend=platform)(x) for platform in ("ipu", "cpu"))
    for (a, i), (b, j) in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
        np.testing.assert_array_equal(i, j)
