"""Types of 64 bits, in the programs of models that have them; all other programs of the process keep JAX's 32 bits."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np


def types_kept(wide: bool = True) -> contextlib.AbstractContextManager[Any]:
    """While it lasts, this thread's JAX keeps types of 64 bits; with wide=False it does what the process is set to."""
    context: contextlib.AbstractContextManager[Any] = jax.enable_x64(True) if wide else contextlib.nullcontext()
    return context


def types_narrowed() -> contextlib.AbstractContextManager[Any]:
    """While it lasts, what JAX chooses for itself has 32 bits: sums of booleans, iotas, loop counters."""
    context: contextlib.AbstractContextManager[Any] = jax.enable_x64(False)
    return context


def is_wide(dtype: Any) -> bool:
    """Whether numbers of this type, or their real parts, have 64 bits."""
    number: np.dtype[Any] = np.dtype(dtype)
    return bool(number.itemsize == (16 if number.kind == "c" else 8))


def check_fits(array: Any, dtype: np.dtype[Any], what: str) -> None:
    """Raises ValueError: `array` has whole numbers that `dtype`, a type of whole numbers, cannot hold."""
    if dtype.kind not in "iu" or array.dtype.kind not in "iu" or np.can_cast(array.dtype, dtype) or array.size == 0:
        return
    limits = np.iinfo(dtype)
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            raise ValueError(
                f"{what} is compiled as {dtype} and has the value {value}, which does not fit: compile the model with "
                f"an example input of type {array.dtype}"
            )
