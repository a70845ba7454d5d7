"""The layouts that a caller asks for: the attribute LAYOUT_MODE of an argument or result."""

from __future__ import annotations

import re
from typing import Any

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import LAYOUT_MODE, Value

# Dimensions from major to minor in memory.
Order = tuple[int, ...]
# The modes of JAX: row-major, and the choice of the compiler.
_DEFAULT, _AUTO = "default", "auto"
_DIMENSIONS = re.compile(r"\{([\d,]*)(.*)\}")


def is_automatic(attrs: dict[str, Any]) -> bool:
    """Whether the layout of an argument or result with these attributes is left to the compiler."""
    return attrs.get(LAYOUT_MODE) == _AUTO


def row_major(value: Value) -> Order:
    """The dimensions of `value` in their own order."""
    return tuple(range(len(value.shape)))


def requested_order(attrs: dict[str, Any], value: Value, name: str) -> Order:
    """The dimensions of an argument or result from major to minor; row-major for the modes "default" and "auto".

    Args:
        attrs: the attributes of the argument or result.
        value: its value.
        name: what messages call it.

    Raises:
        CompileError: the layout has tiles or other properties (UNIMPLEMENTED), or is not valid (INVALID_ARGUMENT).
    """
    mode = attrs.get(LAYOUT_MODE, _DEFAULT)
    if mode in (_DEFAULT, _AUTO):
        return row_major(value)
    parsed = _DIMENSIONS.fullmatch(mode)
    if parsed is None:
        raise CompileError(f"{name} has the layout {mode!r}, which is not valid", INVALID_ARGUMENT)
    dimensions, properties = parsed.groups()
    if properties:
        raise CompileError(
            f"{name} has the layout {mode}: layouts on IPU are an order of dimensions, Layout(major_to_minor=...); "
            "leave out tiling and sub_byte_element_size_in_bits"
        )
    order = tuple(int(d) for d in reversed(dimensions.split(",")) if d)
    if sorted(order) != list(row_major(value)):
        raise CompileError(
            f"{name} has the layout {mode}, which is not an order of its {len(value.shape)} dimensions",
            INVALID_ARGUMENT,
        )
    return order
