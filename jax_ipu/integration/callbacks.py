"""Host callbacks: pure_callback, io_callback, jax.debug.print and jax.debug.callback.

JAX lowers all of them through ``jax._src.callback.emit_python_callback``, which knows a fixed list of platforms. For
``ipu`` each becomes a custom call that names a registered callback by its id. The executable keeps that registration
alive, not the Python objects, so nothing that dies with the interpreter is part of it. Tested with jax 0.10.2 and
0.12.0.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax_ipu.integration import late_imports, pallas
from jax_ipu.integration.callback_errors import CallbackError, api_of, description, failure
from jax_ipu.integration.thread_settings import with_settings_of_this_thread
from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"
CALL_TARGET = "ipu_python_callback"
# Target of a callback that XLA partitions: it is called with the shards of each device.
PARTITIONED_CALL_TARGET = "ipu_partitioned_python_callback"

HostFunction = Callable[..., Sequence[Any]]
# Reads the bytes of operands and writes those of results; operands and results without elements are left out.
ByteFunction = Callable[[Sequence[memoryview], Sequence[memoryview]], None]
ArrayType = tuple[tuple[int, ...], np.dtype[Any]]


def enable() -> None:
    """Teaches JAX to lower callbacks for the platform; other platforms are untouched."""
    from jax._src import callback, compilation_cache, compiler, config, debugging
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    from jax_ipu import _ipu

    original = callback.emit_python_callback
    compile_or_get_cached = compiler.compile_or_get_cached

    def emit_python_callback(ctx: Any, function: HostFunction, *args: Any, **options: Any) -> Any:
        if tuple(ctx.module_context.platforms) != (PLATFORM,):
            return original(ctx, function, *args, **options)
        return _emit(ctx, function, *args, **options)

    @unseen
    def compile_callbacks_uncached(
        backend: Any,
        module: Any,
        devices: Any,
        options: Any,
        host_callbacks: Sequence[Any],
        executable_devices: Any,
        *rest: Any,
    ) -> Any:
        foreign = [item for item in host_callbacks if not isinstance(item, _ipu.HostCallback)]
        if len(foreign) == len(host_callbacks):
            return compile_or_get_cached(backend, module, devices, options, host_callbacks, executable_devices, *rest)
        # Ids are valid in this process only, so the program must not enter a persistent cache: jax 0.12 caches
        # programs with callbacks too. jaxlib accepts only its own callback types.
        explain = config.explain_cache_misses.value and compilation_cache.is_persistent_cache_enabled()
        compiler.logger.log(
            logging.WARNING if explain else logging.DEBUG,
            "Not writing persistent cache entry for '%s' because it uses host callbacks",
            ir.StringAttr(module.operation.attributes["sym_name"]).value,
        )
        mlir.dump_module_to_file(module, "compile")
        return compiler.backend_compile_and_load(backend, module, executable_devices, options, foreign)

    replacements: tuple[Any, Any] = (emit_python_callback, compile_callbacks_uncached)
    callback.emit_python_callback, compiler.compile_or_get_cached = replacements
    late_imports.when_imported("jax._src.checkify", "check", _register_check)
    mlir.register_lowering(debugging.debug_callback_p, debugging.debug_callback_lowering, platform=PLATFORM)
    mlir.register_lowering(debugging.debug_print_p, debugging.debug_print_lowering_rule, platform=PLATFORM)


def _register_check(register_lowering: Any, module: Any) -> None:
    register_lowering(module.check_p, module.check_lowering_rule, platform=PLATFORM)


def _emit(
    ctx: Any,
    function: HostFunction,
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[Sequence[Any], Any, Any]:
    """Emits our custom call in place of JAX's. A token, if any, is the first operand and the first result."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    del returns_token
    pallas.refuse_threads()
    if partitioned and result_avals:
        raise ValueError("Partitioned callback not supported with return values.")
    by_shard = partitioned and _is_automatic(ctx.module_context.axis_context)
    if by_shard and token is not None:
        raise NotImplementedError(
            "An ordered callback with partitioned=True, which is called with the shards of each device, is not "
            "supported on ipu where XLA partitions the program. Call it inside jax.shard_map, or leave "
            "partitioned=True out: it is then called once, with the whole array."
        )
    tokens = [] if token is None else [token]
    result_types: list[Any] = [stablehlo.TokenType.get() for _ in tokens]
    result_types += [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in result_avals]
    options: dict[str, Any] = {}
    if by_shard:
        # XLA partitions only custom calls that have layouts.
        layouts = [tuple(reversed(range(len(array_type(aval)[0])))) for aval in operand_avals]
        options = {"target": PARTITIONED_CALL_TARGET, "operand_layouts": layouts, "result_layouts": []}
    call, handle = call_host(
        ctx,
        _ByteFunction(function, api_of(ctx), operand_avals, result_avals, by_shard),
        [*tokens, *operands],
        result_types,
        has_side_effect=has_side_effect,
        **options,
    )
    if sharding is not None and _num_devices(ctx.module_context.axis_context) > 1:
        mlir.set_sharding(ctx.module_context, call, _with_token(sharding) if tokens and result_avals else sharding)
    results = list(call.results)
    return results[len(tokens) :], results[0] if tokens else None, handle


def call_host(
    ctx: Any,
    function: ByteFunction,
    operands: Sequence[Any],
    result_types: Sequence[Any],
    *,
    has_side_effect: bool,
    target: str = CALL_TARGET,
    **options: Any,
) -> tuple[Any, Any]:
    """Returns (custom call of a function on bytes, its registration). `options` are passed to `custom_call`."""
    from jax._src.interpreters import mlir

    from jax_ipu import _ipu

    callback = description(ctx, getattr(function, "function", function))
    handle = _ipu.HostCallback(_reported(with_settings_of_this_thread(_annotated(function, ctx)), callback))
    # Keeps the registration alive until the executable exists and holds a reference of its own.
    ctx.module_context.add_keepalive(handle)
    ctx.module_context.add_host_callback(handle)
    call = mlir.custom_call(
        target,
        result_types=result_types,
        operands=operands,
        backend_config=str(handle.id),
        has_side_effect=has_side_effect,
        **options,
    )
    return call, handle


def _reported(function: ByteFunction, callback: str) -> ByteFunction:
    """The function; its errors say which callback of the program failed."""

    def call(inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
        try:
            function(inputs, outputs)
        except BaseException as error:
            raise CallbackError(failure(error, callback)) from None

    return call


def _annotated(function: ByteFunction, ctx: Any) -> ByteFunction:
    """The function as an event of profiles, with the line of the user that calls it."""
    from jax._src import source_info_util
    from jax.profiler import TraceAnnotation

    frame = source_info_util.user_frame(ctx.traceback)
    place = f" {os.path.basename(frame.file_name)}:{frame.start_line}" if frame is not None else ""

    def call(inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
        with TraceAnnotation(f"ipu callback{place}"):
            function(inputs, outputs)

    return call


def _num_devices(axis_context: Any) -> int:
    mesh = getattr(axis_context, "mesh", None)
    return int(axis_context.num_devices if mesh is None else mesh.size)


def _is_automatic(axis_context: Any) -> bool:
    """Whether the program works on global arrays, which XLA partitions over several devices."""
    return getattr(axis_context, "mesh", None) is None and _num_devices(axis_context) > 1


def _with_token(sharding: Any) -> Any:
    """Shardy needs one sharding for each result, including the token; GSPMD one for the whole call."""
    from jax._src.named_sharding import SdyArray
    from jax._src.sharding_impls import SdyArrayList

    if not isinstance(sharding, SdyArrayList):
        return sharding
    devices = sharding.shardings[0].logical_device_ids
    token = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=devices)
    return SdyArrayList((token, *sharding.shardings))


class _ByteFunction:
    """A callback on the bytes of its operands and results.

    `by_shard`: the operands are shards, and before them come their shapes, as int64.
    """

    def __init__(
        self,
        function: HostFunction,
        api: str,
        operand_avals: Sequence[Any],
        result_avals: Sequence[Any],
        by_shard: bool = False,
    ) -> None:
        self.function = function
        self._api = api
        self._by_shard = by_shard
        self._operands = [array_type(aval) for aval in operand_avals]
        self._results = [array_type(aval) for aval in result_avals]

    def __call__(self, inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
        operands = self._operands
        if self._by_shard:
            views = iter(inputs)
            shapes = [tuple(np.frombuffer(next(views), np.int64).tolist()) if shape else () for shape, _ in operands]
            operands = [(shape, dtype) for shape, (_, dtype) in zip(shapes, operands, strict=True)]
            inputs = list(views)
        write_results(self._checked(self.function(*read_operands(inputs, operands))), outputs)

    def _checked(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        from jax._src import dtypes

        if len(values) != len(self._results):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(self._results)}, Actual: {len(values)}."
                f" {self._advice(values)}"
            )
        arrays = [dtypes.canonicalize_value(np.asarray(value)) for value in values]
        for i, (array, (shape, dtype)) in enumerate(zip(arrays, self._results, strict=True)):
            for what, expected, actual in (("shape", shape, array.shape), ("dtype", dtype, array.dtype)):
                if expected != actual:
                    raise RuntimeError(
                        f"Incorrect output {what} for return value #{i}: Expected: {expected}, Actual: {actual}."
                        f" {self._advice(arrays)}"
                    )
        return arrays

    def _advice(self, values: Sequence[Any]) -> str:
        def text(types: Sequence[ArrayType]) -> str:
            return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types) or "nothing"

        returned = [np.asarray(value) for value in values]
        return (
            f"Make the callback return {text(self._results)}, or tell {self._api} that it returns"
            f" {text([(array.shape, array.dtype) for array in returned])}"
        )


def read_operands(inputs: Sequence[memoryview], types: Sequence[ArrayType]) -> list[np.ndarray[Any, Any]]:
    """Copies the arrays out of `inputs`: the callback may keep them, and the memory is reused."""
    views = iter(inputs)
    return [
        np.frombuffer(next(views), dtype).reshape(shape).copy() if math.prod(shape) else np.zeros(shape, dtype)
        for shape, dtype in types
    ]


def write_results(values: Sequence[np.ndarray[Any, Any]], outputs: Sequence[memoryview]) -> None:
    """Writes the arrays into `outputs`."""
    destinations = iter(outputs)
    for value in values:
        if value.size:
            destination = np.frombuffer(next(destinations), np.uint8)
            destination[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def array_type(aval: Any) -> ArrayType:
    """Returns (shape, dtype in memory) of an abstract value."""
    from jax._src import core, dtypes

    physical = core.physical_aval(aval)
    dtype = np.dtype(bool) if physical.dtype == dtypes.float0 else np.dtype(physical.dtype)
    return tuple(physical.shape), dtype
