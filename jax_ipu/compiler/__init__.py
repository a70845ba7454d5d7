"""The compiler from StableHLO to Poplar: `compile` and its options. Knows neither JAX nor PJRT."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax_ipu.compiler.api import compile as compile
    from jax_ipu.compiler.errors import CompileError as CompileError
    from jax_ipu.compiler.options import Options as Options
    from jax_ipu.compiler.options import compile_options as compile_options

__all__ = ["CompileError", "Options", "compile", "compile_options"]

# Loaded on first access: a process that compiles nothing for an IPU must not pay for the compiler at its start.
_MODULES = {"CompileError": "errors", "Options": "options", "compile": "api", "compile_options": "options"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
