"""Pallas kernels in interpret mode that run on several cores (``pallas.mpmd_map``, ``core_map``)."""

from __future__ import annotations

import sys
from typing import Any

from jax_ipu.integration import late_imports

PLATFORM = "ipu"
_MODULE = "jax._src.pallas.mpmd"
_THREADS = "jax._src.pallas.mosaic.interpret.thread_map"
_PRIMITIVE = "mpmd_map"


def enable() -> None:
    """Lowers ``mpmd_map`` as on the CPU; JAX refuses platforms that it does not know."""
    late_imports.when_imported(_MODULE, _PRIMITIVE, _register)


def _register(register_lowering: Any, module: Any) -> None:
    def lower(*arguments: Any, **parameters: Any) -> Any:
        return module._mpmd_map_fallback_lowering(*arguments, **parameters)

    register_lowering(module.mpmd_map_p, lower, platform=PLATFORM)


def refuse_threads() -> None:
    """Makes interpreted cores that run at the same time an error: called when a callback is lowered.

    JAX runs each core on a thread that a callback starts, with programs of its own. These programs would wait for the
    IPU, whose current program waits for the callback: a deadlock.
    """
    threads: Any = sys.modules.get(_THREADS)
    if threads is None or threads._run_jaxpr.__module__ == __name__:
        return
    run_jaxpr = threads._run_jaxpr

    def run_unless_waiting(*arguments: Any) -> Any:
        import jax

        if jax.default_backend() == PLATFORM:
            raise NotImplementedError(
                "Pallas in interpret mode with several cores or threads runs a program for each from a callback, and "
                "an IPU whose program waits for a callback runs no other. Interpret one core, or run it on the CPU: "
                "jax.config.update('jax_platform_name', 'cpu')."
            )
        return run_jaxpr(*arguments)

    threads._run_jaxpr = run_unless_waiting
