"""The stages of the compiler as events on the host's plane of a profile (jax.profiler.trace)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jax_ipu.compiler import stages


def enable() -> None:
    """Annotates the stages of all compilations. While no profile is taken, an annotation does nothing."""
    stages.observe(_annotation)


def _annotation(stage: str) -> AbstractContextManager[object]:
    from jax.profiler import TraceAnnotation

    return TraceAnnotation(f"ipu compiler: {stage}")
