"""Shapes of arrays, which stand for the arrays where nothing is run."""

from __future__ import annotations

from typing import Any


def struct(shape: Any, dtype: Any) -> Any:
    """A ``jax.ShapeDtypeStruct``."""
    import jax

    make: Any = jax.ShapeDtypeStruct
    return make(shape, dtype)


def shape_of(array: Any) -> Any:
    """The shape and type of an array, of a number, or of what is one already, with the type that JAX gives it."""
    import jax
    import numpy as np

    if isinstance(array, jax.ShapeDtypeStruct):
        return array
    dtype = array.dtype if hasattr(array, "dtype") else np.result_type(array)
    return struct(np.shape(array), jax.dtypes.canonicalize_dtype(dtype))
