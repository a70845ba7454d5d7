"""The user's source line behind an op, resolved only when a message or a debug name needs it."""

from __future__ import annotations

import os
from typing import Any

from jaxlib.mlir import ir as mlir


def _first_file(location: Any, function: str) -> tuple[str, int, str] | None:
    if isinstance(location, tuple):  # an inlined op's own location and that of the call
        return _first_file(location[0], function) or _first_file(location[1], function)
    if isinstance(location, mlir.FileLineColLoc):
        return location.filename, location.start_line, function
    if isinstance(location, mlir.NameLoc):
        return _first_file(location.child_loc, location.name_str)
    if isinstance(location, mlir.CallSiteLoc):
        return _first_file(location.callee, function) or _first_file(location.caller, function)
    if isinstance(location, mlir.FusedLoc):
        for child in location.locations:
            found = _first_file(child, function)
            if found is not None:
                return found
    return None


def source_line(location: Any) -> str:
    """ "model.py:12 (loss)", or "" when the program carries no location."""
    if location is None:
        return ""
    found = _first_file(location, "")
    if found is None:
        return ""
    path, line, function = found
    where = f"{os.path.basename(path)}:{line}"
    return f"{where} ({function})" if function else where


def operation_path(location: Any) -> str:
    """JAX's name of the operation, e.g. "jit(f)/dot_general", or ""."""
    while isinstance(location, tuple):
        location = location[0]
    if isinstance(location, mlir.NameLoc) and "/" in location.name_str:
        return str(location.name_str)
    return ""
