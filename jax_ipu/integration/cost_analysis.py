"""``Lowered.cost_analysis``: JAX's own counts of a program before it is compiled, which it refuses for plugins."""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"
# XLA leaves out what is zero. Scripts read these without asking.
_ALWAYS = ("flops", "transcendentals", "bytes accessed")


def enable() -> None:
    """Lets XLA's analysis, which knows nothing of devices, count the program of ``jax.jit(f).lower(...)``."""
    from jax._src.interpreters import pxla as typed_pxla
    from jaxlib import _jax

    from jax_ipu.compiler.xla_options import analysis_client

    computation: Any = typed_pxla.MeshComputation
    original: Any = computation.cost_analysis

    @unseen
    def cost_analysis(self: Any) -> dict[str, float]:
        if self.compile_args["backend"].platform != PLATFORM:
            counts: dict[str, float] = original(self)
            return counts
        counts = _jax.hlo_module_cost_analysis(analysis_client(), self.hlo().as_hlo_module())
        return {**dict.fromkeys(_ALWAYS, 0.0), **counts}

    computation.cost_analysis = cost_analysis
