"""Functions that run inside a context manager."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def inside(context: Callable[[], AbstractContextManager[None]]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator: each call is inside a new context. A context as a decorator would add contextlib to tracebacks."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with context():
                return function(*args, **kwargs)

        return call

    return decorate
