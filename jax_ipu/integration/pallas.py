"""Pallas on ``ipu``: compiled kernels, and those in interpret mode that run on several cores."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from jax_ipu.integration import late_imports

PLATFORM = "ipu"
_MODULE = "jax._src.pallas.mpmd"
_THREADS = "jax._src.pallas.mosaic.interpret.thread_map"
_PRIMITIVE = "mpmd_map"
_CALL_MODULE = "jax._src.pallas.pallas_call"
_CALL_PRIMITIVE = "pallas_call"


def enable() -> None:
    """Compiles ``pallas_call``, and lowers ``mpmd_map`` as on the CPU; JAX refuses platforms that it does not know."""
    late_imports.when_imported(_CALL_MODULE, _CALL_PRIMITIVE, _register_call)
    late_imports.when_imported(_MODULE, _PRIMITIVE, _register)


def _register_call(register_lowering: Any, module: Any) -> None:
    def lower(context: Any, *arguments: Any, interpret: Any, **parameters: Any) -> Any:
        if interpret or parameters["jaxpr"].constvars:
            return module._pallas_call_lowering(context, *arguments, interpret=interpret, **parameters)
        from jax._src.interpreters import mlir

        function: Any = functools.partial(_call, **parameters)
        return mlir.lower_fun(function, multiple_results=True)(context, *arguments)

    register_lowering(module.pallas_call_p, lower, platform=PLATFORM)


def _call(*arguments: Any, **parameters: Any) -> Any:
    """A kernel for all points of its grid at once; in interpret mode, with a warning, where that cannot be."""
    from jax._src.pallas import hlo_interpreter

    from jax_ipu.integration import pallas_grid

    try:
        return pallas_grid.call(*arguments, **parameters)
    except (NotImplementedError, pallas_grid.NotCompiledError) as error:
        where = parameters["jaxpr"].debug_info.func_src_info
        warnings.warn(
            f"the Pallas kernel {where} is not compiled: {error}. It runs in interpret mode, one grid point after the "
            "other",
            stacklevel=2,
        )
        return hlo_interpreter.pallas_call_hlo_interpret(*arguments, **parameters)


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
