"""jax.experimental.buffer_callback: callbacks that write their results into buffers.

JAX has rules for CPU and GPU only. Here the buffers are in host memory: operands and results of a callback pass through
it in any case. Each is a copy that lives as long as Python refers to it. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax_ipu.integration import late_imports
from jax_ipu.integration.callbacks import PLATFORM, ArrayType, array_type, call_host, read_operands, write_results


def enable() -> None:
    """Registers the lowering, once JAX's module is imported."""
    late_imports.when_imported("jax._src.buffer_callback", "buffer_callback", _register)


def _register(register_lowering: Any, module: Any) -> None:
    register_lowering(module.buffer_callback_p, _lower, platform=PLATFORM)


class Buffer:
    """An operand or a result of a callback, with the interface of `jax.experimental.buffer_callback.Buffer`."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self.dtype: np.dtype[Any] = array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        return self._array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class ExecutionContext:
    """The context of a run, with the interface of `jax.experimental.buffer_callback.ExecutionContext`."""

    @property
    def stage(self) -> Any:
        from jax.experimental.buffer_callback import ExecutionStage

        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raises `jax.errors.JaxRuntimeError`: only GPUs have streams."""
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("XLA FFI GPU context is not available: an IPU has no stream")


class _BufferFunction:
    """A callback on the bytes of its operands and results."""

    def __init__(
        self,
        function: Callable[[list[Buffer], list[Buffer]], None],
        operands: Sequence[ArrayType],
        results: Sequence[ArrayType],
        aliases: Mapping[int, int],
    ) -> None:
        self.function = function
        self._operands, self._results, self._aliases = operands, results, aliases

    def __call__(self, inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
        operands = read_operands(inputs, self._operands)
        results = [np.zeros(shape, dtype) for shape, dtype in self._results]
        for operand, result in self._aliases.items():
            results[result] = operands[operand]
        read_only = [operand.view() for operand in operands]
        for operand_view in read_only:
            operand_view.flags.writeable = False
        self.function([Buffer(array) for array in read_only], [Buffer(array) for array in results])
        write_results(results, outputs)


def _lower(
    ctx: Any,
    *operands: Any,
    callback: Callable[..., object],
    in_tree: Any,
    out_tree: Any,
    has_side_effect: bool,
    input_output_aliases: Sequence[tuple[int, int]],
    **params: Any,
) -> Sequence[Any]:
    from jax._src.interpreters import mlir

    del params  # vmap method, and command buffers of GPUs

    def function(arguments: list[Buffer], results: list[Buffer]) -> None:
        positional, named = in_tree.unflatten(arguments)
        if callback(ExecutionContext(), out_tree.unflatten(results), *positional, **named) is not None:
            raise ValueError("buffer_callback callback must not return any values.")

    operand_types, result_types = ([array_type(aval) for aval in avals] for avals in (ctx.avals_in, ctx.avals_out))
    call, _ = call_host(
        ctx,
        _BufferFunction(function, operand_types, result_types, dict(input_output_aliases)),
        operands,
        [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out],
        has_side_effect=has_side_effect,
    )
    return list(call.results)
