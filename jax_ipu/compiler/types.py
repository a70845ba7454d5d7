"""Element types and literals."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import numpy as np

from jax_ipu.compiler.errors import CompileError

Shape = tuple[int, ...]

# Name in MLIR -> name in this compiler and in C++.
ELEMENT_TYPES: dict[str, str] = {
    "i1": "pred",
    "i2": "s2",
    "i4": "s4",
    "i8": "s8",
    "i16": "s16",
    "i32": "s32",
    "i64": "s64",
    "ui2": "u2",
    "ui4": "u4",
    "ui8": "u8",
    "ui16": "u16",
    "ui32": "u32",
    "ui64": "u64",
    "f4E2M1FN": "f4e2m1fn",
    "f8E3M4": "f8e3m4",
    "f8E4M3": "f8e4m3",
    "f8E4M3FN": "f8e4m3fn",
    "f8E4M3FNUZ": "f8e4m3fnuz",
    "f8E4M3B11FNUZ": "f8e4m3b11fnuz",
    "f8E5M2": "f8e5m2",
    "f8E5M2FNUZ": "f8e5m2fnuz",
    "f8E8M0FNU": "f8e8m0fnu",
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
    "complex<f32>": "c64",
    "complex<f64>": "c128",
}

_SIZES = {"16": 2, "32": 4, "64": 8, "128": 16}
SIZE: dict[str, int] = {
    name: 8 if name == "c64" else _SIZES.get(name.lstrip("usfbc"), 1) for name in ELEMENT_TYPES.values()
}
# The memory of the largest system, Bow Pod1024: 1,024 IPUs of 900 MB, rounded up. No tensor may be larger.
MAX_BYTES = 1 << 40
COMPLEX = frozenset({"c64", "c128"})
REAL_PART = {"c64": "f32", "c128": "f64"}
SIGNED = frozenset(t for t in SIZE if t[0] == "s")
UNSIGNED = frozenset(t for t in SIZE if t[0] == "u")
INTEGER = SIGNED | UNSIGNED
FLOAT = frozenset(t for t in SIZE if t[0] in "fb")

# Codes of the module struct, for the types that it can pack.
_PACK = {
    "pred": "?",
    "s8": "b",
    "s16": "<h",
    "s32": "<i",
    "s64": "<q",
    "u8": "B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
    "f16": "<e",
    "f32": "<f",
    "f64": "<d",
}
_DIGITS = re.compile(r"[a-z]+(\d+)")
_UNPACKERS = {name: struct.Struct(code) for name, code in _PACK.items()}
_NUMPY_NAMES = {
    "pred": "bool",
    "c64": "complex64",
    "c128": "complex128",
    "bf16": "bfloat16",
}
_ML_DTYPES = {
    "s2": "int2",
    "u2": "uint2",
    "s4": "int4",
    "u4": "uint4",
    "f4e2m1fn": "float4_e2m1fn",
    "f8e3m4": "float8_e3m4",
    "f8e4m3": "float8_e4m3",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "bf16": "bfloat16",
}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type with the same representation on the host."""
    if dtype in _ML_DTYPES:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
        return extended
    if dtype in _NUMPY_NAMES:
        return np.dtype(_NUMPY_NAMES[dtype])
    return np.dtype({"s": "int", "u": "uint", "f": "float"}[dtype[0]] + dtype[1:])


def bit_width(dtype: str) -> int:
    """The bits of an element as StableHLO counts them: 1 for pred, 4 for s4."""
    if dtype == "pred":
        return 1
    digits = _DIGITS.match(dtype)
    assert digits, dtype
    return int(digits[1])


def num_elements(shape: Shape) -> int:
    """The product of the dimensions, 1 for a scalar."""
    return math.prod(shape)


def pack_scalar(dtype: str, value: Any) -> bytes:
    """One element in host representation; integers wrap around."""
    packer = _UNPACKERS.get(dtype)
    if packer is not None and dtype not in ("f16", "f32"):
        if dtype in INTEGER:
            bits = 8 * SIZE[dtype]
            value = int(value) & ((1 << bits) - 1)
            if dtype in SIGNED and value >> (bits - 1):
                value -= 1 << bits
        return packer.pack(value)
    with np.errstate(all="ignore"):
        return bytes(np.asarray(value).astype(numpy_dtype(dtype)).tobytes())


def unpack_scalar(dtype: str, data: bytes) -> Any:
    """The first element in `data`, in host representation, as a Python number."""
    packer = _UNPACKERS.get(dtype)
    if packer is not None:
        return packer.unpack(data[: packer.size])[0]
    return np.frombuffer(data, numpy_dtype(dtype), 1)[0].item()


class Literal:
    """A compile-time constant. `data` holds one element if `splat`, otherwise all elements in row-major order.

    A large constant is a view of the program's own bytes.
    """

    __slots__ = ("data", "dtype", "shape", "splat")

    def __init__(self, dtype: str, shape: Shape, data: bytes | memoryview, splat: bool) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data
        self.splat = splat

    @staticmethod
    def full(dtype: str, shape: Shape, value: Any) -> Literal:
        return Literal(dtype, shape, pack_scalar(dtype, value), True)

    @staticmethod
    def from_numpy(dtype: str, array: np.ndarray[Any, Any]) -> Literal:
        data = np.ascontiguousarray(array, numpy_dtype(dtype)).tobytes()
        return Literal(dtype, tuple(array.shape), data, array.size == 1)

    def scalar(self) -> Any:
        """The value of a splat as a Python number."""
        return unpack_scalar(self.dtype, bytes(self.data))

    def element(self) -> Any:
        """The value of a splat as a NumPy scalar of its type."""
        return np.frombuffer(self.data, numpy_dtype(self.dtype))[0]

    def numpy(self) -> np.ndarray[Any, Any]:
        flat = np.frombuffer(self.data, numpy_dtype(self.dtype))
        return np.broadcast_to(flat[0], self.shape) if self.splat else flat.reshape(self.shape)

    def reshaped(self, shape: Shape) -> Literal:
        return Literal(self.dtype, shape, self.data, self.splat)

    def key(self) -> tuple[str, Shape, bytes | memoryview, bool]:
        return (self.dtype, self.shape, self.data, self.splat)

    def __repr__(self) -> str:
        if self.splat:
            return f"dense<{self.scalar()}>"
        return f"dense<{len(self.data)} bytes>"


def type_text(shape: Shape, dtype: str) -> str:
    """The type as in messages: "f32[2,3]"."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def element_type(spelling: str) -> str:
    """The name in this compiler of an element type of MLIR.

    Raises:
        CompileError: IPU does not support the type (UNIMPLEMENTED).
    """
    dtype = ELEMENT_TYPES.get(spelling)
    if dtype is None:
        raise CompileError(
            f"element type {spelling} is not supported on IPU; convert to one of: "
            + ", ".join(sorted(set(ELEMENT_TYPES.values())))
        )
    return dtype
