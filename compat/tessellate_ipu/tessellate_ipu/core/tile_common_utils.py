"""Element types, types of arrays, and data as text."""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax_ipu.tile.vertex import type_name


class IpuType(enum.IntEnum):
    """Element types of vertices; their numbers are TessellateIPU's."""

    BOOL = 1
    CHAR = 2
    UNSIGNED_CHAR = 3
    SHORT = 4
    UNSIGNED_SHORT = 5
    INT = 6
    UNSIGNED_INT = 7
    LONG = 8
    UNSIGNED_LONG = 9
    QUARTER = 10
    HALF = 11
    FLOAT = 12

    @property
    def bytesize(self) -> int:
        """Bytes of an element."""
        if self in _DTYPES:
            return _DTYPES[self].itemsize
        return 1 if self is IpuType.QUARTER else 8


_DTYPES = {
    IpuType.BOOL: np.dtype(np.bool_),
    IpuType.CHAR: np.dtype(np.int8),
    IpuType.UNSIGNED_CHAR: np.dtype(np.uint8),
    IpuType.SHORT: np.dtype(np.int16),
    IpuType.UNSIGNED_SHORT: np.dtype(np.uint16),
    IpuType.INT: np.dtype(np.int32),
    IpuType.UNSIGNED_INT: np.dtype(np.uint32),
    IpuType.HALF: np.dtype(np.float16),
    IpuType.FLOAT: np.dtype(np.float32),
}
_IPU_TYPES = {dtype: ipu_type for ipu_type, dtype in _DTYPES.items()}


def from_numpy_dtype_to_ipu_type(v: Any) -> IpuType:
    """The vertex' element type. Raises KeyError for one that vertices do not have."""
    return v if isinstance(v, IpuType) else _IPU_TYPES[np.dtype(v)]


def from_ipu_type_to_numpy_dtype(v: Any) -> np.dtype[Any]:
    """NumPy's element type. Raises KeyError for one that NumPy does not have."""
    return _DTYPES[v] if isinstance(v, IpuType) else np.dtype(v)


def get_ipu_type_name(v: Any) -> str:
    """The name of an element type in C++."""
    return type_name(from_ipu_type_to_numpy_dtype(v))


def as_json(value: Any) -> str:
    """JSON without spaces, its keys in order."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class Base64Data:
    """Bytes as text in base 64; empty text is no data."""

    def __init__(self, encoded_data: str | bytes = "") -> None:
        self.encoded_data = encoded_data.decode() if isinstance(encoded_data, bytes) else encoded_data

    @classmethod
    def from_decoded_data(cls, data: str | bytes) -> Base64Data:
        return cls(base64.b64encode(data.encode() if isinstance(data, str) else data))

    @classmethod
    def from_json_str(cls, text: str) -> Base64Data:
        return cls((json.loads(text) or {}).get("encoded_data", ""))

    @property
    def decoded_data(self) -> str:
        return base64.b64decode(self.encoded_data).decode()

    @property
    def is_empty(self) -> bool:
        return not self.encoded_data

    def to_data(self) -> dict[str, str] | None:
        return None if self.is_empty else {"encoded_data": self.encoded_data}

    def to_json_str(self) -> str:
        return as_json(self.to_data())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Base64Data) and self.encoded_data == other.encoded_data

    def __hash__(self) -> int:
        return hash(self.encoded_data)


class IpuShapedArray:
    """Shape and element type of an array."""

    def __init__(self, shape: Sequence[int] = (), dtype: IpuType = IpuType.UNSIGNED_CHAR) -> None:
        self.shape = [int(n) for n in shape]
        self.dtype = IpuType(dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IpuShapedArray) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((tuple(self.shape), self.dtype))


def make_ipu_shaped_array(shape: Sequence[int], dtype: Any) -> IpuShapedArray:
    """The type of an array with NumPy's or a vertex' element type."""
    return IpuShapedArray(shape, from_numpy_dtype_to_ipu_type(dtype))
