"""DLPack: an array on ``ipu`` is exported as a copy in host memory, e.g. for ``numpy.from_dlpack``.

jaxlib exports the memory of CPU and GPU devices only; the SRAM of an IPU has no address for other devices. An export
that forbids a copy (``copy=False``) still gets JAX's error. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"


def enable() -> None:
    """Wraps JAX's export of single-device arrays; arrays on other platforms are untouched."""
    from jax._src import array, dlpack
    from jax._src.typing import DLDeviceType

    host = (DLDeviceType.kDLCPU, 0)
    module: Any = dlpack
    array_type: Any = array.ArrayImpl
    export, device_of = module.to_dlpack, array_type.__dlpack_device__

    @unseen
    def to_dlpack(x: Any, **options: Any) -> Any:
        if options.get("dl_device") is None and isinstance(x, array.ArrayImpl) and x.platform() == PLATFORM:
            options["dl_device"] = host
        return export(x, **options)

    @unseen
    def dlpack_device(self: Any) -> Any:
        if self.platform() == PLATFORM and len(self.sharding.device_set) == 1:
            return host
        return device_of(self)

    if getattr(export, "__module__", None) != __name__:
        module.to_dlpack = to_dlpack
        array_type.__dlpack_device__ = dlpack_device
