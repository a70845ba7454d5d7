"""Lowerings of primitives in modules that users import when they need them, often after the plugin."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any


def when_imported(module: str, primitive: str, register: Callable[[Any, Any], None]) -> None:
    """Calls `register(register_lowering, module)` as soon as `module` has a lowering of the primitive of this name.

    That is now, or when the module registers one of its own. Tested with jax 0.10.2 and 0.12.0.
    """
    import jax.interpreters.mlir
    from jax._src.interpreters import mlir

    original = mlir.register_lowering
    if module in sys.modules:
        register(original, sys.modules[module])
        return

    signature = inspect.signature(original)

    @functools.wraps(original)
    def register_lowering(*arguments: Any, **options: Any) -> Any:
        result: Any = original(*arguments, **options)
        registered, rule = list(signature.bind(*arguments, **options).arguments.values())[:2]
        # A rule may be anything that can be called, or None: then JAX takes the rule back.
        if getattr(rule, "__module__", None) == module and registered.name == primitive:
            register(original, sys.modules[module])
        return result

    # The public module has a reference of its own.
    replacement: Any = register_lowering
    mlir.register_lowering = replacement
    jax.interpreters.mlir.register_lowering = replacement
