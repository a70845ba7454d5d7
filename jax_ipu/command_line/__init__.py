"""The command line ``jax-ipu``: one module for each group of commands, and the exit codes.

Exit codes: 0, done, and the answer is yes; 1, the answer is no: a program does not fit, or the doctor found an error;
2, the command line is not valid; 3, a program cannot be read, traced or compiled; 130, interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from jax_ipu.command_line import cache, doctor, estimate, info, monitor, popc, poplar, report, run
from jax_ipu.command_line.output import INTERRUPTED, INVALID, UsageError, failed

_COMMANDS = (info, run, estimate, report, monitor, doctor, cache, poplar, popc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; `arguments` without the program's name, by default those of Python."""
    parser = argparse.ArgumentParser(
        prog="jax-ipu",
        description="JAX on Graphcore IPUs.",
        epilog="Exit codes: 0 done, or yes; 1 no: does not fit, or an error of the installation; 2 invalid command"
        " line; 3 the program cannot be read, traced or compiled; 130 interrupted.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_commands(commands)
    options = parser.parse_args(arguments)
    # Without the notices of XLA's libraries, unless the user asks for them.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # As with `python -m`: modules of the user are found from where the command is run.
    path = list(sys.path)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        code: int = options.run(options)
    except UsageError as error:
        return failed(options, INVALID, str(error))
    except KeyboardInterrupt:
        return failed(options, INTERRUPTED, "interrupted")
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        sys.path[:] = path
    return code
