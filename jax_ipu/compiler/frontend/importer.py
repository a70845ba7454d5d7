"""Stage "import": an MLIR module in StableHLO to the IR."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler import ffi_calls
from jax_ipu.compiler.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.frontend.attributes import BY_NAME, BY_TYPE, argument_attributes, attribute, entries_of
from jax_ipu.compiler.frontend.donation import restore_attributes
from jax_ipu.compiler.frontend.literals import bytes_from_text, literal
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.ir import Block, Function, Module, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.types import COMPLEX, FLOAT, MAX_BYTES, SIZE, Literal, Shape, element_type

# The import registers the Python classes of the dialect.
importlib.import_module("jaxlib.mlir.dialects.func")

# XLA's own ops with an equivalent in CHLO.
_XLA_NAMES = {"mhlo.erf": "chlo.erf", "mhlo.topk": "chlo.top_k"}


class _Types:
    """Cache from MLIR type to the (shape, dtype) of its tensors: one, or those in a tuple."""

    def __init__(self) -> None:
        self._known: dict[Any, list[tuple[Shape, str]]] = {}

    def __call__(self, mlir_type: Any) -> list[tuple[Shape, str]]:
        known = self._known.get(mlir_type)
        if known is None:
            if isinstance(mlir_type, mlir.TupleType):
                known = [leaf for t in _members(mlir_type) for leaf in self(t)]
            else:
                known = [self._convert(mlir_type)]
            self._known[mlir_type] = known
        return known

    @staticmethod
    def _convert(mlir_type: Any) -> tuple[Shape, str]:
        if not isinstance(mlir_type, mlir.RankedTensorType):
            if str(mlir_type) == "!stablehlo.token":
                # Ops with effects run in program order, so a token needs no value; JAX passes it as an empty array.
                return ((0,), "pred")
            raise CompileError(f"values of type {mlir_type} are not supported on IPU; use dense tensors")
        if not mlir_type.has_static_shape:
            raise CompileError(f"dynamic shape {mlir_type} is not supported on IPU; make all dimensions static")
        element = str(mlir_type.element_type)
        if element.startswith("!quant"):
            raise CompileError(f"quantised type {mlir_type} is not supported on IPU; dequantise to float first")
        shape, dtype = tuple(mlir_type.shape), element_type(element)
        # Empty tensors count as well: their other dimensions are multiplied into strides.
        if SIZE[dtype] * math.prod(n for n in shape if n) > MAX_BYTES:
            raise CompileError(
                f"a tensor of type {mlir_type} is larger than the memory of the largest system, "
                f"{MAX_BYTES >> 40} TiB; use smaller dimensions",
                RESOURCE_EXHAUSTED,
            )
        return shape, dtype


def _members(tuple_type: Any) -> list[Any]:
    return [tuple_type.get_type(i) for i in range(tuple_type.num_types)]


def _nested(tuple_type: Any, leaves: Iterator[Value]) -> list[Any]:
    """The elements of a tuple; an inner tuple is a list."""
    members = _members(tuple_type)
    return [_nested(t, leaves) if isinstance(t, mlir.TupleType) else next(leaves) for t in members]


def _flat(element: Any) -> Iterator[Value]:
    if isinstance(element, list):
        for inner in element:
            yield from _flat(inner)
    else:
        yield element


class _Importer:
    """Copies MLIR into the IR. Tuples are flattened into operands, results and block arguments."""

    def __init__(self) -> None:
        self._types = _Types()
        self._values: dict[Any, Value] = {}
        self._tuples: dict[Any, list[Any]] = {}
        self.origins: dict[Op, Any] = {}

    def block(self, mlir_block: Any) -> Block:
        values, tuples = self._values, self._tuples
        args: list[Value] = []
        for argument in mlir_block.arguments:
            mlir_type = argument.type
            own = [Value(shape, dtype, None, len(args) + i) for i, (shape, dtype) in enumerate(self._types(mlir_type))]
            self._bind(argument, mlir_type, own)
            args += own
        ops: list[Op] = []
        for view in mlir_block.operations:
            operation = view.operation
            name = operation.name
            dialect, _, short = name.partition(".")
            if dialect in ("stablehlo", "func", "mhlo"):
                name = _XLA_NAMES.get(name, short)
            if name == "tuple":
                tuples[operation.results[0]] = [self._value(o) for o in operation.operands]
                continue
            if name == "get_tuple_element":
                element = tuples[operation.operands[0]][operation.attributes["index"].value]
                (tuples if isinstance(element, list) else values)[operation.results[0]] = element
                continue
            results = list(operation.results)
            mlir_types = [r.type for r in results]
            try:
                leaves_of = [self._types(t) for t in mlir_types]
            except CompileError as error:
                raise CompileError(
                    f"{error} (op {name} at {source_line(operation.location) or 'unknown'})", error.code
                ) from None
            result_types = [leaf for leaves in leaves_of for leaf in leaves]
            attrs = self._attributes(name, operation, result_types)
            regions = [self.block(region.blocks[0]) for region in operation.regions if len(region.blocks)]
            if tuples:
                operands = [leaf for o in operation.operands for leaf in _flat(self._value(o))]
            else:
                operands = [values[o] for o in operation.operands]
            op = Op(name, operands, result_types, attrs, regions, operation.location)
            if name == "all_reduce":
                self.origins[op] = operation
            elif name == "compare":
                _check_compare_type(op)
            elif name == "collective_broadcast" and op.attrs.get("has_dynamic_root"):
                where = source_line(op.location) or "unknown"
                raise CompileError(
                    f"collective_broadcast at {where} chooses its root at run time, which is not supported on IPU; "
                    "name the root in replica_groups, or use all_gather and a dynamic slice"
                )
            made = iter(op.results)
            for mlir_result, mlir_type, leaves in zip(results, mlir_types, leaves_of, strict=True):
                self._bind(mlir_result, mlir_type, [next(made) for _ in leaves])
            ops.append(op)
        return Block(args, ops)

    def _value(self, mlir_value: Any) -> Any:
        """The value; for a tuple, the nested list of its values."""
        value = self._values.get(mlir_value)
        return self._tuples[mlir_value] if value is None else value

    def _bind(self, mlir_value: Any, mlir_type: Any, leaves: list[Value]) -> None:
        if isinstance(mlir_type, mlir.TupleType):
            self._tuples[mlir_value] = _nested(mlir_type, iter(leaves))
        else:
            self._values[mlir_value] = leaves[0]

    def _attributes(self, name: str, operation: Any, result_types: list[tuple[Shape, str]]) -> dict[str, Any]:
        mlir_attrs = operation.attributes
        if not len(mlir_attrs):
            return {}
        if name == "constant":
            shape, dtype = result_types[0]
            try:
                return {"value": literal(mlir_attrs["value"], shape, dtype)}
            except (RuntimeError, TypeError):
                # MLIR's bindings have no class for dense attributes of complex numbers: read the assembly.
                assembly = operation.get_asm()
                text = assembly[assembly.index("dense<") :].rstrip()
                data = bytes_from_text(text, dtype)
                return {"value": Literal(dtype, shape, data, len(data) == SIZE[dtype])}
        attrs: dict[str, Any] = {}
        call = ffi_calls.read(operation) if name == "custom_call" else None
        if call is not None:
            attrs[ffi_calls.ATTRIBUTE] = call
        for key, attr in mlir_attrs.items():
            if call is not None and key in ffi_calls.CONFIGURATIONS:
                continue
            convert = BY_NAME.get(key) or BY_TYPE.get(type(attr)) or attribute
            attrs[key] = convert(attr)
        return attrs

    def function(self, operation: Any) -> Function:
        attrs = operation.attributes
        block = self.block(operation.regions[0].blocks[0])
        arg_attrs = argument_attributes(operation, len(block.args))
        result_attrs = entries_of(attrs, "res_attrs", len(block.results))
        return Function(attrs["sym_name"].value, block, arg_attrs, result_attrs)


def _check_compare_type(op: Op) -> None:
    """Raises CompileError (INVALID_ARGUMENT) for a comparison type that does not fit the operands, as XLA does."""
    dtype, given = op.operands[0].dtype, op.attrs.get("compare_type", "NOTYPE")
    if dtype in FLOAT or dtype in COMPLEX:
        good = ("FLOAT", "TOTALORDER") if dtype in FLOAT else ("FLOAT",)
    else:
        good = ("SIGNED",) if dtype.startswith("s") else ("UNSIGNED",)
    if given not in ("NOTYPE", *good):
        where = source_line(op.location) or "unknown"
        raise CompileError(
            f"compare of {dtype} has the comparison type {given}; it must be {' or '.join(good)} (at {where})",
            INVALID_ARGUMENT,
        )


def import_program(program: LegalProgram) -> Module:
    """Copies the program into the IR; `program` stays as it is, so that every attempt to compile may import it.

    Raises:
        CompileError: a type is not supported, such as a dynamic shape that no pass could remove (UNIMPLEMENTED), a
            tensor is larger than the memory of any system (RESOURCE_EXHAUSTED), or the module is damaged
            (INVALID_ARGUMENT).
    """
    module = _import_module(program.source)
    if program.whole is not None:
        restore_attributes(module.main, program.whole)
    module.num_replicas, module.num_partitions = program.num_replicas, program.num_partitions
    return module


def _import_module(source: mlir.Module) -> Module:
    importer = _Importer()
    functions: dict[str, Function] = {}
    for view in source.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            function = importer.function(operation)
            functions[function.name] = function
    if "main" not in functions:
        raise CompileError('the program has no function "main"', INVALID_ARGUMENT)
    attrs = {name: attribute(value) for name, value in source.operation.attributes.items()}
    imported = Module(str(attrs.get("sym_name", "main")), functions, attrs, source)
    imported.origins = importer.origins
    return imported
