"""JAX on Graphcore IPUs: a PJRT plugin, a compiler and an open IPU model.

``import jax`` alone finds the ``ipu`` platform. This package adds what JAX has no place for: the configuration
(:data:`config`), the transfer and run counters (:func:`counters`) and the compiler's view of a function
(:mod:`jax_ipu.debug`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jax_ipu.config import Config, config
from jax_ipu.counters import Counters, counters

if TYPE_CHECKING:
    from jax_ipu import debug as debug

__version__ = "0.1.0"
__all__ = ["Config", "Counters", "__version__", "config", "counters", "debug"]


def __getattr__(name: str) -> Any:
    # jax_ipu.debug imports JAX: only when it is asked for.
    if name == "debug":
        return importlib.import_module("jax_ipu.debug")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
