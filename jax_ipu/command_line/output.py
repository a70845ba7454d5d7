"""What commands print: text, with colour on terminals only, or JSON; and their exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, TextIO

from jax_ipu.config import MODEL_VERSIONS

OK, NO, INVALID, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
# The help of --target.
CHIP = f"a chip ({', '.join(MODEL_VERSIONS)}), or chip:tiles; the configured one"

_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


class UsageError(Exception):
    """The command line asks for something that does not exist."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream is a terminal that shows colours and NO_COLOR is not set.

    `stream`: where it is printed, by default standard output.
    """
    if not (stream or sys.stdout).isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def print_json(value: Any) -> None:
    """Prints JSON that every parser reads: no NaN and no infinity."""
    print(json.dumps(value, indent=2, allow_nan=False))


def failed(options: argparse.Namespace, code: int, message: str) -> int:
    """Says on stderr why a command failed, with --json on standard output as well; returns the exit code."""
    if options.json:
        print_json({"error": message, "exit_code": code})
    print(f"jax-ipu: {message}", file=sys.stderr)
    return code
