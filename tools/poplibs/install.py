"""Builds Graphcore's PopLibs, from its public source, on the model.

    tools/build_poplibs SOURCE FOLDER [--jobs N] [--build BUILD]

SOURCE is a checkout of github.com/graphcore/poplibs. FOLDER gets include/, lib/ (libpoplar.so of this project, and
PopLibs' libraries), the codelets of each library as a .gp file, and enable.sh, which sets what compilers and programs
need to find them. With an interpreter that has jax_ipu and nanobind it also gets the module that JAX_IPU_POPLIBS loads.
A run that was interrupted goes on where it was, and a second one does only what has changed. Where ccache is installed,
it keeps what was compiled. BUILD is a CMake build of this project; without it one is made in
FOLDER.

PopLibs is unchanged. Graphcore's helpers that it needs and that are not public have stand-ins in
tools/poplibs/stand_ins; of PopLibs' codelets those in C++ are compiled, not those in assembly.
tools/poplibs_conformance.py runs PopLibs' own tests on the result.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
import time

from . import build, extension
from .workspace import CODELET_LIBRARIES, PACKAGES, ROOT, Workspace, missing_packages, run

ENABLE = """# . enable.sh: PopLibs on the model, for compilers and programs.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CPATH="$here/include${CPATH:+:$CPATH}"
export LIBRARY_PATH="$here/lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export IPU_MODEL_CODELET_CACHE="$here/codelet_cache"
"""


def check(source: pathlib.Path) -> None:
    """Ends with what is missing to build from the source."""
    if not (source / "include" / "poputil" / "TileMapping.hpp").exists():
        sys.exit(
            f"{source}: no PopLibs ({source / 'include' / 'poputil' / 'TileMapping.hpp'} is missing).\n"
            "Give a checkout: git clone https://github.com/graphcore/poplibs"
        )
    wrong = build.wrong_version(source)
    if wrong:
        sys.exit(f"{source}: {wrong}.\nThe version that is public builds: git -C {source} checkout sdk-release-3.4")
    if missing := missing_packages(PACKAGES):
        sys.exit(f"packages are missing:\n    apt-get install {' '.join(missing)}")


def build_model(folder: pathlib.Path, jobs: int) -> pathlib.Path:
    """Builds the model in the folder."""
    made = folder / "model"
    command = ["cmake", "-S", str(ROOT), "-B", str(made), "-DCMAKE_BUILD_TYPE=Release", "-DJAX_IPU_BUILD_PYTHON=OFF"]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    for step in (command, ["cmake", "--build", str(made), "-j", str(jobs), "--target", "ipu_model"]):
        done = run(step)
        if done.returncode != 0:
            sys.exit(f"{' '.join(step)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return made


def lay_out(space: Workspace) -> None:
    """The folder's lib/, the rest of include/, and enable.sh."""
    (space.work / "lib").mkdir(exist_ok=True)
    links = {space.work / "lib" / path.name: path for path in space.work.glob("lib*.so")}
    for folder in (space.poplibs / "include").iterdir():
        links[space.include / folder.name] = folder
    for link, target in links.items():
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target)
    packages = "".join(f'export IPU_{n.upper()}_GP="$here/{n}.gp"\n' for n in CODELET_LIBRARIES)
    (space.work / "enable.sh").write_text(ENABLE + packages)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE", type=pathlib.Path)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2, help="how many compilers run at a time")
    parser.add_argument("--build", type=pathlib.Path, help="a CMake build of this project with the target ipu_model")
    arguments = parser.parse_args()
    source, folder = arguments.source.resolve(), arguments.folder.resolve()
    check(source)
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", flush=True)

    say("the model")
    model = (arguments.build or build_model(folder, arguments.jobs)).resolve()
    if not (model / "ipu_model" / "libipu_model.a").exists():
        sys.exit(f"{model} has no ipu_model/libipu_model.a: build the target ipu_model there")
    space = Workspace(source, model, folder, arguments.jobs)
    say("PopLibs' sources")
    build.objects(space)
    say("libraries")
    build.libraries(space)
    for library in CODELET_LIBRARIES:
        say(f"codelets of {library}")
        build.codelets(space, library)
    lay_out(space)
    built = ["objects", "libraries", "codelets"]
    if without := extension.missing():
        say(f"no module for JAX: {without}")
    else:
        say("the module for JAX")
        extension.extension(space)
        built.append("extension")
    parts = [each for part in built for each in space.results[part].items()]
    wrong = [f"{name}: {row['reason']}" for name, row in parts if not row["ok"]]
    say(f"{len(parts) - len(wrong)} of {len(parts)} files; . {folder / 'enable.sh'} to use them")
    if not without:
        say(f"JAX_IPU_POPLIBS={folder} to use them from JAX")
    if wrong:
        sys.exit("not built:\n    " + "\n    ".join(wrong))
