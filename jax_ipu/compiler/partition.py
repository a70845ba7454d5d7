"""Programs over several IPUs: XLA's own partitioner makes the program that every IPU runs.

A CPU client of our own compiles the program with a dump after the pass that partitions. Only the dump is used: nothing
is ever run on that client, which is stopped before it generates code.
"""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler import batch_loops, importer, inline_calls, legalize, partition_end
from jax_ipu.compiler.cost import size_in_bytes
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import ARGUMENT_NAME, LAYOUT_MODE, MEMORY_KIND, Function, Module, Value
from jax_ipu.compiler.options import proto_fields
from jax_ipu.compiler.passes.layouts import is_automatic, requested_order
from jax_ipu.compiler.replica_groups import channel_in, mesh_groups
from jax_ipu.compiler.types import Shape, element_type

_sharding = xla_client.HloSharding
_PASS = "spmd-partitioning"
# Field of xla.HloProto: HloModuleProto hlo_module.
_MODULE_FIELD = 1
# Field of xla.CompileOptionsProto: ExecutableBuildOptionsProto executable_build_options, and two of its fields.
_BUILD_OPTIONS_FIELD, _NUM_REPLICAS_FIELD, _NUM_PARTITIONS_FIELD = 3, 4, 5
# Another one of those two: an int64 that is -1 where no device is meant. XLA ends the process for other negative ones.
_DEVICE_ORDINAL_FIELD, _NO_DEVICE = 1, 2**64 - 1
# Those of the build options that say how to partition.
_PARTITIONING = (
    *("use_spmd_partitioning", "use_shardy_partitioner", "use_auto_spmd_partitioning"),
    *("auto_spmd_partitioning_mesh_ids", "auto_spmd_partitioning_mesh_shape"),
    *("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output"),
)
_SIX_BITS = re.compile(r"tensor<(?:[?\d]+x)*(f6E\w+)")
_SHARDY_DIALECT = "sdy."
_PLACEMENT = "annotate_device_placement"
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")
# Callbacks of one device, whose number Shardy keeps for targets that it knows, and those of every shard.
_KNOWN_CALLBACKS = {
    "ipu_python_callback": "xla_ffi_python_cpu_callback",
    "ipu_partitioned_python_callback": "xla_ffi_partitioned_python_cpu_callback",
}
_OWN_CALLBACKS = {known: own for own, known in _KNOWN_CALLBACKS.items()}


class LocalProgram:
    """The program that each IPU runs: partitioned once, imported for every attempt to compile it."""

    def __init__(self, program: mlir.Module, serialized_options: bytes) -> None:
        """Raises CompileError as `partition`."""
        self._whole = program
        self._num_replicas, self._num_partitions = counts(program, serialized_options)
        self._local = program
        if self._num_partitions > 1:
            self._local = partition(program, serialized_options, self._num_partitions, self._num_replicas)

    def import_module(self) -> Module:
        """The program imported; the whole program when it is for one IPU."""
        module = importer.import_module(self._local)
        if self._num_partitions > 1:
            main = module.main
            arguments, results = importer.signature_attributes(self._whole)
            main.result_attrs = [_placement(attrs) for attrs in results]
            main.arg_attrs = [
                donated | _placement(attrs) for donated, attrs in zip(donation(arguments, main), arguments, strict=True)
            ]
        module.num_partitions, module.num_replicas = self._num_partitions, self._num_replicas
        return module


def import_local(program: mlir.Module, serialized_options: bytes) -> Module:
    """The program that each IPU runs, imported; the whole program when it is for one."""
    return LocalProgram(program, serialized_options).import_module()


def counts(program: mlir.Module, serialized_options: bytes) -> tuple[int, int]:
    """Replicas and partitions, by the build options, or by the program's own attributes where there are none.

    Raises CompileError(INVALID_ARGUMENT) for numbers that no system has.
    """
    build = _build_options(serialized_options)
    if not build:
        return importer.counts(program)
    fields = dict(proto_fields(build))
    # Absent fields are zero on the wire.
    return importer.checked_counts(*(fields.get(f, 0) or 1 for f in (_NUM_REPLICAS_FIELD, _NUM_PARTITIONS_FIELD)))


def _build_options(serialized_options: bytes) -> bytes:
    """The ExecutableBuildOptionsProto in the options; b"" without."""
    build = dict(proto_fields(serialized_options)).get(_BUILD_OPTIONS_FIELD, b"")
    return build if isinstance(build, bytes) else b""


def partition(program: mlir.Module, serialized_options: bytes, num_partitions: int, num_replicas: int) -> mlir.Module:
    """The program of one partition, with collectives, as XLA partitions it.

    Args:
        program: a module over global shapes, with Shardy or GSPMD annotations or manual computations.
        serialized_options: an xla.CompileOptionsProto; one without build options lets the partitioner choose the
            shardings that the program leaves open.

    Raises:
        CompileError: an element type is not supported (UNIMPLEMENTED), or XLA refuses to partition the program
            (INVALID_ARGUMENT).
    """
    _drop_placements(program)
    program = legalize.for_partitioner(program)
    text = partition_end.text_with_end(program)
    # XLA ends the process for these types of StableHLO.
    for name in _SIX_BITS.findall(text):
        element_type(name)
    for own, known in _KNOWN_CALLBACKS.items():
        text = text.replace(f"@{own}(", f"@{known}(")
    client = _client(num_partitions * num_replicas)
    with tempfile.TemporaryDirectory(prefix="jax_ipu_partition_") as folder:
        options = _options(program, serialized_options, text, num_partitions, num_replicas, folder)
        failure: Exception | None = None
        try:
            client.compile_and_load(text, client.devices(), options)
        except _jax.JaxRuntimeError as error:  # the partitioner's own, or that there is no implementation of the end
            failure = error
        dumps = sorted(Path(folder).glob(f"*.after_{_PASS}*.hlo.pb"))
        if not dumps:
            raise CompileError(f"XLA cannot partition the program: {failure}", INVALID_ARGUMENT) from failure
        hlo = dict(proto_fields(dumps[-1].read_bytes()))[_MODULE_FIELD]
        assert isinstance(hlo, bytes)
    return _to_stablehlo(hlo)


def _drop_placements(program: mlir.Module) -> None:
    """Takes out the custom calls that place values in a memory: XLA's compiler for CPUs refuses some of them."""

    def drop(operation: mlir.Operation) -> mlir.WalkResult:
        target: Any = operation.attributes["call_target_name"] if operation.name == "stablehlo.custom_call" else None
        if target is not None and target.value == _PLACEMENT:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        return mlir.WalkResult.ADVANCE

    with program.context:
        program.operation.walk(drop)


def _dense(values: list[list[int]]) -> mlir.Attribute:
    array: Any = np.array(values, np.int64)
    return mlir.DenseIntElementsAttr.get(array)


def _to_stablehlo(hlo: bytes) -> mlir.Module:
    """The module of a serialised HloModuleProto, with two things mended that the conversion gets wrong.

    It lets all collectives refer to one mesh, without the order of the devices; and JAX cannot read a copy back.
    Callbacks get their own target again.
    """
    module = importer.parse_bytecode(_jax.mlir.hlo_to_stablehlo(hlo))
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
    return module


def sharding_fields(module: Module) -> tuple[list[dict[str, bytes]], list[dict[str, bytes]]]:
    """The field "sharding" of every InputSpec and OutputSpec of a partitioned module: serialised xla.OpSharding."""
    inputs = module.attrs.get("mhlo.spmd_parameters_shardings", ())
    outputs = module.attrs.get("mhlo.spmd_output_sharding", "")
    if not outputs:
        return [{} for _ in module.main.block.args], [{} for _ in module.main.block.results]
    whole = _sharding.from_string(outputs)
    # A program without results has one sharding: that of the empty tuple.
    count = len(module.main.block.results)
    results = (whole.tuple_elements() or [whole] * count)[:count]
    parsed = [_sharding.from_string(text) for text in inputs], results
    as_inputs, as_outputs = ([{"sharding": s.to_proto().SerializeToString()} for s in side] for side in parsed)
    return as_inputs, as_outputs


def replicated_arguments(module: Module) -> list[bool]:
    """Of a partitioned module: which arguments every IPU holds whole."""
    shardings = [_sharding.from_string(text) for text in module.attrs.get("mhlo.spmd_parameters_shardings", ())]
    count = len(module.main.block.args)
    return [sharding.is_replicated() for sharding in shardings] if len(shardings) == count else [False] * count


def local_shape(shape: Shape, sharding: bytes) -> Shape:
    """What one device holds of an array; `sharding`: a serialised xla.OpSharding, or b"" for all of it."""
    if not sharding:
        return shape
    proto = xla_client.OpSharding()
    proto.ParseFromString(sharding)
    parsed = _sharding.from_proto(proto)
    if parsed.is_replicated() or not parsed.is_tiled():
        return shape
    return tuple(-(-n // parts) for n, parts in zip(shape, parsed.tile_assignment_dimensions(), strict=False))


@functools.cache
def _client(num_devices: int) -> Any:
    return _jax.get_tfrt_cpu_client(num_devices=num_devices)


def _parsed(serialized: bytes) -> Any:
    for field, value in proto_fields(serialized):
        if field == _BUILD_OPTIONS_FIELD and isinstance(value, bytes):
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
    """XLA ends the process for another number of flags than one for all, or one for each argument or result."""
    arguments, results = importer.signature_attributes(program)
    flags = build.allow_spmd_sharding_propagation_to_parameters, build.allow_spmd_sharding_propagation_to_output
    for what, given, known in zip(("arguments", "results"), flags, (arguments, results), strict=True):
        if len(given) > 1 and len(given) != len(known):
            raise CompileError(
                f"the compile options let shardings of {what} be chosen by {len(given)} flags, but the program has "
                f"{len(known)} {what}; give one flag for all or one for each",
                INVALID_ARGUMENT,
            )


def _options(
    program: mlir.Module, serialized: bytes, text: str, num_partitions: int, num_replicas: int, folder: str
) -> Any:
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_partitions, options.num_replicas = num_partitions, num_replicas
    build.num_partitions, build.num_replicas = num_partitions, num_replicas
    if _build_options(serialized):
        given = _parsed(serialized).executable_build_options
        _check_propagation(program, given)
        # Nothing else: XLA ends the process for some debug options, and they have no effect on IPU.
        for name in _PARTITIONING:
            setattr(build, name, getattr(given, name))
    else:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = _SHARDY_DIALECT in text
        results = importer.signature_attributes(program)[1]
        is_open = [not any(name in attrs for name in _SHARDINGS) for attrs in results]
        build.allow_spmd_sharding_propagation_to_output = is_open or [True]
    devices = np.arange(num_replicas * num_partitions).reshape(num_replicas, num_partitions)
    propagates = build.allow_spmd_sharding_propagation_to_output
    if len(propagates) > 1:  # of the end as well
        build.allow_spmd_sharding_propagation_to_output = [*propagates, True]
    build.device_assignment = _jax.DeviceAssignment.create(devices)
    debug = build.debug_options
    debug.xla_dump_to = folder
    debug.xla_dump_hlo_pass_re = f"^{re.escape(_PASS)}$"
    debug.xla_dump_hlo_as_proto = True
    # Of no use here, and most of the time otherwise.
    debug.xla_backend_optimization_level = 0
    return options


def _placement(attrs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if key in (MEMORY_KIND, LAYOUT_MODE, ARGUMENT_NAME)}


def donation(whole: list[dict[str, Any]], local: Function) -> list[dict[str, Any]]:
    """The donation attributes of a partition's arguments, from those of the whole program: the partitioner drops them.

    JAX leaves it to the compiler to find a result for an argument when it does not know the shardings of the results:
    the first free one of the same local type, memory kind and layout. As elsewhere, an argument stays when no free
    result has its size.
    """
    kinds = [attrs.get(MEMORY_KIND) for attrs in local.result_attrs]
    types = _types(local.block.results, local.result_attrs, "result")
    own = _types(local.block.args, whole, "argument")

    def replaces(j: int, argument: _Type) -> bool:
        # A result whose layout is left to the compiler takes that of the argument.
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
