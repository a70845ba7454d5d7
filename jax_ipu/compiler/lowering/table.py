"""The table from op to the function that lowers it, and the advice for ops without one."""

from __future__ import annotations

from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.location import operation_path, source_line
from jax_ipu.compiler.lowering import (
    callbacks,
    collectives,
    control_flow,
    convolution,
    elementwise,
    fft,
    host_memory,
    index,
    linear_algebra,
    product,
    random,
    reduce,
    sort,
    tiles,
    views,
    window,
)
from jax_ipu.compiler.lowering.context import Creator, Lowering
from jax_ipu.compiler.types import type_text

LOWERINGS: dict[str, Lowering] = {
    **callbacks.LOWERINGS,
    **collectives.LOWERINGS,
    **control_flow.LOWERINGS,
    **convolution.LOWERINGS,
    **elementwise.LOWERINGS,
    **fft.LOWERINGS,
    **host_memory.LOWERINGS,
    **index.LOWERINGS,
    **linear_algebra.LOWERINGS,
    **product.LOWERINGS,
    **random.LOWERINGS,
    **reduce.LOWERINGS,
    **sort.LOWERINGS,
    **tiles.LOWERINGS,
    **views.LOWERINGS,
    **window.LOWERINGS,
}

# Op -> the function that makes a variable, mapped as the op plans for one of its operands.
CREATORS: dict[str, Creator] = {
    **convolution.CREATORS,
    **index.CREATORS,
    **product.CREATORS,
    **sort.CREATORS,
    **tiles.CREATORS,
    **views.CREATORS,
}

_DYNAMIC = "make every shape static (pad to a fixed size and mask)"
_CALLBACK = "take the callback out of the jitted function and return the value instead"
_ASYNC = "use the op that it wraps: execution is asynchronous as a whole"
# JAX and PJRT have no host side for infeed, outfeed, send and recv any more.
_IN = "pass the data as an argument, or fetch it while the program runs by jax.experimental.io_callback"
_OUT = "return the data as a result, or hand it over while the program runs by jax.experimental.io_callback"
# Op -> what the user can do instead.
ALTERNATIVES: dict[str, str] = {
    "async_done": _ASYNC,
    "async_start": _ASYNC,
    "collective_reduce": "use all_reduce (jax.lax.psum and others), which gives every device the result",
    "dynamic_broadcast_in_dim": _DYNAMIC,
    "dynamic_conv": _DYNAMIC,
    "dynamic_gather": _DYNAMIC,
    "dynamic_iota": _DYNAMIC,
    "dynamic_pad": _DYNAMIC,
    "dynamic_reshape": _DYNAMIC,
    "get_dimension_size": _DYNAMIC,
    "real_dynamic_slice": _DYNAMIC,
    "set_dimension_size": _DYNAMIC,
    "infeed": _IN,
    "outfeed": _OUT,
    "send": _OUT,
    "recv": _IN,
}


def unsupported(op: Op) -> CompileError:
    """The error for an op without a lowering, with its types, source line and an alternative."""
    name = op.name
    advice = ALTERNATIVES.get(name)
    if name == "custom_call":
        target = op.attrs.get("call_target_name", "?")
        name = f'custom_call "{target}"'
        if "callback" in str(target):
            advice = _CALLBACK
    operands = ", ".join(type_text(o.shape, o.dtype) for o in op.operands) or "no operands"
    results = ", ".join(type_text(r.shape, r.dtype) for r in op.results) or "no results"
    where = source_line(op.location) or "an unknown source line"
    path = operation_path(op.location)
    advice = advice or "compute this part on the CPU: jax.jit(f, backend='cpu')"
    return CompileError(
        f"{name} is not supported on IPU: ({operands}) -> {results}, at {where}"
        f"{f', in {path}' if path else ''}. What to do: {advice}."
    )
