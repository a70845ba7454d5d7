"""Tracebacks without the frames of this package, as JAX leaves out its own.

``JAX_TRACEBACK_FILTERING`` says how, and ``off`` shows all frames. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
import os
import sys
import types
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


def leave_out(error: BaseException) -> None:
    """Takes the frames of this package out of the traceback of an error, which the caller raises again.

    For functions in place of JAX's, where JAX does not filter: its own frames stay, as they are without this package.
    It does not import JAX.
    """
    util: Any = sys.modules.get("jax._src.traceback_util")
    mode = util._filtering_mode() if util else os.environ.get("JAX_TRACEBACK_FILTERING")
    if mode == "off" or (util and _is_below_jax(util)):  # JAX filters there, and can show the whole traceback
        return
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    for one in reversed(entries):
        if not one.tb_frame.f_code.co_filename.startswith(f"{_PACKAGE}{os.sep}"):
            entry = types.TracebackType(entry, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = entry


def _is_below_jax(util: Any) -> bool:
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and not util._is_reraiser_frame(frame):
        frame = frame.f_back
    return frame is not None


def unseen(fun: C) -> C:
    """A function in place of one of JAX's or of Python: its frames are left out of tracebacks.

    Where it is called so often that a call of Python counts, it has `leave_out` itself.
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            leave_out(error)
            raise

    return cast(C, call)


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
