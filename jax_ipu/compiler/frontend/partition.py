"""Stage "partition": the program that each IPU runs, as XLA's partitioner writes it.

XLA compiles the program for CPU devices up to the pass that partitions (`xla_process`), and runs nothing.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.errors import INVALID_ARGUMENT, UNIMPLEMENTED, CompileError
from jax_ipu.compiler.frontend import (
    batch_loops,
    batched_ops,
    inline_calls,
    partition_end,
    partitionable,
    placements,
    window_gradients,
    xla_process,
)
from jax_ipu.compiler.frontend.attributes import signature_attributes
from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.frontend.legalize import legalize_module, make_static
from jax_ipu.compiler.frontend.parse import parse_module
from jax_ipu.compiler.frontend.programs import LocalProgram, ParsedProgram, WholeSignature
from jax_ipu.compiler.frontend.quantized import QUANTIZED_OPS
from jax_ipu.compiler.frontend.scans import prepare_scans
from jax_ipu.compiler.proto import BUILD_OPTIONS_FIELD, build_options, proto_fields
from jax_ipu.compiler.replica_groups import channel_in, mesh_groups
from jax_ipu.compiler.stages import staged
from jax_ipu.compiler.types import element_type

# Field of xla.HloProto: HloModuleProto hlo_module.
_MODULE_FIELD = 1
# Field of xla.ExecutableBuildOptionsProto: an int64, -1 for no device. XLA aborts for other negative values.
_DEVICE_ORDINAL_FIELD, _NO_DEVICE = 1, 2**64 - 1
# The build options that say how to partition.
_PARTITIONING = (
    *("use_spmd_partitioning", "use_shardy_partitioner", "use_auto_spmd_partitioning"),
    *("auto_spmd_partitioning_mesh_ids", "auto_spmd_partitioning_mesh_shape"),
    *("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output"),
)
# XLA's passes recurse into each call of a chain.
_MAX_CALLS = 200
_SIX_BITS = re.compile(r"tensor<(?:[?\d]+x)*(f6E\w+)")
_SHARDY_DIALECT = "sdy."
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")
# Shardy treats callbacks correctly only under target names that it knows: one device, and every shard.
_KNOWN_CALLBACKS = {
    "ipu_python_callback": "xla_ffi_python_cpu_callback",
    "ipu_partitioned_python_callback": "xla_ffi_partitioned_python_cpu_callback",
}
_OWN_CALLBACKS = {known: own for own, known in _KNOWN_CALLBACKS.items()}


@staged("partition")
def partition(program: ParsedProgram) -> LocalProgram:
    """The program that each IPU runs; the program itself where it has a single partition.

    Raises:
        CompileError: an element type is not supported (UNIMPLEMENTED), or XLA refuses to partition the program
            (INVALID_ARGUMENT).
    """
    replicas, partitions = program.num_replicas, program.num_partitions
    if partitions == 1:
        return LocalProgram(program.source, None, replicas, partitions, program.constants)
    whole = WholeSignature(*signature_attributes(program.source))
    local = partition_module(program.source, program.options, partitions, replicas)
    return LocalProgram(local, whole, replicas, partitions)


def partition_module(
    program: mlir.Module, serialized_options: bytes, num_partitions: int, num_replicas: int
) -> mlir.Module:
    """The program of one partition, with collectives, as XLA's partitioner writes it.

    Args:
        program: a module over global shapes, with Shardy or GSPMD annotations or manual computations.
        serialized_options: an xla.CompileOptionsProto; one without build options lets the partitioner choose the
            shardings that the program leaves open.

    Raises:
        CompileError: an element type is not supported (UNIMPLEMENTED), or XLA refuses to partition the program
            (INVALID_ARGUMENT).
    """
    make_static(program)
    partitionable.run(program)
    placements.hide(program)
    if inline_calls.longest_chain(program) > _MAX_CALLS:
        with program.context:
            inline_calls.run(program)
    program = _without_one_way_ops(program)
    window_gradients.widen(program)
    batched_ops.hide(program)
    _number_channels(program)
    text = partition_end.text_with_end(program)
    # XLA ends the process for element types of six bits; element_type raises the error.
    for name in _SIX_BITS.findall(text):
        element_type(name)
    for own, known in _KNOWN_CALLBACKS.items():
        text = text.replace(f"@{own}(", f"@{known}(")
    options = _options(program, serialized_options, text, num_partitions, num_replicas)
    try:
        dump, failure = xla_process.partition(
            text, options, num_partitions * num_replicas, batched_ops.targets(program)
        )
    except xla_process.PartitionerEnded as error:
        raise CompileError(
            f"XLA cannot partition the program: its partitioner stopped with {error}; split other dimensions, or fewer",
            UNIMPLEMENTED,
        ) from error
    if dump is None:
        raise CompileError(f"XLA cannot partition the program: {failure}", INVALID_ARGUMENT)
    hlo = dict(proto_fields(dump))[_MODULE_FIELD]
    assert isinstance(hlo, bytes)
    return to_stablehlo(hlo)


def _without_one_way_ops(module: mlir.Module) -> mlir.Module:
    """The module without ops that XLA does not convert back from HLO: scans of CHLO, and quantised types."""
    composites, quantized = [], []

    def find(operation: Any) -> mlir.WalkResult:
        if operation.name == "stablehlo.composite" and operation.attributes["name"].value == "chlo.scan":
            composites.append(operation)
        if operation.name in QUANTIZED_OPS:
            quantized.append(operation)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(find)
    for scan in composites:
        with module.context, scan.location, mlir.InsertionPoint(scan):
            types, callee = [r.type for r in scan.results], {"callee": scan.attributes["decomposition"]}
            call = mlir.Operation.create("func.call", types, list(scan.operands), callee)
        for result, value in zip(scan.results, call.results, strict=True):
            result.replace_all_uses_with(value)
        scan.erase()
    if not prepare_scans(module) and not composites and not quantized:
        return module
    module = legalize_module(module)
    for op in [op.operation for op in nested_ops(module.operation)]:
        if op.name == "stablehlo.real_dynamic_slice":
            _make_sizes_static(op)
    return module


def _make_sizes_static(slice_op: Any) -> None:
    """Replaces the real_dynamic_slice of an expanded scan, which is within bounds and has steps of 1."""
    operand, starts, _, _ = slice_op.operands
    sizes = mlir.RankedTensorType(slice_op.results[0].type).shape
    with slice_op.context, slice_op.location, mlir.InsertionPoint(slice_op):
        scalar = mlir.RankedTensorType.get((), mlir.RankedTensorType(starts.type).element_type)
        first = [stablehlo.reshape(scalar, stablehlo.slice(starts, [d], [d + 1], [1])) for d in range(len(sizes))]
        slice_op.results[0].replace_all_uses_with(stablehlo.dynamic_slice(operand, first, sizes))
    slice_op.erase()


def _number_channels(program: mlir.Module) -> None:
    """Gives each collective a channel of its own, by which `to_stablehlo` finds its groups; JAX 0.12 numbers all 1."""
    numbers = itertools.count(1)

    def number(operation: mlir.Operation) -> mlir.WalkResult:
        if "channel_handle" in operation.attributes:
            old = str(operation.attributes["channel_handle"])
            new = re.sub(r"handle = \d+", f"handle = {next(numbers)}", old, count=1)
            operation.attributes["channel_handle"] = mlir.Attribute.parse(new)
        return mlir.WalkResult.ADVANCE

    with program.context:
        program.operation.walk(number)


def _dense(values: list[list[int]]) -> mlir.Attribute:
    array: Any = np.array(values, np.int64)
    return mlir.DenseIntElementsAttr.get(array)


def to_stablehlo(hlo: bytes) -> mlir.Module:
    """The StableHLO module of a serialised HloModuleProto, with corrections.

    The conversion loses the device order of collectives over a mesh, and writes copies as an op that JAX cannot read.
    Callbacks get their own target names again.
    """
    module = parse_module(_jax.mlir.hlo_to_stablehlo(hlo))
    groups = mesh_groups(xla_client.XlaComputation(hlo).as_hlo_text())

    def mend(operation: mlir.Operation) -> mlir.WalkResult:
        if operation.name == "mhlo.copy":
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        elif operation.name == "stablehlo.custom_call":
            target: Any = operation.attributes["call_target_name"]
            own = _OWN_CALLBACKS.get(target.value, target.value)
            operation.attributes["call_target_name"] = mlir.StringAttr.get(own)
        elif "replica_groups" in operation.attributes and "channel_handle" in operation.attributes:
            devices = groups.get(channel_in(operation.attributes["channel_handle"]))
            if devices is not None:
                operation.attributes["replica_groups"] = _dense(devices)
        return mlir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(mend)
    partition_end.remove(module)
    inline_calls.run(module)
    batch_loops.separate(module)
    window_gradients.narrow(module)
    batched_ops.show(module)
    placements.show(module)
    partitionable.simplify(module)
    return module


def _parsed(serialized: bytes) -> Any:
    for field, value in proto_fields(serialized):
        if field == BUILD_OPTIONS_FIELD and isinstance(value, bytes):
            _check_device_ordinal(value)
    try:
        return _jax.CompileOptions.ParseFromString(serialized)
    except _jax.JaxRuntimeError as error:
        raise CompileError(f"the compile options are damaged: {error}", INVALID_ARGUMENT) from error


def _check_device_ordinal(build: bytes) -> None:
    for field, value in proto_fields(build):
        if field == _DEVICE_ORDINAL_FIELD and not (isinstance(value, int) and (value < 2**31 or value == _NO_DEVICE)):
            raise CompileError(f"the compile options are damaged: device_ordinal = {value!r}", INVALID_ARGUMENT)


def _check_propagation(program: mlir.Module, build: Any) -> None:
    """Raises CompileError for a number of flags that XLA would end the process for (INVALID_ARGUMENT)."""
    arguments, results = signature_attributes(program)
    flags = build.allow_spmd_sharding_propagation_to_parameters, build.allow_spmd_sharding_propagation_to_output
    for what, given, known in zip(("arguments", "results"), flags, (arguments, results), strict=True):
        if len(given) > 1 and len(given) != len(known):
            raise CompileError(
                f"the compile options let shardings of {what} be chosen by {len(given)} flags, but the program has "
                f"{len(known)} {what}; give one flag for all or one for each",
                INVALID_ARGUMENT,
            )


def _options(program: mlir.Module, serialized: bytes, text: str, num_partitions: int, num_replicas: int) -> bytes:
    """Serialised compile options that say how to partition, and no more."""
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_partitions, options.num_replicas = num_partitions, num_replicas
    build.num_partitions, build.num_replicas = num_partitions, num_replicas
    if build_options(serialized):
        given = _parsed(serialized).executable_build_options
        _check_propagation(program, given)
        # No other options: XLA ends the process for some debug options.
        for name in _PARTITIONING:
            setattr(build, name, getattr(given, name))
    else:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = _SHARDY_DIALECT in text
        results = signature_attributes(program)[1]
        is_open = [not any(name in attrs for name in _SHARDINGS) for attrs in results]
        build.allow_spmd_sharding_propagation_to_output = is_open or [True]
    devices = np.arange(num_replicas * num_partitions).reshape(num_replicas, num_partitions)
    propagates = build.allow_spmd_sharding_propagation_to_output
    if len(propagates) > 1:  # for the result that partition_end adds
        build.allow_spmd_sharding_propagation_to_output = [*propagates, True]
    build.device_assignment = _jax.DeviceAssignment.create(devices)
    serialized_options: bytes = options.SerializeAsString()
    return serialized_options
