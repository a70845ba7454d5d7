"""StableHLO, as PJRT delivers it, to the compiler's IR. Knows MLIR; does not know JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir as mlir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import sdy, stablehlo

from jax_ipu.compiler import ffi_calls, legalize
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import ARGUMENT_NAME, Block, Function, Module, Op, Value
from jax_ipu.compiler.location import argument_name, source_line
from jax_ipu.compiler.types import COMPLEX, FLOAT, SIZE, Literal, Shape, element_type, num_elements, numpy_dtype

# Its import registers the classes of its operations.
importlib.import_module("jaxlib.mlir.dialects.func")

# First bytes of MLIR bytecode.
_BYTECODE_MAGIC = b"ML\xefR"
# Then the version of the encoding, and who wrote it.
_VERSION_BYTES = bytes(range(32))
_PORTABLE_PRODUCER = b"StableHLO_v"
# The IPUs of the largest system, Bow Pod1024: each replica costs the model a thread, each partition the partitioner.
MAX_IPUS = 1024
# XLA's own ops that are the same as one of CHLO.
_XLA_NAMES = {"mhlo.erf": "chlo.erf", "mhlo.topk": "chlo.top_k"}


def _new_context() -> mlir.Context:
    # A context of our own: JAX's carries its configuration and its threads.
    context = mlir.Context()
    context.enable_multithreading(False)
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def parse(program: bytes, program_format: str) -> mlir.Module:
    """The MLIR module of a program: portable artifact, bytecode or text (format "mlir").

    Raises CompileError(INVALID_ARGUMENT) when it is none of these.
    """
    if program_format != "mlir":
        raise CompileError(f'program format "{program_format}" is not supported; use "mlir"', INVALID_ARGUMENT)
    context = _new_context()
    if not program.startswith(_BYTECODE_MAGIC):
        try:
            program.decode()
        except UnicodeDecodeError as error:
            raise CompileError(f"the program is neither MLIR bytecode nor text: {error}", INVALID_ARGUMENT) from error
        return _parse_other(context, program)
    if not program[len(_BYTECODE_MAGIC) :].lstrip(_VERSION_BYTES).startswith(_PORTABLE_PRODUCER):
        # MLIR puts the text of its errors into Python strings, which damaged names must not reach: to stderr instead.
        context.emit_error_diagnostics = True
        return _parse_other(context, program)
    try:
        return stablehlo.deserialize_portable_artifact(context, program)
    except Exception as error:
        raise CompileError(
            f"the StableHLO artifact cannot be read (details are on stderr): it is damaged, or newer than StableHLO"
            f" {stablehlo.get_current_version()}, which this jaxlib reads",
            INVALID_ARGUMENT,
        ) from error


def _parse_other(context: mlir.Context, program: bytes) -> mlir.Module:
    """Text or plain bytecode: it may use dialects that portable artifacts are free of."""
    from jaxlib.mlir.dialects import chlo, mhlo

    registry = mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    chlo.register_dialect(context)
    if b"mhlo" in program:
        mhlo.register_mhlo_dialect(context)  # its attributes are lost otherwise
    try:
        if b"!quant." in program:
            legalize.load_quantized_types(context)
        return mlir.Module.parse(program, context)
    except Exception as error:
        raise CompileError(f"the program is not valid StableHLO: {error}", INVALID_ARGUMENT) from error


def parse_bytecode(program: bytes) -> mlir.Module:
    """The MLIR module of plain bytecode, in which all of XLA's dialects may occur."""
    return _parse_other(_new_context(), program)


class _Types:
    """MLIR type -> (shape, dtype) of each of its tensors, remembered: several only for a tuple."""

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
                # Order is that of the program, so a token carries nothing: JAX passes one as an empty array as well.
                return ((0,), "pred")
            raise CompileError(f"values of type {mlir_type} are not supported on IPU; use dense tensors")
        if not mlir_type.has_static_shape:
            raise CompileError(f"dynamic shape {mlir_type} is not supported on IPU; make all dimensions static")
        element = str(mlir_type.element_type)
        if element.startswith("!quant"):
            raise CompileError(f"quantised type {mlir_type} is not supported on IPU; dequantise to float first")
        return tuple(mlir_type.shape), element_type(element)


def _members(tuple_type: Any) -> list[Any]:
    return [tuple_type.get_type(i) for i in range(tuple_type.num_types)]


def _nested(tuple_type: Any, leaves: Iterator[Value]) -> list[Any]:
    """The elements of a tuple: values, and lists in place of inner tuples."""
    members = _members(tuple_type)
    return [_nested(t, leaves) if isinstance(t, mlir.TupleType) else next(leaves) for t in members]


def _flat(element: Any) -> Iterator[Value]:
    if isinstance(element, list):
        for inner in element:
            yield from _flat(inner)
    else:
        yield element


def _dense_bytes_from_text(text: str, dtype: str) -> bytes:
    """Bytes of a dense attribute whose element type has no Python buffer, from its assembly."""
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


def _literal(attr: Any, shape: Shape, dtype: str) -> Literal:
    if type(attr) in _DENSE:
        splat = bool(attr.is_splat)
        try:
            array = np.asarray(attr)
        except (TypeError, BufferError):
            if splat:
                array = np.asarray(attr.get_splat_value().value).astype(numpy_dtype(dtype))
            elif num_elements(shape) <= 64:
                array = np.array([attr[i] for i in range(num_elements(shape))]).astype(numpy_dtype(dtype))
            else:
                return Literal(dtype, shape, _dense_bytes_from_text(str(attr), dtype), False)
            return Literal(dtype, shape, array.tobytes(), splat)
        if splat and array.size:
            return Literal(dtype, shape, array.reshape(-1)[:1].tobytes(), True)
        data = array.tobytes()
        return Literal(dtype, shape, data, len(data) == SIZE[dtype])
    data = _dense_bytes_from_text(str(attr), dtype)
    return Literal(dtype, shape, data, len(data) == SIZE[dtype])


_DENSE = frozenset((mlir.DenseFPElementsAttr, mlir.DenseIntElementsAttr, mlir.DenseElementsAttr))


def _ints(attr: Any) -> tuple[int, ...]:
    return tuple(attr)


def _array(attr: Any) -> tuple[Any, ...]:
    return tuple(_attribute(a) for a in attr)


def _dense(attr: Any) -> Any:
    # Padding of convolutions and windows: [[low, high], ...] as a dense tensor.
    array = np.asarray(attr)
    return tuple(map(tuple, array.tolist())) if array.ndim > 1 else tuple(array.tolist())


_BY_TYPE: dict[type, Callable[[Any], Any]] = {
    mlir.DenseI64ArrayAttr: _ints,
    mlir.DenseI32ArrayAttr: _ints,
    mlir.DenseBoolArrayAttr: lambda a: tuple(bool(x) for x in a),
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
    mlir.DictAttr: lambda a: {n.name: _attribute(a[n.name]) for n in a},
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


_BY_NAME: dict[str, Callable[[Any], Any]] = {
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


def _attribute(attr: Any) -> Any:
    convert = _BY_TYPE.get(type(attr))
    if convert is not None:
        return convert(attr)
    if stablehlo.PrecisionAttr.isinstance(attr):
        return stablehlo.PrecisionAttr(attr).value
    return str(attr)


class _Importer:
    """Tuples do not survive: their elements take their place as operands, results and block arguments."""

    def __init__(self) -> None:
        self._types = _Types()
        self._values: dict[Any, Value] = {}
        self._tuples: dict[Any, list[Any]] = {}
        self.origins: dict[Op, Any] = {}

    def block(self, mlir_block: Any) -> Block:
        values, tuples = self._values, self._tuples
        args: list[Value] = []
        for argument in mlir_block.arguments:
            types = self._leaves(argument)
            own = [Value(shape, dtype, None, len(args) + i) for i, (shape, dtype) in enumerate(types)]
            self._bind(argument, own)
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
            try:
                leaves_of = [self._leaves(r) for r in results]
            except CompileError as error:
                raise CompileError(f"{error} (op {name} at {source_line(operation.location) or 'unknown'})") from None
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
            made = iter(op.results)
            for mlir_result, leaves in zip(results, leaves_of, strict=True):
                self._bind(mlir_result, [next(made) for _ in leaves])
            ops.append(op)
        return Block(args, ops)

    def _value(self, mlir_value: Any) -> Any:
        """The value, or the nested list of a tuple."""
        value = self._values.get(mlir_value)
        return self._tuples[mlir_value] if value is None else value

    def _leaves(self, mlir_value: Any) -> list[tuple[Shape, str]]:
        return self._types(mlir_value.type)

    def _bind(self, mlir_value: Any, leaves: list[Value]) -> None:
        if isinstance(mlir_value.type, mlir.TupleType):
            self._tuples[mlir_value] = _nested(mlir_value.type, iter(leaves))
        else:
            self._values[mlir_value] = leaves[0]

    def _attributes(self, name: str, operation: Any, result_types: list[tuple[Shape, str]]) -> dict[str, Any]:
        mlir_attrs = operation.attributes
        if not len(mlir_attrs):
            return {}
        if name == "constant":
            shape, dtype = result_types[0]
            try:
                return {"value": _literal(mlir_attrs["value"], shape, dtype)}
            except (RuntimeError, TypeError):
                # MLIR's bindings refuse to wrap dense attributes of complex elements: read the assembly.
                assembly = operation.get_asm()
                text = assembly[assembly.index("dense<") :].rstrip()
                data = _dense_bytes_from_text(text, dtype)
                return {"value": Literal(dtype, shape, data, len(data) == SIZE[dtype])}
        attrs: dict[str, Any] = {}
        call = ffi_calls.read(operation) if name == "custom_call" else None
        if call is not None:
            attrs[ffi_calls.ATTRIBUTE] = call
        for key, attr in mlir_attrs.items():
            if call is not None and key in ffi_calls.CONFIGURATIONS:
                continue
            convert = _BY_NAME.get(key) or _BY_TYPE.get(type(attr)) or _attribute
            attrs[key] = convert(attr)
        return attrs

    def function(self, operation: Any) -> Function:
        attrs = operation.attributes
        block = self.block(operation.regions[0].blocks[0])
        arg_attrs = _argument_attributes(operation, len(block.args))
        result_attrs = _signature(attrs, "res_attrs", len(block.results))
        return Function(attrs["sym_name"].value, block, arg_attrs, result_attrs)


def _check_compare_type(op: Op) -> None:
    """Raises CompileError(INVALID_ARGUMENT) for one that is not that of the operands, as XLA does."""
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


def _signature(attrs: Any, key: str, count: int) -> list[dict[str, Any]]:
    if key not in attrs:
        return [{} for _ in range(count)]
    entries = [{n.name: _attribute(n.attr) for n in entry} for entry in attrs[key]]
    # Attributes of a tuple say nothing about its elements.
    return entries if len(entries) == count else [{} for _ in range(count)]


def _argument_attributes(operation: Any, count: int) -> list[dict[str, Any]]:
    entries = _signature(operation.attributes, "arg_attrs", count)
    arguments = operation.regions[0].blocks[0].arguments
    if len(arguments) == count:
        for entry, argument in zip(entries, arguments, strict=True):
            if name := argument_name(argument.location):
                entry[ARGUMENT_NAME] = name
    return entries


def name(module: mlir.Module) -> str:
    """What the program is called, for messages."""
    given: Any = module.operation.attributes
    try:
        return str(given["sym_name"].value) if "sym_name" in given else "main"
    except (RuntimeError, UnicodeDecodeError):  # a damaged name
        return "main"


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
    arguments = _argument_attributes(operation, len(block.arguments))
    return arguments, _signature(operation.attributes, "res_attrs", count)


def checked_counts(num_replicas: object, num_partitions: object) -> tuple[int, int]:
    """The numbers of replicas and partitions; raises CompileError(INVALID_ARGUMENT) if no system has as many IPUs."""
    if type(num_replicas) is int and type(num_partitions) is int and num_replicas > 0 and num_partitions > 0:
        if num_replicas * num_partitions <= MAX_IPUS:
            return num_replicas, num_partitions
    raise CompileError(
        f"num_replicas = {num_replicas} and num_partitions = {num_partitions} are not valid: both must be positive, "
        f"and their product at most {MAX_IPUS}",
        INVALID_ARGUMENT,
    )


def counts(module: mlir.Module) -> tuple[int, int]:
    """Replicas and partitions by the attributes of the module, one where there are none; raises as checked_counts."""
    given: Any = module.operation.attributes
    names = ("mhlo.num_replicas", "mhlo.num_partitions")
    return checked_counts(*(_attribute(given[name]) if name in given else 1 for name in names))


def import_module(module: mlir.Module) -> Module:
    """Copies a StableHLO module, which is legalised first, in place where that can be.

    Raises CompileError for types that no pass can remove (dynamic shapes, quantised types).
    """
    module = legalize.run(module)
    importer = _Importer()
    functions: dict[str, Function] = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            function = importer.function(operation)
            functions[function.name] = function
    operation = module.operation
    try:
        attrs = {k: _attribute(v) for k, v in operation.attributes.items()}
    except RuntimeError as error:
        raise CompileError(f"a name of the module's attributes is no text: {error}", INVALID_ARGUMENT) from error
    name = attrs.get("sym_name", "main")
    if "main" not in functions:
        raise CompileError('the program has no function "main"', INVALID_ARGUMENT)
    imported = Module(str(name), functions, attrs, module)
    imported.num_replicas, imported.num_partitions = counts(module)
    imported.origins = importer.origins
    return imported
