"""Restores the donation attributes of a partitioned program, which XLA's partitioner drops."""

from __future__ import annotations

from typing import Any

from jax_ipu.compiler.frontend.programs import WholeSignature
from jax_ipu.compiler.ir import ARGUMENT_NAME, LAYOUT_MODE, MEMORY_KIND, RESULT_NAME, Function, Value, size_in_bytes
from jax_ipu.compiler.layout_modes import is_automatic, requested_order
from jax_ipu.compiler.types import Shape

_KEPT = (MEMORY_KIND, LAYOUT_MODE, ARGUMENT_NAME, RESULT_NAME)


def restore_attributes(main: Function, whole: WholeSignature) -> None:
    """Gives the function of one partition the attributes that the signature of the whole program has."""
    main.result_attrs = [_placement(attrs) for attrs in whole.results]
    main.arg_attrs = [
        donated | _placement(attrs)
        for donated, attrs in zip(donation(whole.arguments, main), whole.arguments, strict=True)
    ]


def _placement(attrs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if key in _KEPT}


def donation(whole: list[dict[str, Any]], local: Function) -> list[dict[str, Any]]:
    """The donation attributes of the arguments of one partition.

    Where JAX does not know the shardings of the results, the compiler chooses the result that replaces a donated
    argument: the first free one of the same local type, memory kind and layout. A donated argument stays valid where no
    free result has its size, as on other platforms.

    Args:
        whole: the attributes of the arguments of the whole program, by position.
        local: main of one partition.
    """
    kinds = [attrs.get(MEMORY_KIND) for attrs in local.result_attrs]
    types = _types(local.block.results, local.result_attrs, "result")
    own = _types(local.block.args, whole, "argument")

    def replaces(j: int, argument: _Type) -> bool:
        # A result with automatic layout takes the layout of the argument.
        result = types[j]
        return result == argument or (is_automatic(local.result_attrs[j]) and result[:-1] == argument[:-1])

    attributes: list[dict[str, Any]] = []
    taken: set[int] = set()
    for attrs, type_ in zip(whole, own, strict=True):
        output = attrs.get("tf.aliasing_output")
        if output is not None and replaces(output, type_) and output not in taken:
            taken.add(output)
            attributes.append({"tf.aliasing_output": output})
        elif output is not None or attrs.get("jax.buffer_donor", False):
            attributes.append({"jax.buffer_donor": True})
        else:
            attributes.append({})
    for attrs, type_, value in zip(attributes, own, local.block.args, strict=True):
        if "jax.buffer_donor" not in attrs:
            continue
        free = [j for j in range(len(types)) if j not in taken]
        output = next((j for j in free if replaces(j, type_)), None)
        if output is not None:
            taken.add(output)
            attrs["tf.aliasing_output"] = output
        elif all((size_in_bytes(local.block.results[j]), kinds[j]) != (size_in_bytes(value), type_[2]) for j in free):
            del attrs["jax.buffer_donor"]
    return attributes


# Shape, element type, memory kind and layout.
_Type = tuple[Shape, str, str | None, tuple[int, ...]]


def _types(values: list[Value], attributes: list[dict[str, Any]], name: str) -> list[_Type]:
    return [
        (value.shape, value.dtype, attrs.get(MEMORY_KIND), requested_order(attrs, value, f"{name} {i}"))
        for i, (value, attrs) in enumerate(zip(values, attributes, strict=True))
    ]
