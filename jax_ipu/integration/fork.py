"""Forked children of a process that uses IPUs: an error instead of a wait for threads that do not exist there.

The plugin refuses every call that reaches it (runtime/process/fork.h). A compilation does not: it waits for one of
jaxlib's own threads, which are missing as well. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"


def enable() -> None:
    """Refuses to compile for ``ipu`` in a forked child, and lets the child exit; other platforms are untouched."""
    from jax._src import compiler

    from jax_ipu import _ipu

    original: Any = compiler.backend_compile_and_load

    @unseen
    def compile_unless_forked(backend: Any, *args: Any, **options: Any) -> Any:
        if backend.platform == PLATFORM:
            _ipu.refuse_in_forked_child()
        return original(backend, *args, **options)

    replacement: Any = compile_unless_forked
    compiler.backend_compile_and_load = replacement
    os.register_at_fork(after_in_child=_keep_thread_owners)


def _keep_thread_owners() -> None:
    """Keeps clients and MLIR's thread pool for ever: destroying one joins threads that a child does not have."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    if PLATFORM in xla_bridge._backends:
        for owner in (*xla_bridge._backends.values(), getattr(mlir, "global_thread_pool", None)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
