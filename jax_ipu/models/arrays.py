"""Inputs and outputs: tensors of any framework as arrays, and back."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jax_ipu.models.model import loaded

# NumPy type kinds that are not numbers: objects, strings, bytes, records, times.
_NO_NUMBERS = "OUSVMm"


def arguments(inputs: Any) -> tuple[Any, ...]:
    """Example inputs as positional arguments: a tuple is several of them, anything else is the only one.

    What a tokenizer of Hugging Face gives (a UserDict) becomes a dict.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return tuple(dict(x) if isinstance(x, UserDict) else x for x in inputs)


def to_array(leaf: Any) -> Any:
    """A tensor of a framework, or a Python number, as a NumPy array; arrays of JAX and shapes stay as they are."""
    if isinstance(leaf, (np.ndarray, jax.Array, jax.ShapeDtypeStruct)):
        return leaf
    torch: Any = loaded("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        leaf = leaf.detach().cpu().contiguous()
        if leaf.dtype == torch.bfloat16:  # NumPy has no such type, and no way to ask for it
            return leaf.view(torch.uint16).numpy().view(jax.numpy.bfloat16)
        return leaf.numpy()
    array = np.asarray(leaf)
    if array.dtype.kind in _NO_NUMBERS:
        raise TypeError(f"{leaf!r} is not an array of numbers, which all inputs and weights of a model must be")
    return array


def like_inputs(inputs: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    """How outputs are given back: as tensors of the inputs' framework, else as NumPy arrays."""
    leaves = jax.tree.leaves(inputs)
    torch: Any = loaded("torch")
    if torch is not None and any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return lambda array: _to_torch(torch, array)
    if any(isinstance(leaf, jax.Array) for leaf in leaves):
        return jax.numpy.asarray
    return lambda array: array


def _to_torch(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == jax.numpy.bfloat16:
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
