"""The stages of the compiler, for who wants to know when they run, such as a profiler.

The compiler does not know who that is: `jax_ipu.integration` sets the observer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# Called with the name of a stage; what it returns is entered when the stage begins, and left when it ends.
Observer = Callable[[str], AbstractContextManager[object]]

_observer: Observer | None = None


def observe(observer: Observer | None) -> None:
    """Replaces the observer of all compilations of the process; None: nobody."""
    global _observer
    _observer = observer


def staged(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Says that a function is the stage `name` of docs/architecture.md."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if _observer is None:
                return function(*args, **kwargs)
            with _observer(name):
                return function(*args, **kwargs)

        return run

    return decorate
