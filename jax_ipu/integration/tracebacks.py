"""Tracebacks without the frames of this package, as JAX leaves out its own.

``JAX_TRACEBACK_FILTERING`` says how, and ``off`` shows all frames. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

C = TypeVar("C", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]


@functools.cache
def enable() -> None:
    """Makes JAX treat the frames of the package as it treats its own."""
    from jax._src import traceback_util

    traceback_util.register_exclusion(str(_PACKAGE))


def is_hidden(filename: str) -> bool:
    """Whether frames of the file are left out of tracebacks."""
    from jax._src import traceback_util

    enable()
    return not traceback_util.include_filename(filename)


def boundary(fun: C) -> C:
    """A function of users, below whose call the frames of JAX and of this package are left out of tracebacks.

    JAX is imported when it is called, not before.
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return _bounded(fun)(*args, **kwargs)
        except Exception as error:
            # JAX has filtered the frames below; that of `call` itself is added afterwards.
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise

    return cast(C, call)


@functools.cache
def _bounded(fun: Callable[..., Any]) -> Callable[..., Any]:
    from jax._src import traceback_util

    enable()
    bounded: Callable[..., Any] = traceback_util.api_boundary(fun)
    return bounded
