"""``jax-ipu popc``, and ``popc``: compiles codelets to a file for ``Graph::addCodelets``, as the SDK's popc does."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_ipu.command_line.arguments import Parser, add_command, add_json, sentence
from jax_ipu.command_line.output import FAILED, INVALID, OK, failed, print_json

_TEXT = "compile codelets in C++ to a file for Graph::addCodelets"
_API = "3.4.0"  # of the SDK whose API the headers have
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
    parser.add_argument("--version", action=_Version, help="print the version of Poplar's API and the compiler's")
    parser.add_argument("--target", "-target", metavar="NAMES", help="accepted, and not used: codelets run on the host")
    # Arguments of their own, because a value may be apart.
    for name, meaning in (("-D", "a macro"), ("-I", "a folder of headers"), ("-O", "how much to optimise")):
        parser.add_argument(name, action="append", default=[], metavar="VALUE", help=f"{meaning}, for the compiler")
    parser.add_argument(
        "--flag", dest="flags", action="append", default=[], metavar="FLAG", help="any option for the compiler"
    )
    add_json(parser)


class _Version(argparse.Action):
    """Prints what scripts read from the SDK's popc: "POPLAR version 3.4.0 (...)", and the compiler's version."""

    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **others)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from jax_ipu.version import __version__

        print(f"POPLAR version {_API} (jax_ipu-{__version__})")
        compiler = next(filter(shutil.which, [os.environ.get("IPU_MODEL_CXX", ""), "c++", "g++", "clang++"]), None)
        if compiler is None:
            print("no C++ compiler")
        else:
            done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
            print(done.stdout.partition("\n")[0])
        parser.exit(OK)


# Options of a compiler that ask for another result than a compiled file.
_OTHER_RESULTS = {"-E": "preprocessed text", "-S": "assembly", "-c": "an object", "-M": "a rule of make"}


# The compiler knows C++ by the end of a file's name; .C is one.
_SOURCES = (".cpp", ".cc", ".cxx", ".cp", ".c++", ".c")


def _unwritable(path: Path) -> str | None:
    """Why a file cannot be made, or None."""
    if path.is_dir():
        return "there is a folder of this name"
    if not path.absolute().parent.is_dir():
        return f"there is no folder {path.parent}"
    return None if os.access(path if path.exists() else path.parent, os.W_OK) else "you have no permission"


def _popc(options: argparse.Namespace) -> int:
    from jax_ipu import _ipu

    for flag in options.flags:
        if flag in _OTHER_RESULTS:
            text = f"{flag} asks for {_OTHER_RESULTS[flag]}: popc of the model writes .gp files, which hold source"
            return failed(options, INVALID, text)
    for source in options.sources:
        if Path(source).suffix.lower() == ".s":
            return failed(options, INVALID, f"{source} is assembly, which the model cannot run: give C++ source")
        if not Path(source).is_file():
            return failed(options, INVALID, f"there is no file {source}")
        if Path(source).suffix.lower() not in _SOURCES and not any(flag.startswith("-x") for flag in options.flags):
            return failed(options, INVALID, f"{source} is no C++ source: its name ends in one of {', '.join(_SOURCES)}")
    if problem := _unwritable(Path(options.output)):
        return failed(options, INVALID, f"--output {options.output}: {problem}")
    flags = [f"-{letter}{value}" for letter in "DIO" for value in getattr(options, letter)]
    flags += options.flags
    try:
        classes = _ipu.compile_codelets(options.sources, " ".join(flags), options.output)
    except RuntimeError as error:
        return failed(options, FAILED, str(error))
    if options.json:
        print_json({"output": options.output, "classes": classes})
    return OK


if __name__ == "__main__":
    sys.exit(main())
