"""The source line of the user that an op comes from, resolved only where a message or debug name needs it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxlib.mlir import ir as mlir

# Folders of installed packages and of the standard library on any system: a program may come from another machine.
_INSTALLED = re.compile(r".*[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python\d[.\d]*t?)[/\\]", re.IGNORECASE)
_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]")
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _Frame(NamedTuple):
    path: str
    line: int
    function: str

    def text(self, path: str) -> str:
        return f"{path}:{self.line}"


def _frames(location: Any) -> Iterator[_Frame]:
    """The call stack of a location, the innermost frame first."""
    pending = [(location, "")]
    while pending:
        location, function = pending.pop()
        if isinstance(location, tuple):  # the location of an inlined op, and that of the call
            pending += ((part, function) for part in reversed(location))
        elif isinstance(location, mlir.FileLineColLoc):
            yield _Frame(_text(location, "filename"), location.start_line, function)
        elif isinstance(location, mlir.NameLoc):
            pending.append((location.child_loc, _text(location, "name_str")))
        elif isinstance(location, mlir.CallSiteLoc):
            pending += ((location.caller, function), (location.callee, function))
        elif isinstance(location, mlir.FusedLoc):
            pending += ((child, function) for child in reversed(location.locations))


def _text(location: Any, field: str) -> str:
    """A string of a location; "?" where it is not UTF-8."""
    try:
        return str(getattr(location, field))
    except (RuntimeError, UnicodeDecodeError):
        return "?"


@functools.lru_cache(maxsize=4096)
def _in_library(path: str) -> str:
    """The path of a library file as Python imports it, e.g. "optax/_src/update.py"; "" for a file of the user."""
    if path.startswith("<frozen "):
        return path
    installed = _INSTALLED.match(path)
    if installed is not None:
        return path[installed.end() :]
    return "jax_ipu/" + path[len(_OWN_FOLDER) :] if path.startswith(_OWN_FOLDER) else ""


def source_line(location: Any) -> str:
    """ "model.py:12 (loss)", or "" where the program has no locations.

    The line is the innermost one outside the standard library and installed packages. A library that it called comes
    second: "train.py:31 (step, through optax/_src/update.py:44)".
    """
    library: _Frame | None = None
    for frame in _frames(location):
        if _in_library(frame.path):
            library = library or frame
            continue
        details = [frame.function] if frame.function else []
        if library is not None:
            details.append("through " + library.text(_in_library(library.path)))
        where = frame.text(os.path.basename(frame.path))
        return f"{where} ({', '.join(details)})" if details else where
    if library is None:
        return ""
    where = library.text(_in_library(library.path))
    return f"{where} ({library.function})" if library.function else where


class SourceLine(NamedTuple):
    """A line of a file of the user, and the function that it is in, or ""."""

    path: str
    line: int
    function: str


def user_line(location: Any) -> SourceLine | None:
    """The innermost line outside the standard library and installed packages; None where there is none."""
    for frame in _frames(location):
        if not _in_library(frame.path):
            return SourceLine(*frame)
    return None


class Frame(NamedTuple):
    """A call on the stack of an op. `library`: whether an installed package or the standard library made it."""

    path: str
    line: int
    function: str
    library: bool

    @property
    def file(self) -> str:
        """The path as Python imports it, or the name of a file of the user."""
        return _in_library(self.path) or os.path.basename(self.path)

    @property
    def brief(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}"


def user_stack(location: Any) -> tuple[Frame, ...]:
    """The call stack of a location, the innermost call first, without those of this package."""
    frames = []
    for frame in _frames(location):
        library = _in_library(frame.path)
        if not library.startswith("jax_ipu/"):
            frames.append(Frame(*frame, bool(library)))
    return tuple(frames)


def file_of(function: str, location: Any) -> str:
    """The path of the user's Python file whose function of this name is on the call stack of an op, or "".

    A cell of a notebook is no file, though IPython names one.
    """
    for frame in _frames(location):
        is_file = frame.path.endswith(".py") and not _CELL.search(frame.path)
        if frame.function == function and is_file and not _in_library(frame.path):
            return frame.path
    return ""


def operation_path(location: Any) -> str:
    """JAX's name of the operation, with its name scopes, e.g. "jit(f)/dense/dot_general", or ""."""
    name = "/".join(_names(location))
    return name if "/" in name else ""


def _names(location: Any) -> Iterator[str]:
    """The names of a location, the outermost call first: that of an op in a called function is relative to it."""
    parts = [location]  # calls may be nested deeper than Python's stack
    while parts:
        part = parts.pop()
        if isinstance(part, tuple):
            parts.extend(part)
        elif isinstance(part, mlir.NameLoc) and (name := _text(part, "name_str")):
            yield name


def argument_name(location: Any) -> str:
    """JAX's name of an argument, its path in the pytree, e.g. "params['h_3']['kernel']"; or ""."""
    return _text(location, "name_str") if isinstance(location, mlir.NameLoc) else ""
