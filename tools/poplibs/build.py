"""Compiles PopLibs' headers, codelets and libraries."""

from __future__ import annotations

import pathlib
import sys

from .workspace import (
    CODELET_LIBRARIES,
    LIBRARIES,
    STAND_INS,
    SYSTEM_LIBRARIES,
    Workspace,
    compile_object,
    row,
    run,
)

PUBLIC_LIBRARIES = ("poputil", "popops", "poplin", "popnn", "poprand", "popsparse", "popfloat")
# Clang accepts a member type with the name of a template that it comes from; g++ needs to be told.
CODELET_FLAGS = ("-fpermissive", "-w")
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


def popc(space: Workspace, library: str, files: list[pathlib.Path], output: pathlib.Path) -> dict[str, object]:
    """Compiles codelets of a library to a .gp file."""
    folder = space.poplibs / "lib" / library / "codelets"
    folders = (space.poplibs / "include", space.poplibs / "lib", folder, folder.parent)
    command = [sys.executable, "-m", "jax_ipu", "popc", *map(str, files), "-o", str(output)]
    command += [f"-I{f}" for f in folders] + [f"--flag={flag}" for flag in CODELET_FLAGS]
    return row(run(command, env=space.environment(), cwd=space.work))


def codelet_files(space: Workspace, library: str) -> list[pathlib.Path]:
    """The C++ codelets of a library, without those that are compiled as a part of others."""
    folder = space.poplibs / "lib" / library / "codelets"
    return [path for path in sorted(folder.glob("*.cpp")) if path.stem not in LINKED.values()]


def codelets(space: Workspace, library: str) -> None:
    """Every C++ codelet of a library with `jax-ipu popc`, and a .gp file with all that compile."""
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
    # What Poplar has in every graph; PopLibs' own first library brings it.
    if library == "popops":
        compiled += sorted((STAND_INS / "poplar_rt").glob("*.cpp"))
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
        done = compile_object(["g++", "-O1", "-fPIC", *space.flags(source), str(source)], object_of(space, source))
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
