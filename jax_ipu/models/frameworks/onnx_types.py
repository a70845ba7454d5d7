"""The types that ONNX gives the results of its operators, and which nodes are computed with 64 bits.

A graph is traced with JAX's types of 64 bits on, so that none is cut. JAX then also chooses 64 bits where nothing asks
for them, which the chip computes in software; so nodes without such types are traced without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.models.model import required
from jax_ipu.models.wide import is_wide, types_narrowed

# Operators whose int64 results are positions in an array: these have 32 bits while they are computed.
_POSITIONS = ("ArgMax", "ArgMin", "TopK")


def expected_types(schema: Any, node: Any, inputs: Sequence[Any], opsets: Any) -> list[np.dtype[Any] | None]:
    """The type of each result of a node by ONNX's inference, None where that does not say."""
    onnx = required("onnx", "an ONNX model", "'jax_ipu[onnx]'")
    inference = required("onnx.shape_inference", "an ONNX model", "'jax_ipu[onnx]'")
    helper = onnx.helper
    try:
        given = {
            name: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), None)
            for name, value in zip(node.input, inputs, strict=False)
            if value is not None
        }
        found = inference.infer_node_outputs(schema, node, given, opset_imports=opsets)
    # It refuses types and subgraphs that it does not know, by errors of several classes.
    except Exception:
        return [None] * len(node.output)

    def dtype(name: str) -> np.dtype[Any] | None:
        kind = found[name].tensor_type.elem_type if name in found else 0
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind)) if kind else None

    return [dtype(name) for name in node.output]


def context_of(
    operator: str, inputs: Sequence[Any], expected: Sequence[np.dtype[Any] | None]
) -> contextlib.AbstractContextManager[Any]:
    """The context in which a node is traced."""
    if None in expected:
        return contextlib.nullcontext()
    # Constants of int64 are shapes, axes and indices, unless a result has this type.
    operands = [x.dtype for x in inputs if hasattr(x, "dtype") and not _is_constant_integer(x)]
    results = [t for t in expected if not (operator in _POSITIONS and t == np.int64)]
    if any(is_wide(t) for t in [*operands, *(t for t in results if t is not None)]):
        return contextlib.nullcontext()
    return types_narrowed()


def fitted(operator: str, results: Sequence[Any], expected: Sequence[np.dtype[Any] | None]) -> list[Any]:
    """The results of a node with ONNX's types.

    Raises NotImplementedError: the kind of a type is another one, or the type holds less than ONNX's.
    """
    return [_fitted(operator, x, t) for x, t in zip(results, [*expected, *[None] * len(results)], strict=False)]


def as_declared(array: Any, dtype: np.dtype[Any], name: str) -> Any:
    """An input of the model with the type that its graph declares for it.

    Raises ValueError: the type may not hold what was given. Floats are rounded.
    """
    wanted = jax.dtypes.canonicalize_dtype(dtype)
    found = np.dtype(array.dtype)
    if found == wanted:
        return array
    kinds = ("bool", "integer", "float", "complex")
    given, kept = (kinds.index(_kind(t)) for t in (found, wanted))
    if given > kept or (given == kept == 1 and not np.can_cast(found, wanted)):
        raise ValueError(f"the input {name} of the ONNX model is {dtype}, not {found}: convert it")
    return array.astype(wanted)


def _fitted(operator: str, result: Any, expected: np.dtype[Any] | None) -> Any:
    if expected is None or result is None or isinstance(result, np.ndarray):  # constants stay as they are
        return result
    wanted, found = jax.dtypes.canonicalize_dtype(expected), np.dtype(result.dtype)
    if found == wanted:
        return result
    holds = found.itemsize > wanted.itemsize or operator in _POSITIONS
    if _kind(found) != _kind(wanted) or not holds:
        raise NotImplementedError(f"it gives {found} here and {wanted} in ONNX, which is a fault of this conversion")
    return jnp.asarray(result).astype(wanted)


def _is_constant_integer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _kind(dtype: np.dtype[Any]) -> str:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return "complex"
    return "float" if jnp.issubdtype(dtype, jnp.inexact) else "bool" if dtype == np.bool_ else "integer"
