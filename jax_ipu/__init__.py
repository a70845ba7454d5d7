"""JAX on Graphcore IPUs: a PJRT plugin, a compiler and an open IPU model.

``import jax`` alone finds the ``ipu`` platform. This package adds what JAX has no interface for: the configuration
(:data:`config`), the transfer and run counters (:func:`counters`), what a function would cost on any IPU
(:func:`estimate`, :func:`largest_batch`), a report on it for a browser (:func:`report`), the compiler's view of it
(:mod:`jax_ipu.debug`), programs that share an engine (:func:`link`), programs for the tiles (:mod:`jax_ipu.tile`),
traces of what the IPUs did (:func:`trace`), and :class:`GraphCoreManager` for models of other frameworks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jax_ipu import names as _names
from jax_ipu.config import Config, config
from jax_ipu.counters import Counters, counters
from jax_ipu.integration.tracebacks import unseen as _unseen
from jax_ipu.version import __version__

if TYPE_CHECKING:
    from jax_ipu import debug as debug
    from jax_ipu import tile as tile
    from jax_ipu.estimates import Comparison as Comparison
    from jax_ipu.estimates import Estimate as Estimate
    from jax_ipu.estimates import estimate as estimate
    from jax_ipu.estimates import largest_batch as largest_batch
    from jax_ipu.graphcore_manager import GraphCoreManager as GraphCoreManager
    from jax_ipu.graphcore_manager import get_graphcore_manager as get_graphcore_manager
    from jax_ipu.integration.link import link as link
    from jax_ipu.pipelines import Pipeline as Pipeline
    from jax_ipu.pipelines import pipeline as pipeline
    from jax_ipu.pipelines import split_into_stages as split_into_stages
    from jax_ipu.reports import Report as Report
    from jax_ipu.reports import ReportComparison as ReportComparison
    from jax_ipu.reports import report as report
    from jax_ipu.traces import trace as trace

__all__ = [
    "Comparison",
    "Config",
    "Counters",
    "Estimate",
    "GraphCoreManager",
    "Pipeline",
    "Report",
    "ReportComparison",
    "__version__",
    "config",
    "counters",
    "debug",
    "estimate",
    "get_graphcore_manager",
    "largest_batch",
    "link",
    "pipeline",
    "report",
    "split_into_stages",
    "tile",
    "trace",
]

# These import JAX, so they are loaded on first access.
_LAZY = {
    "Comparison": ("jax_ipu.estimates", "Comparison"),
    "Estimate": ("jax_ipu.estimates", "Estimate"),
    "estimate": ("jax_ipu.estimates", "estimate"),
    "largest_batch": ("jax_ipu.estimates", "largest_batch"),
    "debug": ("jax_ipu.debug", ""),
    "GraphCoreManager": ("jax_ipu.graphcore_manager", "GraphCoreManager"),
    "Pipeline": ("jax_ipu.pipelines", "Pipeline"),
    "pipeline": ("jax_ipu.pipelines", "pipeline"),
    "split_into_stages": ("jax_ipu.pipelines", "split_into_stages"),
    "Report": ("jax_ipu.reports", "Report"),
    "ReportComparison": ("jax_ipu.reports", "ReportComparison"),
    "report": ("jax_ipu.reports", "report"),
    "get_graphcore_manager": ("jax_ipu.graphcore_manager", "get_graphcore_manager"),
    "link": ("jax_ipu.integration.link", "link"),
    "tile": ("jax_ipu.tile", ""),
    "trace": ("jax_ipu.traces", "trace"),
}


@_unseen
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        meant = _names.nearest(name, __all__)
        hint = f". Did you mean {meant}?" if meant else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    return getattr(module, attribute) if attribute else module


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
