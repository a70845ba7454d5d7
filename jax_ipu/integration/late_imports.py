"""Patches modules that users may import after the plugin, at the time of their import."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jax_ipu.integration.tracebacks import unseen


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

    @unseen
    @functools.wraps(original)
    def register_lowering(*arguments: Any, **options: Any) -> Any:
        result: Any = original(*arguments, **options)
        registered, rule = list(signature.bind(*arguments, **options).arguments.values())[:2]
        # A rule may be any callable, or None, with which JAX removes the rule.
        if getattr(rule, "__module__", None) == module and registered.name == primitive:
            register(original, sys.modules[module])
        return result

    # The public module has its own reference to the function.
    replacement: Any = register_lowering
    mlir.register_lowering = replacement
    jax.interpreters.mlir.register_lowering = replacement


def when_module_imported(module: str, change: Callable[[ModuleType], None]) -> None:
    """Calls `change(module)` once the module of this name is imported: now, or at the end of its import."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        change(loaded)
    else:
        sys.meta_path.insert(0, _Finder(module, change))


class _Finder(importlib.abc.MetaPathFinder):
    """Finder for one module: delegates to the other finders, and patches the module after it is loaded."""

    def __init__(self, module: str, change: Callable[[ModuleType], None]) -> None:
        self._module, self._change = module, change

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                # Each module has its own loader, so this one can be patched.
                vars(spec.loader)["exec_module"] = self._then_change(spec.loader.exec_module)
                return spec
        return None

    def _then_change(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._change(module)

        return exec_module
