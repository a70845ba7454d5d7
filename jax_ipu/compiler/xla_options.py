"""Checks options of XLA's compiler: they have no effect on IPU, but their values must be valid.

XLA's CPU compiler checks them. It gets one more option, which does not exist, so that it stops after the check.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from jaxlib import _jax

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError

_EMPTY = "module { func.func @main() { return } }"
_LAST = "end of options"
# The message for an option of another compiler of XLA, which is accepted: programs may run elsewhere, too.
_UNKNOWN = "No such compile option"
_STATUS = re.compile(r"^[A-Z_]+: ")


@functools.cache
def check(name: str, value: str | bool | int | float) -> None:
    """Raises CompileError (INVALID_ARGUMENT) where XLA knows the option and refuses the value."""
    options = _jax.CompileOptions()
    options.env_option_overrides = [(name, value), (_LAST, True)]
    client = analysis_client()
    try:
        client.compile_and_load(_EMPTY, client.devices(), options)
    except _jax.JaxRuntimeError as error:
        if not (message := _STATUS.sub("", str(error))).startswith(_UNKNOWN):
            raise CompileError(message, INVALID_ARGUMENT) from error


@functools.cache
def analysis_client() -> Any:
    """A client of the CPU that asks XLA about programs and options, and never runs anything."""
    return _jax.get_tfrt_cpu_client(num_devices=1)
