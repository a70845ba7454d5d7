"""Calls of foreign functions (jax.ffi): custom calls with a dictionary of attributes, as in XLA's typed FFI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu import _ipu
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.types import Shape, element_type, numpy_dtype

# The attribute of an op that holds its FfiCall.
ATTRIBUTE = "ipu.ffi"
# The attributes of a custom call that hold the attributes for the handler.
CONFIGURATIONS = ("mhlo.backend_config", "backend_config")


@dataclass(frozen=True)
class Attribute:
    """An attribute of a call.

    `kind` is "scalar", "array", "string" or "dictionary". Scalars and arrays have a `dtype`. Arrays have a `shape`,
    which handlers do not get.
    """

    name: str
    kind: str
    dtype: str = "u8"
    data: bytes = b""
    members: tuple[Attribute, ...] = ()
    shape: Shape = ()

    def spec(self) -> _ipu.FfiAttribute:
        """The attribute as `_ipu.Executable` takes it."""
        members = [member.spec() for member in self.members]
        return _ipu.FfiAttribute(name=self.name, kind=self.kind, dtype=self.dtype, data=self.data, members=members)


@dataclass(frozen=True)
class Buffer:
    """An operand or result: its shape, and its dimensions from major to minor in the memory of the handler."""

    shape: Shape
    major_to_minor: tuple[int, ...]
    is_token: bool


@dataclass(frozen=True)
class FfiCall:
    """A call; `aliases` is for each result the operand whose memory it shares, or -1."""

    target: str
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    aliases: tuple[int, ...]
    attributes: Attribute


def read(operation: Any) -> FfiCall | None:
    """The call of a foreign function that a `stablehlo.custom_call` is; None where its configuration is text.

    Raises:
        CompileError: it has attributes that handlers cannot take (INVALID_ARGUMENT).
    """
    attrs = operation.attributes
    configuration = next((attrs[key] for key in CONFIGURATIONS if key in attrs), None)
    if not isinstance(configuration, mlir.DictAttr):
        return None
    target = str(attrs["call_target_name"].value)
    try:
        attributes = _dictionary("", configuration)
    except CompileError as error:
        where = source_line(operation.location) or "an unknown source line"
        raise CompileError(f"{error} (the foreign function {target!r} at {where})", error.code) from None
    operands, results = _types(operation.operands), _types(operation.results)
    aliases = [-1] * len(results)
    for alias in attrs["output_operand_aliases"] if "output_operand_aliases" in attrs else ():
        typed = stablehlo.OutputOperandAlias(alias)
        aliases[typed.output_tuple_indices[0] if typed.output_tuple_indices else 0] = typed.operand_index
    return FfiCall(
        target,
        _buffers(operands, attrs, "operand_layouts"),
        _buffers(results, attrs, "result_layouts"),
        tuple(aliases),
        attributes,
    )


def _types(values: Any) -> list[Any]:
    """The types of the values; those in a tuple, into which XLA's partitioner puts several results."""
    types: list[Any] = []
    for value in values:
        packed = isinstance(value.type, mlir.TupleType)
        types += [value.type.get_type(i) for i in range(value.type.num_types)] if packed else [value.type]
    return types


def _buffers(types: list[Any], attrs: Any, key: str) -> tuple[Buffer, ...]:
    layouts = list(attrs[key]) if key in attrs else [None] * len(types)
    buffers = []
    for mlir_type, layout in zip(types, layouts, strict=True):
        is_token = not isinstance(mlir_type, mlir.RankedTensorType)
        shape = () if is_token else tuple(mlir_type.shape)
        order = range(len(shape)) if layout is None or is_token else map(int, reversed(np.asarray(layout)))
        buffers.append(Buffer(shape, tuple(order), is_token))
    return tuple(buffers)


def _dictionary(name: str, attr: Any) -> Attribute:
    members = []
    for key in sorted((entry.name for entry in attr), key=str.encode):
        try:
            member = attr[key]
        except TypeError:  # MLIR's bindings have no class for it
            raise _unsupported(key, "an array of complex numbers") from None
        members.append(_attribute(key, member))
    return Attribute(name, "dictionary", members=tuple(members))


def _attribute(name: str, attr: Any) -> Attribute:
    if isinstance(attr, mlir.DictAttr):
        return _dictionary(name, attr)
    if isinstance(attr, mlir.StringAttr):
        return Attribute(name, "string", data=attr.value_bytes)
    if isinstance(attr, mlir.BoolAttr):
        return Attribute(name, "scalar", "pred", bytes([attr.value]))
    if isinstance(attr, (mlir.IntegerAttr, mlir.FloatAttr)):
        dtype = _element_type(name, attr.type)
        return Attribute(name, "scalar", dtype, np.array(attr.value).astype(numpy_dtype(dtype)).tobytes())
    for array, dtype in _ARRAYS.items():
        if isinstance(attr, array):
            values: Any = attr
            return Attribute(name, "array", dtype, np.array(list(values), numpy_dtype(dtype)).tobytes())
    if isinstance(attr, (mlir.DenseIntElementsAttr, mlir.DenseFPElementsAttr)):
        tensor: Any = attr.type
        dtype = _element_type(name, tensor.element_type)
        try:
            elements = np.asarray(attr)
        except (TypeError, BufferError):  # Python's buffers have no such element type
            raise _unsupported(name, f"an array of {tensor.element_type}") from None
        return Attribute(name, "array", dtype, elements.astype(numpy_dtype(dtype)).tobytes(), shape=elements.shape)
    raise _unsupported(name, str(attr))


_ARRAYS: dict[type, str] = {
    mlir.DenseBoolArrayAttr: "pred",
    mlir.DenseI8ArrayAttr: "s8",
    mlir.DenseI16ArrayAttr: "s16",
    mlir.DenseI32ArrayAttr: "s32",
    mlir.DenseI64ArrayAttr: "s64",
    mlir.DenseF32ArrayAttr: "f32",
    mlir.DenseF64ArrayAttr: "f64",
}


def _element_type(name: str, mlir_type: Any) -> str:
    try:
        return element_type(str(mlir_type))
    except CompileError:
        raise _unsupported(name, f"of type {mlir_type}") from None


def _unsupported(name: str, what: str) -> CompileError:
    return CompileError(
        f"the attribute {name!r} is {what}, which a handler cannot be given; use numbers, strings, arrays of numbers "
        "and dictionaries of them",
        INVALID_ARGUMENT,
    )


def spec(call: FfiCall, location: Any, types: tuple[list[str], list[str]]) -> _ipu.FfiCallSpec:
    """The call as `_ipu.Executable` takes it; `types`: the dtypes of operands and of results."""

    def buffers(of_call: tuple[Buffer, ...], dtypes: list[str]) -> list[_ipu.FfiBuffer]:
        # A token takes no memory.
        return [
            _ipu.FfiBuffer(dtype=dtype, shape=(0,) if buffer.is_token else buffer.shape, is_token=buffer.is_token)
            for buffer, dtype in zip(of_call, dtypes, strict=True)
        ]

    return _ipu.FfiCallSpec(
        target=call.target,
        location=source_line(location),
        operands=buffers(call.operands, types[0]),
        results=buffers(call.results, types[1]),
        aliased_operands=call.aliases,
        attributes=call.attributes.spec(),
    )
