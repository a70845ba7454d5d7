"""Compiles programs for a topology (``jax.experimental.topologies``), whether or not IPUs are attached."""

from __future__ import annotations

from typing import Any

PLATFORM = "ipu"


def enable() -> None:
    """Compiles for a topology with the client of that topology, even when IPUs are attached.

    JAX prefers the client of the attached devices (``compiler._get_cross_compile_backend``), whose compilation in
    jaxlib keeps the interpreter's lock while another thread calls the compiler, which needs the lock.
    """
    from jax._src import compiler

    attached_backend: Any = compiler._get_cross_compile_backend

    def backend_for(compile_only_backend: Any) -> Any:
        return None if compile_only_backend.platform == PLATFORM else attached_backend(compile_only_backend)

    replacement: Any = backend_for
    compiler._get_cross_compile_backend = replacement
