"""Large constants of a StableHLO artifact, read where they lie: MLIR would copy each of them several times.

Before an artifact is parsed, each large constant is replaced by a splat of the same type, a stand-in whose value no
other constant of that type has. The importer reads the elements in the memory of the artifact wherever it finds one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend import bytecode
from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.frontend.literals import DENSE, literal
from jax_ipu.compiler.types import SIZE, Literal, Shape, element_type, numpy_dtype

# Bytes from which a constant is large.
LARGE = 1 << 14
# The most bytes of an element whose type has stand-ins.
_MOST_BYTES = 8
# The newest version of the encoding that is known.
_VERSION = 6
# Who writes VHLO, and its numbers, which are stable: the attribute of a constant, the type of a tensor, element types.
# Sub-byte types, booleans, f8 and complex numbers are left to MLIR.
_PRODUCER = b"StableHLO_v"
_TENSOR_ATTRIBUTE, _TENSOR_TYPE = 15, 20
# The number of constants in MLIR's own dialect, as operations have them that VHLO lacks.
_DENSE_ATTRIBUTE = 17
_ELEMENT_TYPES = {
    **{2: "bf16", 3: "f16", 4: "f32", 5: "f64"},
    **{11: "s8", 12: "s16", 13: "s32", 14: "s64", 16: "u8", 17: "u16", 18: "u32", 19: "u64"},
}
_FLOATS = ("bf16", "f16", "f32", "f64")
_INTEGERS = tuple(dtype for dtype in _ELEMENT_TYPES.values() if dtype not in _FLOATS)

_Type = tuple[Shape, str]
_Key = tuple[Shape, str, bytes]


@dataclass(frozen=True)
class LargeConstants:
    """Constants of an artifact that stand-ins replace in its module.

    Attributes:
        elements: (shape, element type, value of the stand-in) -> the elements, in the memory of the artifact.
        uses: how many operations each stand-in is the value of; the same at every stage, or the artifact is parsed
            as it is.
        parse_whole: parses the artifact without stand-ins.
    """

    elements: dict[_Key, memoryview] = field(default_factory=dict)
    uses: Counter[_Key] = field(default_factory=Counter)
    parse_whole: Callable[[], mlir.Module] | None = None

    def __bool__(self) -> bool:
        return bool(self.elements)

    @property
    def are_unusual(self) -> bool:
        """Whether no rule that expands an operation writes constants like the stand-ins."""
        return all(SIZE[dtype] > 2 for _, dtype, _ in self.elements)

    def behind(self, literal: Literal) -> Literal:
        """The constant that `literal` stands for; `literal` itself where it is no stand-in."""
        data = self.elements.get(_key(literal)) if self.elements and literal.splat else None
        return literal if data is None else Literal(literal.dtype, literal.shape, data, False)

    def stand_in(self, operation: Any) -> _Key | None:
        """The stand-in that a constant operation has as its value."""
        attribute = _large_attribute(operation)
        if attribute is None or not attribute.is_splat or not self.elements:
            return None
        tensor: Any = attribute.type
        key = _key(literal(attribute, tuple(tensor.shape), element_type(str(tensor.element_type))))
        return key if key in self.elements else None

    def is_large(self, operation: Any) -> bool:
        """Whether the elements of a constant operation are many, or those of a stand-in."""
        attribute = _large_attribute(operation)
        return attribute is not None and (not attribute.is_splat or self.stand_in(operation) is not None)

    def uses_in(self, module: mlir.Module) -> Counter[_Key]:
        """How many operations of a module each stand-in is the value of."""
        roots = [op.operation for op in nested_ops(module.operation)]
        found = [self.stand_in(op) for op in roots if op.name == "stablehlo.constant"]
        return Counter(key for key in found if key is not None)


def _key(literal: Literal) -> _Key:
    return literal.shape, literal.dtype, bytes(literal.data)


def _large_attribute(operation: Any) -> Any:
    """The value of a constant operation, if its type is that of a large constant."""
    try:
        attribute = operation.attributes["value"]
    except (RuntimeError, TypeError):  # MLIR's bindings have no class for complex numbers
        return None
    return attribute if type(attribute) in DENSE and len(attribute) * _MOST_BYTES >= LARGE else None


def may_be_large(shape: Shape) -> bool:
    """Whether a constant of this shape may be large, whatever its element type."""
    return math.prod(shape) * _MOST_BYTES >= LARGE


def only_in_constants(module: mlir.Module) -> bool:
    """Whether no operation but constants has a large dense attribute, which could be a stand-in."""
    roots = [module.operation, *(op.operation for op in nested_ops(module.operation))]
    try:
        return not any(
            _may_be_large(op.attributes[name])
            for op in roots
            if op.name != "stablehlo.constant"
            for name in op.attributes.keys()
        )
    except (RuntimeError, TypeError, UnicodeDecodeError):  # MLIR's bindings cannot read one
        return False


def _may_be_large(attribute: Any) -> bool:
    kind = type(attribute)
    if kind in DENSE:
        return len(attribute) * _MOST_BYTES >= LARGE
    if kind is mlir.ArrayAttr:
        return any(_may_be_large(attribute[i]) for i in range(len(attribute)))
    if kind is mlir.DictAttr:
        return any(_may_be_large(attribute[name]) for name in [entry.name for entry in attribute])
    return kind not in _WITHOUT_PARTS and "dense<" in str(attribute)


_WITHOUT_PARTS = frozenset(
    (
        *(mlir.IntegerAttr, mlir.FloatAttr, mlir.BoolAttr, mlir.StringAttr, mlir.FlatSymbolRefAttr, mlir.TypeAttr),
        *(mlir.UnitAttr, mlir.DenseI64ArrayAttr, mlir.DenseI32ArrayAttr, mlir.DenseBoolArrayAttr),
    )
)


def set_aside(artifact: bytes | memoryview) -> tuple[bytes, LargeConstants] | None:
    """The artifact with stand-ins, and the constants. None: there are none, or it is not as expected."""
    if len(artifact) < LARGE or bytes(artifact[:4]) != bytecode.MAGIC:
        return None
    view = memoryview(artifact)
    try:
        return _set_aside(view)
    except (IndexError, ValueError):  # damaged, which the parser will say
        return None


def _set_aside(view: memoryview) -> tuple[bytes, LargeConstants] | None:
    version, begin = bytecode.read_number(view, len(bytecode.MAGIC))
    if version > _VERSION or bytes(view[begin : begin + len(_PRODUCER)]) != _PRODUCER:
        return None
    start, sections = bytecode.sections(view)
    by_id = {number: content for number, content in sections}
    if len(by_id) != len(sections) or not {bytecode.ATTRIBUTE_SIZES, bytecode.ATTRIBUTES} <= by_id.keys():
        return None
    attributes, types = bytecode.entries(by_id[bytecode.ATTRIBUTE_SIZES], by_id[bytecode.ATTRIBUTES])
    if max((len(content) for _, content, _ in attributes), default=0) < LARGE:
        return None
    # Those that are written as text are no values of VHLO's operations; where they could be, none of this holds.
    if any(not custom and b"dense" in bytes(content) for _, content, custom in attributes):
        return None
    numbers = [bytecode.read_number(content, 0)[0] if custom and content else None for _, content, custom in attributes]
    found = list(zip(attributes, numbers, strict=True))
    vhlo = {entry[0] for entry, number in found if number == _TENSOR_ATTRIBUTE and len(entry[1]) >= LARGE}
    if len(vhlo) != 1 or any(number == _DENSE_ATTRIBUTE and entry[0] not in vhlo for entry, number in found):
        return None
    constants = _Constants([content for _, content, _ in types])
    tensors = [constants.tensor(content) if custom and group in vhlo else None for group, content, custom in attributes]
    elements: dict[_Key, memoryview] = {}
    taken = {(*kind, bytes(data)) for tensor in tensors if tensor for _, kind, data in [tensor] if len(data) <= 8}
    for i, tensor in enumerate(tensors):
        if tensor is None:
            continue
        prefix, kind, data = tensor
        if len(data) < LARGE:
            continue
        stand_in = next((v for v in _values(kind[1]) if (*kind, v) not in taken), None)
        if stand_in is None:
            if _is_repeated(data, SIZE[kind[1]]):
                return None  # MLIR reads it as a splat, maybe of the value of a stand-in
            continue
        taken.add((*kind, stand_in))
        elements[*kind, stand_in] = data
        group, _, custom = attributes[i]
        attributes[i] = group, memoryview(prefix + bytecode.number(len(stand_in)) + stand_in), custom
    if not elements:
        return None
    changed = {
        bytecode.ATTRIBUTE_SIZES: bytecode.write_sizes(attributes, types),
        bytecode.ATTRIBUTES: b"".join(content for _, content, _ in (*attributes, *types)),
    }
    parts = [bytes(view[:start])]
    for number, content in sections:
        content = memoryview(changed.get(number, content))
        parts += [bytes([number]), bytecode.number(len(content)), bytes(content)]
    return b"".join(parts), LargeConstants(elements)


def _is_repeated(data: memoryview, size: int) -> bool:
    """Whether all elements are equal."""
    elements = np.frombuffer(data, f"u{size}")
    return bool((elements == elements[0]).all())


def _values(dtype: str) -> Iterator[bytes]:
    """Values of a type, as bytes; of floats normal ones, which any arithmetic keeps; of wide types unusual ones."""
    size = SIZE[dtype]
    first = int.from_bytes(np.full((), 1.1037, numpy_dtype(dtype)).tobytes(), "little") if dtype in _FLOATS else 0
    if dtype in _INTEGERS and size > 2:
        first = 0x3F8D4C2B
    for i in range(1 << min(8 * size - 1, 12)):
        yield (first + i).to_bytes(size, "little")


class _Constants:
    def __init__(self, types: list[memoryview]) -> None:
        self._types = types
        self._known: dict[int, _Type | None] = {}

    def tensor(self, entry: memoryview) -> tuple[bytes, _Type, memoryview] | None:
        """The bytes before the length of the elements, the type, and the elements of a constant's attribute.

        None: it is another attribute, or of other elements. ValueError: it is not as expected.
        """
        if len(entry) < 4:
            return None
        number, i = bytecode.read_number(entry, 0)
        if number != _TENSOR_ATTRIBUTE:
            return None
        index, i = bytecode.read_number(entry, i)
        size, begin = bytecode.read_number(entry, i)
        kind = self._type(index)
        if kind is None:
            return None
        if begin + size != len(entry) or size not in (SIZE[kind[1]], SIZE[kind[1]] * math.prod(kind[0])):
            raise ValueError
        return bytes(entry[:i]), kind, entry[begin:]

    def _type(self, index: int) -> _Type | None:
        if index not in self._known:
            self._known[index] = self._read_type(self._types[index])
        return self._known[index]

    def _read_type(self, entry: memoryview) -> _Type | None:
        number, i = bytecode.read_number(entry, 0)
        if number != _TENSOR_TYPE:
            raise ValueError  # a type with an encoding, which is no part of the key
        rank, i = bytecode.read_number(entry, i)
        shape = []
        for _ in range(rank):
            size, i = bytecode.read_number(entry, i)
            if size & 1:  # negative: dynamic
                return None
            shape.append(size >> 1)
        element, i = bytecode.read_number(entry, i)
        code, end = bytecode.read_number(self._types[element], 0)
        if i != len(entry) or end != len(self._types[element]) or code not in _ELEMENT_TYPES:
            return None
        return tuple(shape), _ELEMENT_TYPES[code]
