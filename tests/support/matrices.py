"""Matrices for tests of linear algebra."""

import numpy as np


def matrix(shape, dtype="float32", seed=0):
    """Returns normally distributed values; complex types have such a real and imaginary part."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * generator.standard_normal(shape)
    return x.astype(dtype)
