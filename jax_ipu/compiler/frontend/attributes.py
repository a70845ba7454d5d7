"""Converts MLIR attributes to plain Python values; reads the attributes of the signature of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import ARGUMENT_NAME
from jax_ipu.compiler.location import argument_name


def _ints(attr: Any) -> tuple[int, ...]:
    # By index: the end of an iteration over such an attribute is a C++ exception, which takes longer than the rest.
    return tuple([attr[i] for i in range(len(attr))])


def _array(attr: Any) -> tuple[Any, ...]:
    return tuple(attribute(a) for a in attr)


def _dense(attr: Any) -> Any:
    # Padding of convolutions and windows: [[low, high], ...] as a dense tensor.
    array = np.asarray(attr)
    return tuple(map(tuple, array.tolist())) if array.ndim > 1 else tuple(array.tolist())


BY_TYPE: dict[type, Callable[[Any], Any]] = {
    mlir.DenseI64ArrayAttr: _ints,
    mlir.DenseI32ArrayAttr: _ints,
    mlir.DenseBoolArrayAttr: lambda a: tuple([bool(a[i]) for i in range(len(a))]),
    mlir.IntegerAttr: lambda a: a.value,
    mlir.BoolAttr: lambda a: a.value,
    mlir.FloatAttr: lambda a: a.value,
    mlir.StringAttr: lambda a: a.value,
    mlir.FlatSymbolRefAttr: lambda a: a.value,
    mlir.ArrayAttr: _array,
    mlir.DenseIntElementsAttr: _dense,
    mlir.DenseFPElementsAttr: _dense,
    mlir.UnitAttr: lambda a: True,
    mlir.TypeAttr: lambda a: str(a.value),
    mlir.DictAttr: lambda a: {name: read(a, name) for name in _names(a)},
}


def _fields(wrapper: Any, names: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    def convert(attr: Any) -> dict[str, Any]:
        typed = wrapper(attr)
        result = {}
        for name in names:
            value = getattr(typed, name)
            result[name] = value if isinstance(value, int) else tuple(value)
        return result

    return convert


_DOT = _fields(
    stablehlo.DotDimensionNumbers,
    (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ),
)
_GATHER = _fields(
    stablehlo.GatherDimensionNumbers,
    (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    ),
)
_SCATTER = _fields(
    stablehlo.ScatterDimensionNumbers,
    (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scattered_dims_to_operand_dims",
        "index_vector_dim",
    ),
)
_CONV = _fields(
    stablehlo.ConvDimensionNumbers,
    (
        "input_batch_dimension",
        "input_feature_dimension",
        "input_spatial_dimensions",
        "kernel_input_feature_dimension",
        "kernel_output_feature_dimension",
        "kernel_spatial_dimensions",
        "output_batch_dimension",
        "output_feature_dimension",
        "output_spatial_dimensions",
    ),
)


def _dimension_numbers(attr: Any) -> dict[str, Any]:
    if stablehlo.GatherDimensionNumbers.isinstance(attr):
        return _GATHER(attr)
    return _CONV(attr)


BY_NAME: dict[str, Callable[[Any], Any]] = {
    "dot_dimension_numbers": _DOT,
    "scatter_dimension_numbers": _SCATTER,
    "dimension_numbers": _dimension_numbers,
    "comparison_direction": lambda a: stablehlo.ComparisonDirectionAttr(a).value,
    "compare_type": lambda a: stablehlo.ComparisonTypeAttr(a).value,
    "fft_type": lambda a: stablehlo.FftTypeAttr(a).value,
    "rng_algorithm": lambda a: stablehlo.RngAlgorithmAttr(a).value,
    "rng_distribution": lambda a: stablehlo.RngDistributionAttr(a).value,
    "transpose_a": lambda a: stablehlo.TransposeAttr(a).value,
}


def attribute(attr: Any) -> Any:
    """An MLIR attribute as a number, string, tuple or dictionary; as its assembly where it is none of these."""
    convert = BY_TYPE.get(type(attr))
    if convert is not None:
        return convert(attr)
    if stablehlo.PrecisionAttr.isinstance(attr):
        return stablehlo.PrecisionAttr(attr).value
    return str(attr)


# What attributes of arguments and results are, where passes read them.
_TYPES: dict[str, type] = {"tf.aliasing_output": int, "mhlo.layout_mode": str, "mhlo.memory_kind": str}


def read(attrs: Any, name: str, convert: Callable[[Any], Any] | None = None) -> Any:
    """The attribute `name` of `attrs`, by `convert` or as `attribute` gives it.

    Raises CompileError: MLIR's bindings or `convert` cannot read it, as in a damaged program (INVALID_ARGUMENT).
    """
    try:
        return (convert or attribute)(attrs[name])
    except UnicodeDecodeError:
        raise  # a name that is not UTF-8, which the caller reports for the whole program
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CompileError(f"the attribute {name!r} cannot be read: {error}", INVALID_ARGUMENT) from error


def _names(attrs: Any) -> list[str]:
    # Not the attributes themselves: where the bindings have no class for one, that ends the process.
    return [entry.name for entry in attrs]


def entries_of(attrs: Any, key: str, count: int) -> list[dict[str, Any]]:
    """The entries of the attribute "arg_attrs" or "res_attrs" (`key`) for the `count` arguments or results."""
    if key not in attrs:
        return [{} for _ in range(count)]
    entries = read(attrs, key, lambda array: [{name: read(entry, name) for name in _names(entry)} for entry in array])
    for entry in entries:
        for name, kind in _TYPES.items():
            if name in entry and type(entry[name]) is not kind:
                raise CompileError(f"the attribute {name!r} is not of the type {kind.__name__}", INVALID_ARGUMENT)
    # The attributes of a tuple do not apply to its elements.
    return entries if len(entries) == count else [{} for _ in range(count)]


def argument_attributes(operation: Any, count: int) -> list[dict[str, Any]]:
    """The attributes of the `count` arguments of a function, with the names that JAX gives them."""
    entries = entries_of(operation.attributes, "arg_attrs", count)
    arguments = operation.regions[0].blocks[0].arguments
    if len(arguments) == count:
        for entry, argument in zip(entries, arguments, strict=True):
            if name := argument_name(argument.location):
                entry[ARGUMENT_NAME] = name
    return entries


def main_operation(module: mlir.Module) -> mlir.Operation:
    """The function "main"."""
    for view in module.body.operations:
        operation = view.operation
        name: Any = operation.attributes["sym_name"] if operation.name == "func.func" else None
        if name is not None and name.value == "main":
            return operation
    raise CompileError('the program has no function "main"', INVALID_ARGUMENT)


def signature_attributes(module: mlir.Module) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The attributes of the arguments and of the results of "main", without importing its body."""
    operation = main_operation(module)
    block = operation.regions[0].blocks[0]
    count = len(block.operations[len(block.operations) - 1].operands)
    arguments = argument_attributes(operation, len(block.arguments))
    return arguments, entries_of(operation.attributes, "res_attrs", count)
