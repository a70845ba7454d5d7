"""Memory kinds: ``device`` (SRAM of the IPU) and ``pinned_host`` (host memory that programs stream from and to).

Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

PLATFORM = "ipu"


def enable() -> None:
    """``jax.device_put`` inside ``jax.jit`` names memory kinds and shardings in the program, as on TPU and GPU."""
    from jax._src import dispatch
    from jax._src.interpreters import mlir

    mlir.register_lowering(dispatch.device_put_p, dispatch._tpu_gpu_device_put_lowering, platform=PLATFORM)
