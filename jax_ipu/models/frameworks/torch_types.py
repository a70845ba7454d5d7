"""PyTorch's types: which operations compute with 64 bits, and results that have exactly the types PyTorch gives them.

A PyTorch program is traced with JAX's types of 64 bits on. JAX then also chooses 64 bits where nothing asks for them,
which the chip computes in software; so operations whose operands and results have at most 32 bits are traced without.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torchax.ops import mappings

from jax_ipu.models.wide import is_wide, types_narrowed

# Operations whose int64 results count elements of an array, or are positions in one: these always have 32 bits.
_POSITIONS = frozenset(
    """argmax argmin argsort bucketize cummax cummin kthvalue max median min mode msort multinomial nanmedian
    nonzero_static randperm searchsorted sort topk max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d
    fractional_max_pool3d""".split()
)

# Operations that PyTorch computes in f32 for types of 16 bits, where torchax computes in these.
_IN_FLOAT32 = frozenset(
    """native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training native_layer_norm
    native_group_norm linalg_vector_norm dist _cdist_forward _euclidean_dist _pdist_forward _trilinear
    linalg_matrix_exp polygamma cumsum cumprod logcumsumexp""".split()
)


def computed(target: Any, operands: Any) -> Any:
    """The operands in the types in which an operation is computed; `fitted` gives its results their types."""
    name = _name(target) if isinstance(target, torch._ops.OpOverload) else ""

    def widen(x: Any) -> Any:
        dtype = getattr(x, "dtype", None)
        if dtype is None or not _is_number(dtype):
            return x
        is_half = name in _IN_FLOAT32 and dtype in (jnp.float16, jnp.bfloat16)
        # Special functions of whole numbers and truth values are those of f32.
        is_whole = name.startswith("special_") and not jnp.issubdtype(dtype, jnp.inexact)
        return x.astype(jnp.float32) if is_half or is_whole else x

    return jax.tree.map(widen, operands)


def in_float32(decomposition: Any) -> Any:
    """The decomposition of an operation with one result, computed in f32 for types of 16 bits, as PyTorch does it."""

    def decomposed(x: torch.Tensor, *operands: Any, **options: Any) -> Any:
        if x.dtype not in (torch.float16, torch.bfloat16):
            return decomposition(x, *operands, **options)
        wide = [y.float() if isinstance(y, torch.Tensor) and y.dtype == x.dtype else y for y in operands]
        return decomposition(x.float(), *wide, **options).to(x.dtype)

    return decomposed


def context_of(target: Any, operands: Any, expected: Any) -> contextlib.AbstractContextManager[Any]:
    """The context in which an operation is traced.

    Args:
        target: the operation of PyTorch.
        operands: arrays of JAX and settings, in any structure.
        expected: what PyTorch says of its results.

    Raises NotImplementedError: JAX does not have a type of the results.
    """
    if expected is None or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return contextlib.nullcontext()
    given = [_dtype(x) for x in jax.tree.leaves(operands) if isinstance(x, torch.dtype)]
    results = [_dtype(x.dtype) for x in _tensors(expected)]
    wide = any(is_wide(x.dtype) for x in jax.tree.leaves(operands) if hasattr(x, "dtype") and _is_number(x.dtype))
    if wide or any(map(is_wide, given if _gives_positions(target) else given + results)):
        return contextlib.nullcontext()
    return types_narrowed()


def fitted(result: Any, expected: Any, target: Any, what: str) -> Any:
    """The result of an operation with PyTorch's types.

    A type that holds more than PyTorch's is converted: JAX has another rule for which type follows from several. So are
    positions in an array.

    Args:
        result: arrays, in any structure.
        expected: what PyTorch says of them: tensors without values, in the same structure.
        target: the operation, or None.
        what: names it in the error.

    Raises:
        NotImplementedError: the shape or the kind of type is another one, or the type holds less than PyTorch's.
    """
    if isinstance(expected, (list, tuple)):
        if isinstance(result, (list, tuple)) and len(result) == len(expected):
            values = [fitted(r, e, target, what) for r, e in zip(result, expected, strict=True)]
            return type(result)(values) if type(result) in (list, tuple) else tuple(values)
        return result
    if not isinstance(expected, torch.Tensor) or not hasattr(result, "shape"):
        return result
    # Outside of a program that keeps 64 bits, such as a loss of a model of JAX, all types are JAX's.
    wanted = jax.dtypes.canonicalize_dtype(_dtype(expected.dtype))
    found = np.dtype(result.dtype)
    if tuple(result.shape) == tuple(expected.shape):
        if found == wanted:
            return result
        if _kind(found) == _kind(wanted) and (found.itemsize > wanted.itemsize or _gives_positions(target)):
            return jnp.asarray(result).astype(wanted)
    raise NotImplementedError(
        f"{what} gives {found}{list(result.shape)} here and {wanted}{list(expected.shape)} in PyTorch. This is a fault "
        "of torchax's conversion: write it in other operations"
    )


def widened(operand: Any, expected: Any) -> Any:
    """A whole number that is given to a graph, with the type for which the graph was exported if that holds more."""
    if not isinstance(expected, torch.Tensor):
        return operand
    wanted = jax.dtypes.canonicalize_dtype(_dtype(expected.dtype))
    integers = jnp.issubdtype(operand.dtype, jnp.integer) and jnp.issubdtype(wanted, jnp.integer)
    return operand.astype(wanted) if integers and np.dtype(operand.dtype).itemsize < wanted.itemsize else operand


def depends_on_values(expected: Any) -> bool:
    """Whether the shape of a result is not known before the operation runs."""
    return any(isinstance(size, torch.SymInt) for x in _tensors(expected) for size in x.shape)


def _gives_positions(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and _name(target) in _POSITIONS


def _name(target: Any) -> str:
    name: str = target._schema.name
    return name.removeprefix("aten::")


def _tensors(expected: Any) -> list[Any]:
    if isinstance(expected, (list, tuple)):
        return [x for part in expected for x in _tensors(part)]
    return [expected] if isinstance(expected, torch.Tensor) else []


def _is_number(dtype: Any) -> bool:
    return not jnp.issubdtype(dtype, jax.dtypes.extended)


def _dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The type of NumPy for one of PyTorch.

    Raises NotImplementedError: there is none, as for torch.complex32.
    """
    if dtype not in mappings.TORCH_DTYPE_TO_JAX:
        raise NotImplementedError(
            f"JAX has no type for {dtype}: use a type that it has, such as torch.complex64 in place of torch.complex32"
        )
    found: np.dtype[Any] = np.dtype(mappings.t2j_dtype(dtype))
    return found


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype == np.bool_:
        return "bool"
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return "complex"
    return "float" if jnp.issubdtype(dtype, jnp.floating) else "integer"
