"""What commands print: text, with colour on terminals only, or JSON; and their exit codes."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO

OK, NO, INVALID, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EIO)
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


class UsageError(Exception):
    """The command line asks for something that does not exist."""


def is_of_output(error: BaseException) -> bool:
    """Whether it says that standard output takes no more: its reader has ended, or its disk is full."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream is a terminal that shows colours and NO_COLOR is not set.

    `stream`: where it is printed, by default standard output.
    """
    stream = stream or sys.stdout
    # None: it was closed when Python started.
    if stream is None or not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


# Where JSON goes while standard output is that of others.
_json: TextIO | None = None


@contextmanager
def alone_on_stdout() -> Iterator[None]:
    """JSON is all that there is on standard output: what the code of the user prints goes to standard error."""
    global _json
    _json = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _json = None


def print_json(value: Any) -> None:
    """Prints JSON that every parser reads: no NaN and no infinity."""
    print(json.dumps(value, indent=2, allow_nan=False), file=_json)


def failed(options: argparse.Namespace, code: int, message: str) -> int:
    """Says on stderr why a command failed, with --json on standard output as well; returns the exit code."""
    if options.json:
        print_json({"error": message, "exit_code": code})
    print(f"jax-ipu: {message}", file=sys.stderr)
    return code
