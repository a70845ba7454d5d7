"""Checks the build against a Poplar SDK: configures it with -DJAX_IPU_POPLAR_SDK, and compiles its sources.

    python tools/poplar_sdk_check.py [--poplibs SOURCE] [--objects] --work FOLDER

There is no SDK on the machines that build this project, so FOLDER/sdk is a stand-in: `poplar/` is
ipu_model/include/poplar, which then hides what Poplar lacks (POPLAR_API_ONLY); `popops/`, `poplin/`, `poputil/`,
`popnn/` are those of SOURCE, a checkout of github.com/graphcore/poplibs, or without one the model's own; `gcl/`,
which is not published, is always the model's own. Its libraries are empty: nothing is linked. The sources are checked
for syntax and types; with --objects they are compiled, and every function of ipu_model:: and hlo:: that they call must
be defined in one of them.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN = ("poplar", "ipudef.h", "ipu_builtins.h", "ipu_memory_intrinsics", "ipu_vector_math", "print.h", "pva", "gcl")
POPLIBS = ("popops", "poplin", "poputil", "popnn")
LIBRARIES = ("poplar", "poputil", "popops", "poplin", "gcl")


def make_sdk(folder: pathlib.Path, poplibs: pathlib.Path | None) -> None:
    """Makes the stand-in for an SDK."""
    include, library = folder / "include", folder / "lib"
    include.mkdir(parents=True, exist_ok=True)
    library.mkdir(exist_ok=True)
    model = ROOT / "ipu_model" / "include"
    sources = {name: model / name for name in OWN}
    sources |= {name: (poplibs / "include" if poplibs else model) / name for name in POPLIBS}
    # poplar/ of the model includes ipu_model/Types.hpp and so on, from the project.
    for name, source in sources.items():
        link = include / name
        if link.is_symlink():
            link.unlink()
        link.symlink_to(source)
    for name in LIBRARIES:
        (library / f"lib{name}.so").touch()


def configure(sdk: pathlib.Path, build: pathlib.Path) -> list[tuple[pathlib.Path, list[str]]]:
    """Configures the build. Returns each source with the command that compiles it."""
    command = ["cmake", "-S", str(ROOT), "-B", str(build), f"-DJAX_IPU_POPLAR_SDK={sdk}", "-DCMAKE_BUILD_TYPE=Debug"]
    done = subprocess.run(
        [*command, f"-DPython_EXECUTABLE={sys.executable}"], capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    entries = json.loads((build / "compile_commands.json").read_text())
    return [(pathlib.Path(entry["file"]), shlex.split(entry["command"])) for entry in entries]


def uses_poplar(source: pathlib.Path) -> bool:
    """Whether the build differs from that for the model: all but the part of the plugin that knows no Poplar."""
    name = source.relative_to(ROOT).as_posix() if source.is_relative_to(ROOT) else ""
    return name.startswith(("hlo/", "poplar_sdk/", "ipu_model/", "pjrt_plugin/bindings/")) or name in (
        "pjrt_plugin/runtime/device/poplar_engine.cc",
        "pjrt_plugin/runtime/device/run_once.cc",
    )


def model_only(source: pathlib.Path) -> list[str]:
    """The lines that call poplar::Type::id, which Poplar does not have and POPLAR_API_ONLY does not hide."""
    return [line.strip() for line in source.read_text().splitlines() if ".id()" in line]


def undefined(objects: list[pathlib.Path]) -> list[str]:
    """The functions of this project that the objects call and none defines."""
    listing = subprocess.run(["nm", "-C", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    defined, used = set(), set()
    for line in listing.splitlines():
        kind, _, symbol = line[17:].partition(" ")
        if symbol.startswith(("ipu_model::", "hlo::")) and not symbol.endswith("Codelets"):  # those are generated
            (used if kind == "U" else defined).add(symbol)
    return sorted(used - defined)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--poplibs", type=pathlib.Path, help="a checkout of github.com/graphcore/poplibs")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for the stand-in and the build")
    parser.add_argument("--objects", action="store_true", help="compile, and look for functions without definition")
    parser.add_argument("--all", action="store_true", help="also the sources that know no Poplar")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    sdk, build = arguments.work.resolve() / "sdk", arguments.work.resolve() / "build"
    make_sdk(sdk, arguments.poplibs and arguments.poplibs.resolve())
    commands = [(s, c) for s, c in configure(sdk, build) if arguments.all or uses_poplar(s)]
    objects: list[pathlib.Path] = []
    ccache = shutil.which("ccache")
    environment = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}

    def check(item: tuple[pathlib.Path, list[str]]) -> str:
        source, command = item
        if arguments.objects:
            objects.append(build / command[command.index("-o") + 1])
            objects[-1].parent.mkdir(parents=True, exist_ok=True)
            command = [*([ccache] if ccache else []), *command, "-O0", "-g0"]
        else:
            at = command.index("-o")
            command = [*command[:at], *command[at + 2 :], "-fsyntax-only"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=build, env=environment)
        if done.returncode != 0:
            return f"{source}:\n{done.stderr}"
        lines = [] if source.is_relative_to(ROOT / "ipu_model") else model_only(source)
        return f"{source}: poplar::Type has no id(): {lines}" if lines else ""

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        errors = [error for error in pool.map(check, commands) if error]
    if arguments.objects and not errors:
        errors = [f"not defined: {name}" for name in undefined(objects)]
    print("\n".join(errors))
    print(f"{len(commands)} sources, {len(errors)} errors")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
