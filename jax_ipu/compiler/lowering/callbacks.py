"""Host functions: Python callbacks, which the program names by id, and foreign functions."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler import ffi_calls
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.types import SIZE, num_elements


def lower_callback(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Calls a Python callback; empty operands and results are not transferred."""
    name = context.name(op)
    inputs = [o for o in op.operands if num_elements(o.shape)]
    results = [context.allocate(r, name) for r in op.results]
    outputs = [r for r in op.results if num_elements(r.shape)]
    function = _host_function(context, op, inputs, outputs)
    context.sequence.call_host(
        function,
        [context.tensor(o) for o in inputs],
        [t for t in results if t.num_elements],
        name,
    )
    return results


def _host_function(context: Context, op: Op, inputs: list[Value], outputs: list[Value]) -> _ipu.HostFunction:
    """The host function of the callback; all calls of one callback share it."""
    text = str(op.attrs.get("backend_config", ""))
    if not text.isdecimal():
        raise CompileError(f"ipu_python_callback has no callback id, but {text!r}", INVALID_ARGUMENT)
    types = tuple(tuple((v.dtype, num_elements(v.shape)) for v in values) for values in (inputs, outputs))
    known = context.host_functions.get(int(text))
    if known is None:
        function = context.graph.add_host_function(f"callback{text}", *map(list, types))
        known = context.host_functions[int(text)] = (function, types)
    if known[1] != types:
        raise CompileError(f"the callback {text} is called with different types", INVALID_ARGUMENT)
    return known[0]


def callback_specs(context: Context) -> list[_ipu.HostCallbackSpec]:
    """The id of each callback, and the bytes of its operands and results, as `_ipu.Executable` takes them."""
    return [
        _ipu.HostCallbackSpec(id=i, input_bytes=_bytes(types[0]), output_bytes=_bytes(types[1]))
        for i, (_, types) in context.host_functions.items()
    ]


def _bytes(types: Sequence[tuple[str, int]]) -> list[int]:
    return [SIZE[dtype] * count for dtype, count in types]


def lower_ffi_call(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Calls a foreign function; each call has its own host function, because handlers may keep state."""
    name = context.name(op)
    call = op.attrs[ffi_calls.ATTRIBUTE]
    number = len(context.ffi_calls)
    types = ([o.dtype for o in op.operands], [r.dtype for r in op.results])
    context.ffi_calls.append(ffi_calls.spec(call, op.location, types))
    results = [context.allocate(r, name) for r in op.results]
    inputs = [o for o in op.operands if num_elements(o.shape)]
    outputs = [r for r in op.results if num_elements(r.shape)]
    sizes = ([(v.dtype, num_elements(v.shape)) for v in values] for values in (inputs, outputs))
    function = context.graph.add_host_function(f"ffi{number}", *sizes)
    tensors = [context.tensor(o) for o in inputs]
    context.sequence.call_host(function, tensors, [t for t in results if t.num_elements], name)
    return results


LOWERINGS = {"ipu.callback": lower_callback, "ipu.ffi_call": lower_ffi_call}
