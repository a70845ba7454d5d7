"""``jax-ipu popc``, and ``popc``: compiles codelets to a file for ``Graph::addCodelets``, as the SDK's popc does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_ipu.command_line.arguments import Parser, add_command, add_json, sentence
from jax_ipu.command_line.output import FAILED, INVALID, OK, failed, print_json

_TEXT = "compile codelets in C++ to a file for Graph::addCodelets"
_EXAMPLE = "popc scale.cpp -o scale.gp -DFACTOR=2 -Iinclude --flag=-fpermissive"
_DESCRIPTION = (
    f"{sentence(_TEXT)} The file has the source of the codelets, all that it includes and the compiler's"
    " options: any machine with a C++ compiler can use it. Options that are not listed go to the compiler, as do"
    " -D, -I, -O and -std."
)


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = add_command(commands, "popc", _TEXT, [f"jax-ipu {_EXAMPLE}"], description=_DESCRIPTION)
    _add_arguments(parser)
    parser.set_defaults(run=_popc)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program ``popc``. Returns its exit code."""
    parser = Parser(prog="popc", description=_DESCRIPTION, examples=[_EXAMPLE])
    _add_arguments(parser)
    options, unknown = parser.parse_known_args(arguments)
    options.flags = [*options.flags, *unknown]
    return _popc(options)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files of codelets in C++")
    parser.add_argument("-o", "--output", default="a.gp", metavar="FILE", help="the file to be written (a.gp)")
    parser.add_argument("--target", "-target", metavar="NAMES", help="accepted, and not used: codelets run on the host")
    # Arguments of their own, because a value may be apart.
    for name, meaning in (("-D", "a macro"), ("-I", "a folder of headers"), ("-O", "how much to optimise")):
        parser.add_argument(name, action="append", default=[], metavar="VALUE", help=f"{meaning}, for the compiler")
    parser.add_argument(
        "--flag", dest="flags", action="append", default=[], metavar="FLAG", help="any option for the compiler"
    )
    add_json(parser)


def _popc(options: argparse.Namespace) -> int:
    from jax_ipu import _ipu

    for source in options.sources:
        if Path(source).suffix.lower() == ".s":
            return failed(options, INVALID, f"{source} is assembly, which the model cannot run: give C++ source")
        if not Path(source).is_file():
            return failed(options, INVALID, f"there is no file {source}")
    flags = [f"-{letter}{value}" for letter in "DIO" for value in getattr(options, letter)] + options.flags
    try:
        classes = _ipu.compile_codelets(options.sources, " ".join(flags), options.output)
    except RuntimeError as error:
        return failed(options, FAILED, str(error))
    if options.json:
        print_json({"output": options.output, "classes": classes})
    return OK


if __name__ == "__main__":
    sys.exit(main())
