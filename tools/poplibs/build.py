"""Compiles PopLibs' headers, codelets and libraries."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable

from .workspace import (
    CODELET_LIBRARIES,
    LIBRARIES,
    STAND_INS,
    SYSTEM_LIBRARIES,
    TOOLS,
    Workspace,
    compile_object,
    compiler,
    row,
    run,
)

PUBLIC_LIBRARIES = ("poputil", "popops", "poplin", "popnn", "poprand", "popsparse", "popfloat")
# Clang accepts a member type with the name of a template that it comes from; g++ needs to be told.
# PopLibs' own build has no assertions in codelets.
CODELET_FLAGS = ("-DNDEBUG", "-fpermissive", "-w")
# Files of codelets that call functions of another file. On the device all are linked together; the model compiles each
# file by itself, so these are compiled with what they call.
LINKED = {
    "MultiSlice": "MultiSliceUpdateCommon",
    "MultiUpdate": "MultiSliceUpdateCommon",
    "MultiUpdateOp": "MultiSliceUpdateCommon",
    "elemwiseScaledAddCodelets": "CheckAccuracyWhenCast",
    "ConvPartial1x1Out": "../ConvPartialsStridesPacking",
    "ConvPartialnx1": "../ConvPartialsStridesPacking",
}
# libpoplar.so exports Poplar's names only, so that none of our own popops or poputil takes the place of PopLibs'.
EXPORTS = """{
  global: extern "C++" {
    poplar::*; pva::*; ipu_model::*; typeinfo?for?poplar::*; typeinfo?name?for?poplar::*; vtable?for?poplar::*;
  };
  local: *;
};
"""


# Files and names that only the public version of PopLibs has together.
SIGNS = (
    ("include/poputil/DebugInfo.hpp", "PoplibsOpDebugInfo"),
    ("lib/popops/Rearrange.cpp", "poplar_rt::SplitTranspose1D"),
    ("lib/poplin/ConvPlan.cpp", "gccs/popsolver"),
    ("lib/popsparse/StaticMatMul.cpp", "namespace popsparse"),
)


def wrong_version(poplibs: pathlib.Path) -> str:
    """Which file shows that the source is of another version of PopLibs; "" if none does."""
    for file, name in SIGNS:
        path = poplibs / file
        if not path.exists():
            return f"{file} is missing: another version of PopLibs"
        if name not in path.read_text(errors="replace"):
            return f"{file} does not have {name}: another version of PopLibs"
    return ""


def public_headers(space: Workspace) -> list[pathlib.Path]:
    """The public headers of all libraries."""
    return [p for name in PUBLIC_LIBRARIES for p in sorted((space.poplibs / "include" / name).rglob("*.hpp"))]


def headers(space: Workspace) -> None:
    """Every public header alone."""
    results = space.results["headers"] = {}

    def check(path: pathlib.Path) -> None:
        name = str(path.relative_to(space.poplibs / "include"))
        source = space.work / "headers" / (name.replace("/", "_") + ".cc")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"#include <{name}>\n")
        results[name] = row(run(["g++", "-fsyntax-only", *space.flags(source), str(source)]))

    space.each(public_headers(space), check)


def make_popc(space: Workspace) -> None:
    """The program that compiles codelets, over the libpoplar.so of the workspace."""
    source, made = TOOLS / "popc.cc", space.work / "popc.o"
    command = [*compiler(), "-std=c++17", "-O1", "-isystem", str(space.include), str(source)]
    done = compile_object(command, made)
    if done.returncode == 0 and not is_newer(space.work / "popc", [made]):
        done = run(["g++", str(made), f"-L{space.work}", "-lpoplar", "-o", str(space.work / "popc")])
    if done.returncode != 0:
        sys.exit(f"{source}: {done.stderr}")


def is_newer(made: pathlib.Path, than: Iterable[pathlib.Path]) -> bool:
    """Whether a file is there, and newer than others."""
    return made.exists() and all(path.stat().st_mtime < made.stat().st_mtime for path in than)


def popc(space: Workspace, library: str, files: list[pathlib.Path], output: pathlib.Path) -> dict[str, object]:
    """Compiles codelets of a library to a .gp file."""
    folder = space.poplibs / "lib" / library / "codelets"
    folders = (space.poplibs / "include", space.poplibs / "lib", folder, folder.parent)
    flags = [*(f"-I{f}" for f in folders), *CODELET_FLAGS]
    return row(run([str(space.work / "popc"), *map(str, files), "-o", str(output), *flags], env=space.environment()))


def codelet_files(space: Workspace, library: str) -> list[pathlib.Path]:
    """The C++ codelets of a library, without those that are compiled as a part of others."""
    folder = space.poplibs / "lib" / library / "codelets"
    return [path for path in sorted(folder.glob("*.cpp")) if path.stem not in LINKED.values()]


def codelets(space: Workspace, library: str) -> None:
    """Every C++ codelet of a library, and a .gp file with all that compile."""
    make_popc(space)
    results = space.results.setdefault("codelets", {})
    folder = space.poplibs / "lib" / library / "codelets"
    made = space.work / "codelets" / library
    made.mkdir(parents=True, exist_ok=True)
    compiled = []

    def check(path: pathlib.Path) -> None:
        source = path
        if path.stem in LINKED:
            source = made / path.name
            source.write_text(f'#include "{folder / LINKED[path.stem]}.cpp"\n#include "{path}"\n')
        result = popc(space, library, [source], made / f"{path.stem}.gp")
        results[str(path.relative_to(space.poplibs))] = result
        if result["ok"]:
            compiled.append(source)

    space.each(codelet_files(space, library), check)
    results[f"{library}.gp"] = popc(space, library, sorted(compiled), space.work / f"{library}.gp")
    space.save()


def sources_of(space: Workspace, library: str) -> list[pathlib.Path]:
    """The host sources of a library."""
    folder = space.poplibs / "lib" / library
    return sorted([*folder.glob("*.cpp"), *folder.glob("reduction/*.cpp")])


def object_of(space: Workspace, source: pathlib.Path) -> pathlib.Path:
    """Where the object of a source is."""
    base = space.poplibs if source.is_relative_to(space.poplibs) else STAND_INS
    return (space.work / "objects" / source.relative_to(base)).with_suffix(".o")


def objects(space: Workspace) -> None:
    """The host sources of the libraries."""
    results = space.results["objects"] = {}  # what has been compiled is not compiled again
    found = [source for library in LIBRARIES for source in sources_of(space, library)]
    found = sorted((STAND_INS / "gccs").rglob("*.cpp")) + found

    def build(source: pathlib.Path) -> None:
        level = "-O1" if source.is_relative_to(space.poplibs) else "-O2"  # planners wait for the solver
        command = [*compiler(), level, "-fPIC", *space.flags(source), str(source)]
        done = compile_object(command, object_of(space, source))
        if source.is_relative_to(space.poplibs):
            results[str(source.relative_to(space.poplibs))] = row(done)
        elif done.returncode != 0:
            sys.exit(done.stderr)

    space.each(found, build)


def libraries(space: Workspace) -> None:
    """libpoplar.so of this project, and PopLibs' libraries."""
    script = space.work / "libpoplar.map"
    script.write_text(EXPORTS)
    archives = [str(space.build / "ipu_model" / f"lib{name}.a") for name in ("ipu_model", "ipu_kernels", "ipu_host")]
    whole = ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", f"-Wl,--version-script={script}"]
    done = run(["g++", "-shared", *whole, "-lpthread", "-ldl", "-lrt", "-o", str(space.work / "libpoplar.so")])
    if done.returncode != 0:
        sys.exit(done.stderr)
    results = space.results["libraries"] = {}
    for library, needs in LIBRARIES.items():
        made = [object_of(space, s) for s in sources_of(space, library)]
        if library == "poplibs_support":
            made += [object_of(space, s) for s in sorted((STAND_INS / "gccs").rglob("*.cpp"))]
        command = ["g++", "-shared", "-Wl,-rpath,$ORIGIN", *(str(o) for o in made if o.exists()), f"-L{space.work}"]
        command += [*(f"-l{n}" for n in needs), "-lpoplar", *(f"-l{n}" for n in SYSTEM_LIBRARIES)]
        results[library] = row(run([*command, "-o", str(space.work / f"lib{library}.so")]))
    space.save()


STEPS = {"headers": headers, "objects": objects, "libraries": libraries}
__all__ = ["CODELET_LIBRARIES", "STEPS", "codelets"]
