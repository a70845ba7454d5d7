"""The command line ``jax-ipu``: one module for each group of commands, and the exit codes.

Exit codes: 0, done, and the answer is yes; 1, the answer is no: a program does not fit, or the doctor found an error;
2, the command line is not valid, or gives a function what it refuses; 3, a program cannot be read, traced or
compiled; 130, interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from jax_ipu.command_line import cache, doctor, estimate, info, monitor, popc, poplar, report, run
from jax_ipu.command_line.arguments import Parser
from jax_ipu.command_line.output import FAILED, INTERRUPTED, INVALID, OK, UsageError, failed, is_of_output
from jax_ipu.version import __version__

# Names that an ImportError has where the extension is missing, or does not load.
_EXTENSION = ("jax_ipu", "jax_ipu._ipu")
_COMMANDS = (info, run, estimate, report, monitor, doctor, cache, poplar, popc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; `arguments` without the program's name, by default those of Python."""
    try:
        return _main(arguments)
    except OSError as error:
        if not is_of_output(error):
            raise
        _discard_output()
        if isinstance(error, BrokenPipeError):  # the reader of the output, such as `head`, has ended
            return OK
        print(f"jax-ipu: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED


def _discard_output() -> None:
    """Python flushes once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> Parser:
    parser = Parser(
        prog="jax-ipu",
        description="JAX on Graphcore IPUs.",
        examples=["jax-ipu doctor", "jax-ipu run train.py", "jax-ipu estimate train.py:step --arg 'f32[128,784]'"],
        epilog="Exit codes: 0 done, or yes; 1 no: does not fit, or an error of the installation; 2 invalid command"
        " line; 3 the program cannot be read, traced or compiled; 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"jax-ipu {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_commands(commands)
    return parser


def _main(arguments: Sequence[str] | None) -> int:
    try:
        options, unknown = _parser().parse_known_args(arguments)
        if unknown:
            options.parser.refuse(unknown)
        return _run(options)
    finally:
        if sys.stdout is not None:  # None: it was closed when Python started
            sys.stdout.flush()


def _run(options: argparse.Namespace) -> int:
    # Without the notices of XLA's libraries, unless the user asks for them.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # As with `python -m`: modules of the user are found from where the command is run.
    path = list(sys.path)
    try:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
    except FileNotFoundError:
        return failed(options, INVALID, "the folder that this shell is in has been removed: change to another")
    try:
        code: int = options.run(options)
    except UsageError as error:
        return failed(options, INVALID, str(error))
    except KeyboardInterrupt:
        return failed(options, INTERRUPTED, "interrupted")
    except ImportError as error:
        if error.name not in _EXTENSION:
            raise
        return failed(options, FAILED, f"the extension module does not load: {error}. jax-ipu doctor says what to do")
    finally:
        sys.path[:] = path
    return code
