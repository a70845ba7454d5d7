"""``jax.device_put(x, may_alias=False)`` of NumPy arrays: the array on ``ipu`` does not follow later changes of ``x``.

jaxlib lets every backend keep a NumPy array's memory, whatever ``may_alias`` says. So the copy is made here.
Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax_ipu.integration.tracebacks import leave_out

PLATFORM = "ipu"


def enable() -> None:
    """Wraps the functions by which JAX transfers NumPy arrays; other platforms are untouched."""
    import numpy
    from jax._src import literals
    from jax._src.interpreters import pxla

    handlers: Any = pxla.shard_arg_handlers
    for kind in (numpy.ndarray, literals.TypedNdArray):
        if getattr(handlers[kind], "__module__", None) != __name__:
            handlers[kind] = _copying(handlers[kind])


def _copying(original: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    from jax._src.dispatch import ArrayCopySemantics

    def shard(
        xs: Sequence[Any], shardings: Sequence[Any], layouts: Any, copy_semantics: Sequence[Any]
    ) -> Sequence[Any]:
        if ArrayCopySemantics.ALWAYS_COPY in copy_semantics:
            xs = [
                x.copy() if copy == ArrayCopySemantics.ALWAYS_COPY and _is_on_ipu(sharding) else x
                for x, sharding, copy in zip(xs, shardings, copy_semantics, strict=True)
            ]
        try:
            return original(xs, shardings, layouts, copy_semantics)
        except Exception as error:
            leave_out(error)
            raise

    return shard


def _is_on_ipu(sharding: Any) -> bool:
    return any(device.platform == PLATFORM for device in sharding.device_set)
