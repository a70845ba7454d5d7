"""The table of ONNX's operators, which onnx_ops.py and onnx_layers.py fill, and what their functions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """One node as its operator's function sees it."""

    attributes: dict[str, Any]
    version: int  # of the operator: the opset in which it got its present definition
    outputs: int
    types: Callable[[int], Any]  # a number of TensorProto.DataType as a NumPy dtype
    resized: Callable[[Array, Any, bool], Array]  # a matrix resized along its rows by a scale, or to a size, by ONNX


class NeedsValueError(TypeError):
    """An operator needs the value of an input when the model is compiled, and only the IPU will know it."""


Function = Callable[..., Any]
# Operator -> (the first version that the function is written for, function(call, *inputs) -> an output or a tuple).
OPERATORS: dict[str, tuple[int, Function]] = {}


def operator(name: str, version: int = 1) -> Callable[[Function], Function]:
    """Enters a function into the table: `version` is the operator's first that it is written for."""

    def register(function: Function) -> Function:
        OPERATORS[name] = (version, function)
        return function

    return register


def static(value: Any, what: str) -> Array:
    """The value of an input that must be a constant; `what` is its name in messages."""
    if isinstance(value, np.ndarray):
        return value
    raise NeedsValueError(f"its {what} is computed from the values of the model's inputs, which only the IPU knows")


def ints(value: Any, what: str) -> tuple[int, ...]:
    """The same as integers."""
    return tuple(int(v) for v in np.atleast_1d(static(value, what)))


def lowest(x: Any) -> Any:
    """The lowest value of the type of an array."""
    return False if x.dtype == bool else -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
