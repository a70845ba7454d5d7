"""Scans of CHLO: jaxlib expands ``chlo.scan`` before the plugin gets the program, and treats reverse scans as forward.

jaxlib does so for every plugin, in ``Client.compile_and_load`` (jax 0.10.2), so the program is rewritten before that.
"""

from __future__ import annotations

from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"
# Compile-only clients have a different method.
_METHODS = (("Client", "compile_and_load"), ("Client", "compile"), ("CompileOnlyPyClient", "compile"))


def enable() -> None:
    """Rewrites programs for the platform before jaxlib serialises them; other platforms are untouched."""
    from jaxlib import _jax

    for owner, method in _METHODS:
        if hasattr(_jax, owner) and hasattr(getattr(_jax, owner), method):
            _wrap(getattr(_jax, owner), method)


def _wrap(owner: Any, method: str) -> None:
    original = getattr(owner, method)

    @unseen
    def compile_prepared(self: Any, computation: Any, *rest: Any, **options: Any) -> Any:
        if self.platform == PLATFORM:
            computation = _with_prepared_scans(computation)
        return original(self, computation, *rest, **options)

    setattr(owner, method, compile_prepared)


def _with_prepared_scans(computation: Any) -> Any:
    """Rewrites a module in place; bytecode and text without CHLO scans are returned unchanged."""
    from jaxlib.mlir import ir

    from jax_ipu.compiler.frontend.parse import parse_module
    from jax_ipu.compiler.frontend.scans import prepare_scans

    if isinstance(computation, ir.Module):
        prepare_scans(computation)
        return computation
    program = computation.encode() if isinstance(computation, str) else computation
    if b"chlo" not in program or b"scan" not in program:
        return computation
    module = parse_module(program)
    prepare_scans(module)
    return str(module.operation.get_asm(enable_debug_info=True))
