"""Stage "import": an MLIR module in StableHLO to the IR."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler import ffi_calls
from jax_ipu.compiler.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.frontend.attributes import BY_NAME, argument_attributes, entries_of, read
from jax_ipu.compiler.frontend.donation import restore_attributes
from jax_ipu.compiler.frontend.large_constants import LargeConstants, may_be_large
from jax_ipu.compiler.frontend.literals import bytes_from_text, literal
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.ir import Block, Function, Module, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.types import COMPLEX, FLOAT, MAX_BYTES, SIZE, Literal, Shape, element_type

# The import registers the Python classes of the dialect.
importlib.import_module("jaxlib.mlir.dialects.func")

# XLA's own ops with an equivalent in CHLO.
_XLA_NAMES = {"mhlo.erf": "chlo.erf", "mhlo.topk": "chlo.top_k"}
# Frequent ops of StableHLO that have no regions.
_WITHOUT_REGIONS = frozenset(
    (
        *(
            "constant",
            "broadcast_in_dim",
            "reshape",
            "transpose",
            "slice",
            "concatenate",
            "convert",
            "compare",
            "select",
        ),
        *(
            "add",
            "subtract",
            "multiply",
            "divide",
            "maximum",
            "minimum",
            "negate",
            "exponential",
            "log",
            "tanh",
            "rsqrt",
        ),
        *("and", "or", "xor", "shift_left", "shift_right_logical", "dot_general", "convolution", "call", "return"),
    )
)
_CHECKED = frozenset(("all_reduce", "compare", "collective_broadcast"))


class _Types(dict[Any, list[tuple[Shape, str]]]):
    """MLIR type -> the (shape, dtype) of its tensors: one, or those in a tuple. Filled in when a type is first met."""

    has_tuples = False

    def __missing__(self, mlir_type: Any) -> list[tuple[Shape, str]]:
        if isinstance(mlir_type, mlir.TupleType):
            self.has_tuples = True
            leaves = [leaf for t in _members(mlir_type) for leaf in self[t]]
        else:
            leaves = [self._convert(mlir_type)]
        self[mlir_type] = leaves
        return leaves

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


@functools.cache
def _own_name(name: str) -> str:
    """The name of an op in the IR."""
    dialect, _, short = name.partition(".")
    return _XLA_NAMES.get(name, short) if dialect in ("stablehlo", "func", "mhlo") else name


class _Importer:
    """Copies MLIR into the IR. Tuples are flattened into operands, results and block arguments."""

    def __init__(self, constants: LargeConstants) -> None:
        self.constants = constants
        self._types = _Types()
        self._values: dict[Any, Value] = {}
        self._tuples: dict[Any, list[Any]] = {}
        self.origins: dict[Op, Any] = {}
        self.large_constants: list[Any] = []

    def block(self, mlir_block: Any) -> Block:
        types, values, tuples = self._types, self._values, self._tuples
        args: list[Value] = []
        for argument in mlir_block.arguments:
            own = [Value(shape, dtype, None, len(args) + i) for i, (shape, dtype) in enumerate(types[argument.type])]
            self._bind([argument], own)
            args += own
        ops: list[Op] = []
        for view in mlir_block.operations:
            operation = view.operation
            name = _own_name(operation.name)
            if name == "tuple":
                tuples[operation.results[0]] = [self._value(o) for o in operation.operands]
                continue
            if name == "get_tuple_element":
                element = tuples[operation.operands[0]][operation.attributes["index"].value]
                (tuples if isinstance(element, list) else values)[operation.results[0]] = element
                continue
            results = list(operation.results)
            try:
                result_types = [leaf for r in results for leaf in types[r.type]]
            except CompileError as error:
                raise CompileError(
                    f"{error} (op {name} at {source_line(operation.location) or 'unknown'})", error.code
                ) from None
            mlir_attrs = operation.attributes
            attrs = self._attributes(name, operation, mlir_attrs, result_types) if len(mlir_attrs) else {}
            mlir_regions = () if name in _WITHOUT_REGIONS else operation.regions
            regions = [self.block(r.blocks[0]) for r in mlir_regions if len(r.blocks)] if len(mlir_regions) else ()
            if tuples:
                operands = [leaf for o in operation.operands for leaf in _flat(self._value(o))]
            else:
                operands = [values[o] for o in operation.operands]
            op = Op(name, operands, result_types, attrs, regions, operation.location)
            if name in _CHECKED:
                self._check(op, operation)
            self._bind(results, op.results)
            ops.append(op)
        return Block(args, ops)

    def _check(self, op: Op, operation: Any) -> None:
        if op.name == "all_reduce":
            self.origins[op] = operation
        elif op.name == "compare":
            _check_compare_type(op)
        elif op.attrs.get("has_dynamic_root"):
            where = source_line(op.location) or "unknown"
            raise CompileError(
                f"collective_broadcast at {where} chooses its root at run time, which is not supported on IPU; "
                "name the root in replica_groups, or use all_gather and a dynamic slice"
            )

    def _value(self, mlir_value: Any) -> Any:
        """The value; for a tuple, the nested list of its values."""
        value = self._values.get(mlir_value)
        return self._tuples[mlir_value] if value is None else value

    def _bind(self, mlir_values: list[Any], leaves: list[Value]) -> None:
        """Says which values of the IR the values of MLIR are."""
        if not self._types.has_tuples:
            self._values.update(zip(mlir_values, leaves, strict=True))
            return
        rest = iter(leaves)
        for mlir_value in mlir_values:
            if isinstance(mlir_value.type, mlir.TupleType):
                self._tuples[mlir_value] = _nested(mlir_value.type, rest)
            else:
                self._values[mlir_value] = next(rest)

    def _attributes(
        self, name: str, operation: Any, mlir_attrs: Any, result_types: list[tuple[Shape, str]]
    ) -> dict[str, Any]:
        if name == "constant":
            shape, dtype = result_types[0]
            if may_be_large(shape):
                self.large_constants.append(operation)
            try:
                return {"value": self.constants.behind(literal(mlir_attrs["value"], shape, dtype))}
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
        for key in mlir_attrs.keys():
            if call is not None and key in ffi_calls.CONFIGURATIONS:
                continue
            attrs[key] = read(mlir_attrs, key, BY_NAME.get(key))
        return attrs

    def function(self, operation: Any) -> Function:
        attrs = operation.attributes
        block = self.block(operation.regions[0].blocks[0])
        arg_attrs = argument_attributes(operation, len(block.args))
        result_attrs = entries_of(attrs, "res_attrs", len(block.results))
        for entry in arg_attrs:
            if not 0 <= (result := entry.get("tf.aliasing_output", 0)) <= max(0, len(block.results) - 1):
                raise CompileError(
                    f"an argument is donated to the result {result} of {len(block.results)}", INVALID_ARGUMENT
                )
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
    module = _import_module(program.source, program.constants)
    if program.whole is not None:
        restore_attributes(module.main, program.whole)
    module.num_replicas, module.num_partitions = program.num_replicas, program.num_partitions
    return module


def _import_module(source: mlir.Module, constants: LargeConstants) -> Module:
    importer = _Importer(constants)
    functions: dict[str, Function] = {}
    for view in source.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            function = importer.function(operation)
            functions[function.name] = function
    if "main" not in functions:
        raise CompileError('the program has no function "main"', INVALID_ARGUMENT)
    given = source.operation.attributes
    attrs = {name: read(given, name) for name in given.keys()}
    imported = Module(str(attrs.get("sym_name", "main")), functions, attrs, source)
    imported.origins, imported.large_constants = importer.origins, importer.large_constants
    return imported
