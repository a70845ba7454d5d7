"""Conversion of inputs and outputs between tensors of any framework and arrays."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jax_ipu.models.model import loaded
from jax_ipu.models.wide import types_kept

# NumPy kinds of types that are not numeric: objects, strings, bytes, records, times.
_NO_NUMBERS = "OUSVMm"


def arguments(inputs: Any) -> tuple[Any, ...]:
    """Returns example inputs as positional arguments: a tuple holds several, any other value is a single one.

    The output of a Hugging Face tokenizer (a UserDict) becomes a dict.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return tuple(dict(x) if isinstance(x, UserDict) else x for x in inputs)


def to_array(leaf: Any) -> Any:
    """Converts a framework tensor or a Python number to a NumPy array; returns JAX arrays and shapes unchanged.

    Raises TypeError: the value is not numeric.
    """
    if isinstance(leaf, (np.ndarray, jax.Array, jax.ShapeDtypeStruct)):
        return leaf
    torch: Any = loaded("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        leaf = leaf.detach().cpu().contiguous()
        if leaf.dtype == torch.bfloat16:  # NumPy has no bfloat16: go through its bits
            return leaf.view(torch.uint16).numpy().view(jax.numpy.bfloat16)
        return leaf.numpy()
    array = np.asarray(leaf)
    if array.dtype.kind in _NO_NUMBERS:
        raise TypeError(f"{leaf!r} is not an array of numbers, which all inputs and weights of a model must be")
    return array


def like_inputs(inputs: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Returns the function that converts outputs: to tensors of the inputs' framework, or to NumPy arrays."""
    leaves = jax.tree.leaves(inputs)
    torch: Any = loaded("torch")
    if torch is not None and any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return lambda array: _to_torch(torch, array)
    if any(isinstance(leaf, jax.Array) for leaf in leaves):
        return _to_jax
    return lambda array: array


def _to_jax(array: np.ndarray[Any, Any]) -> Any:
    with types_kept():
        return jax.numpy.asarray(array)


def _to_torch(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == jax.numpy.bfloat16:
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
