"""Dense attributes of MLIR as literals, including element types without a Python buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.types import SIZE, Literal, Shape, num_elements, numpy_dtype


def bytes_from_text(text: str, dtype: str) -> bytes:
    """The elements of a dense attribute in host representation, read from its assembly."""
    body = text[text.index("<") + 1 : text.rindex(">", 0, text.rindex(" : "))]
    if body.startswith('"0x'):
        return bytes.fromhex(body[3:-1])
    cleaned = body.replace("[", " ").replace("]", " ")
    if dtype in ("c64", "c128"):
        tokens = cleaned.replace("(", " ").replace(")", " ").replace(",", " ").split()
        real = "f32" if dtype == "c64" else "f64"
        values = [_parse_float(t, real) for t in tokens]
        numbers = [complex(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return np.array(numbers, numpy_dtype(dtype)).tobytes()
    tokens = cleaned.replace(",", " ").split()
    return np.array([_parse_float(t, dtype) for t in tokens]).astype(numpy_dtype(dtype)).tobytes()


def _parse_float(token: str, dtype: str) -> float:
    if token.startswith("0x"):
        bits = int(token, 16)
        return float(np.frombuffer(bits.to_bytes(SIZE[dtype], "little"), numpy_dtype(dtype))[0])
    return float(token)


def literal(attr: Any, shape: Shape, dtype: str) -> Literal:
    """The value of a dense attribute of a tensor of `shape` with elements of `dtype`."""
    if type(attr) in DENSE:
        splat = bool(attr.is_splat)
        try:
            array = np.asarray(attr)
        except (TypeError, BufferError):
            if splat:
                array = np.asarray(attr.get_splat_value().value).astype(numpy_dtype(dtype))
            elif num_elements(shape) <= 64:
                array = np.array([attr[i] for i in range(num_elements(shape))]).astype(numpy_dtype(dtype))
            else:
                return Literal(dtype, shape, bytes_from_text(str(attr), dtype), False)
            return Literal(dtype, shape, array.tobytes(), splat)
        if splat and array.size:
            return Literal(dtype, shape, array.reshape(-1)[:1].tobytes(), True)
        data = array.tobytes()
        return Literal(dtype, shape, data, len(data) == SIZE[dtype])
    data = bytes_from_text(str(attr), dtype)
    return Literal(dtype, shape, data, len(data) == SIZE[dtype])


# The classes of dense attributes.
DENSE = frozenset((mlir.DenseFPElementsAttr, mlir.DenseIntElementsAttr, mlir.DenseElementsAttr))
