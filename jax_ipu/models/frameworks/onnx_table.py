"""The table of ONNX operators, which other modules fill, and helpers that their functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """The description of a node that the function of its operator gets."""

    attributes: dict[str, Any]
    version: int  # the opset that introduced this definition of the operator
    # Converts a TensorProto.DataType to a NumPy dtype.
    outputs: int
    types: Callable[[int], Any]
    resized: Callable[[Array, Any, bool], Array]  # resizes the rows of a matrix by a scale, or to a size


class NeedsValueError(TypeError):
    """An operator needs the value of an input during compilation, but it is known only on the IPU."""


Function = Callable[..., Any]
# Operator -> (first version that the function implements, function(call, *inputs) -> an output or a tuple).
OPERATORS: dict[str, tuple[int, Function]] = {}


def operator(name: str, version: int = 1) -> Callable[[Function], Function]:
    """Registers a function in the table; `version` is the first version of the operator that it implements."""

    def register(function: Function) -> Function:
        OPERATORS[name] = (version, function)
        return function

    return register


def static(value: Any, what: str) -> Array:
    """Returns the value of an input that must be a constant; `what` names it in messages.

    Raises NeedsValueError: the input is not a constant.
    """
    if isinstance(value, np.ndarray):
        return value
    raise NeedsValueError(f"its {what} is computed from the values of the model's inputs, which only the IPU knows")


def ints(value: Any, what: str) -> tuple[int, ...]:
    """Returns the integers of an input that must be a constant, as `static` does."""
    return tuple(int(v) for v in np.atleast_1d(static(value, what)))


def lowest(x: Any) -> Any:
    """Returns the lowest value of the type of an array."""
    return False if x.dtype == bool else -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
