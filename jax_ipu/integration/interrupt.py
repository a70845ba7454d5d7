"""Ctrl-C while a program compiles: jaxlib's own thread compiles on after its caller has raised KeyboardInterrupt."""

from __future__ import annotations

import threading
from typing import Any

PLATFORM = "ipu"


def enable() -> None:
    """Ends the compilation that an interrupt has left; other platforms are untouched."""
    from jax._src import compiler

    from jax_ipu.compiler import progress

    original: Any = compiler.backend_compile_and_load
    lock = threading.Lock()
    callers = 0

    def compile_until_interrupted(backend: Any, *args: Any, **options: Any) -> Any:
        nonlocal callers
        if backend.platform != PLATFORM:
            return original(backend, *args, **options)
        with lock:
            callers += 1
        try:
            return original(backend, *args, **options)
        except KeyboardInterrupt:
            with lock:
                alone = callers == 1
            if alone:  # which one is whose is not known
                progress.cancel_all()
            raise
        finally:
            with lock:
                callers -= 1

    replacement: Any = compile_until_interrupted
    compiler.backend_compile_and_load = replacement
