"""A program to time: a function, its arguments, and whether it passes a state on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]


class Program(NamedTuple):
    """A function of JAX and its arguments.

    Attributes:
        function: what jax.jit gets.
        arguments: trees of NumPy arrays.
        state: the first argument is a state, which is donated. The function returns the next state and another result;
            the next call gets that state, as in training.
        from_host: every call gets NumPy arrays instead of arrays on the device.
        tolerance: the largest difference from XLA:CPU, relative to the largest element of a result.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    state: bool = False
    from_host: bool = False
    tolerance: float = 1e-3


# Arguments may be large, so they are made when the program is used.
MakeProgram = Callable[[], Program]


def array(*shape: int, seed: int = 0) -> FloatArray:
    """Returns normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def weights(*shape: int, seed: int = 0) -> FloatArray:
    """Returns a matrix or kernel with which a product keeps the variance; its last dimension is that of the result."""
    return array(*shape, seed=seed) / np.float32(np.prod(shape[:-1]) ** 0.5)


def indices(size: int | tuple[int, ...], limit: int, seed: int = 1) -> IntArray:
    """Returns evenly distributed numbers from 0 to limit - 1."""
    return np.random.default_rng(seed).integers(0, limit, size).astype(np.int32)


def key(seed: int = 0) -> npt.NDArray[np.uint32]:
    """Returns a key of JAX's threefry generator, as jax.random.PRNGKey does."""
    return np.array([0, seed], np.uint32)


def program(function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-3) -> MakeProgram:
    """A program without state whose arguments are small, or cheap to keep."""
    return lambda: Program(function, arguments, tolerance=tolerance)
