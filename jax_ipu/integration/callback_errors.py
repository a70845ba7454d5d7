"""What a failed callback tells the user: which callback it is, where the program calls it, what it raised.

Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from typing import Any

import jax

from jax_ipu.integration.tracebacks import is_hidden

# What users call, by the name of the primitive.
_APIS = {
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
    "debug_callback": "jax.debug.callback",
    "debug_print": "jax.debug.print",
    "buffer_callback": "jax.experimental.buffer_callback",
    "check": "jax.experimental.checkify.check",
}
_JAX = os.path.dirname(jax.__file__) + os.sep
# JAX wraps a callback in functions whose closures or attributes have these names.
_WRAPPED = ("callback", "callback_func", "func")
_MAX_DEPTH = 8


class CallbackError(RuntimeError):
    """A callback that raised an exception or returned something else than it promised."""


def api_of(ctx: Any) -> str:
    """The function of JAX that a lowering belongs to."""
    name = getattr(getattr(ctx, "primitive", None), "name", "")
    return _APIS.get(name, name or "a callback")


def description(ctx: Any, function: Any) -> str:
    """As "the callback 'f' (model.py:3) of jax.pure_callback at model.py:12 (loss)".

    Args:
        ctx: the context of the lowering.
        function: the callback, or what JAX has made of it.
    """
    from jax._src import source_info_util

    own = _user_function(function)
    code = getattr(inspect.unwrap(own) if callable(own) else own, "__code__", None)
    named = getattr(own, "__name__", type(own).__name__)
    what = f"the callback {named!r}"
    if code is not None:
        what += f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
    frame = source_info_util.user_frame(ctx.traceback)
    place = f" at {os.path.basename(frame.file_name)}:{frame.start_line} ({frame.function_name})" if frame else ""
    return f"{what if own is not None else 'the callback'} of {api_of(ctx)}{place}"


def _user_function(function: Any) -> Any:
    """The user's function inside the functions that JAX puts around it; None where there is only JAX's own."""
    for _ in range(_MAX_DEPTH):
        code = getattr(function, "__code__", None)
        if not isinstance(function, functools.partial) and code is not None and not _is_internal(code.co_filename):
            return function
        inner = _inner(function)
        if inner is None:
            # A callable without Python code: of NumPy, say.
            return function if code is None and not type(function).__module__.startswith("jax.") else None
        function = inner
    return None


def _inner(function: Any) -> Any:
    code = getattr(function, "__code__", None)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False) if code is not None else ()
    found = {name: cell.cell_contents for name, cell in cells}
    for name in _WRAPPED:
        inner = found.get(name, getattr(function, name, None))
        if callable(inner):
            return inner
    return None


def _is_internal(filename: str) -> bool:
    # JAX's own filter leaves out some of its files only.
    return filename.startswith(_JAX) or is_hidden(filename)


def failure(error: BaseException, callback: str) -> str:
    """What the error of a run says. Frames of JAX and of this package are left out, as JAX's setting says."""
    from jax._src import config

    show_all = config.traceback_filtering.value == "off"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if show_all or not _is_internal(f.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    what = "".join([*lines, *traceback.format_exception_only(error)]).rstrip()
    return f"{callback}:\n{what}"
