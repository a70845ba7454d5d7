"""``jax-ipu poplar``: what a C++ compiler needs for a program against Poplar's headers and the IPU model."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from jax_ipu.command_line.arguments import add_command, add_json
from jax_ipu.command_line.output import NO, OK, failed, print_json

_HEADER = Path("poplar/Engine.hpp")
_LIBRARY = "libpjrt_ipu.so"
_AGAIN = "install the package again: pip install --force-reinstall jax_ipu-*.whl, or build it from a whole checkout"


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "print what g++ needs to compile a C++ program against Poplar and the IPU model"
    examples = [
        "g++ main.cc $(jax-ipu poplar --cflags --libs)",
        "cmake -DCMAKE_PREFIX_PATH=$(jax-ipu poplar --cmake-dir) .",
        'eval "$(jax-ipu poplar --env)" && make',
    ]
    poplar = add_command(commands, "poplar", text, examples)
    poplar.add_argument("--cflags", action="store_true", help="print the options of the compiler")
    poplar.add_argument("--libs", action="store_true", help="print the options of the linker")
    poplar.add_argument("--cmake-dir", action="store_true", help="print the folder of the CMake packages")
    poplar.add_argument("--env", action="store_true", help="print commands that set CPATH and so on in a shell")
    add_json(poplar)
    poplar.set_defaults(run=_poplar)


def include_folders(package: Path) -> list[Path]:
    """Where the headers may be: in an installed package, or in the checkout that the package is in."""
    return [package / "include", package.parent / "ipu_model" / "include"]


def _poplar(options: argparse.Namespace) -> int:
    package = Path(__file__).resolve().parents[1]
    include = next((folder for folder in include_folders(package) if (folder / _HEADER).is_file()), None)
    if include is None:
        places = " and not in ".join(map(str, include_folders(package)))
        return failed(options, NO, f"the C++ headers are not installed: {_HEADER} is not in {places}; {_AGAIN}")
    if not (package / _LIBRARY).is_file():
        return failed(options, NO, f"{package / _LIBRARY} is missing; {_AGAIN}")
    config = package / "cmake" / "ipu_model-config.cmake"
    if not config.is_file():
        return failed(options, NO, f"{config} is missing; {_AGAIN}")
    cflags = ["-std=c++17", f"-I{include}"]
    # Both ways to link: by the file, and by -lpoplar and so on, which the folder of link names makes the same.
    libs = [f"-L{package / 'lib'}", f"-L{package}", f"-l:{_LIBRARY}", f"-Wl,-rpath,{package}"]
    environment = {
        "CPATH": str(include),
        "LIBRARY_PATH": f"{package / 'lib'}:{package}",
        "LD_LIBRARY_PATH": str(package),
    }
    if options.json:
        print_json({"cflags": cflags, "libs": libs, "cmake_dir": str(config.parent), "environment": environment})
        return OK
    everything = not (options.cflags or options.libs or options.cmake_dir or options.env)
    if options.env:
        for name, value in environment.items():
            print(f"export {name}={shlex.quote(value)}${{{name}:+:${name}}}")
    if options.cmake_dir:
        print(config.parent)
    if shown := [
        *(cflags if options.cflags or everything else []),
        *(libs if options.libs or everything else []),
    ]:
        print(shlex.join(shown))
    return OK
