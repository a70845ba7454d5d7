"""Builds the Python extension module by which JAX programs take their operations from PopLibs (JAX_IPU_POPLIBS)."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import sysconfig

from .build import is_newer, object_of, sources_of
from .workspace import ROOT, STAND_INS, SYSTEM_LIBRARIES, Workspace, compile_object, compiler, row, run

SOURCES = ROOT / "pjrt_plugin" / "poplibs"
# What is inside the module: the libraries of the operations that it has.
INSIDE = ("poplibs_support", "poputil", "popops", "poprand", "poplin", "popnn")
# Only the module's entry is seen from outside, and calls inside it are bound when it is linked: the process has
# functions of the same names in libpjrt_ipu.so.
EXPORTS = "{ global: PyInit__poplibs; local: *; };\n"


def missing() -> str:
    """Why the module cannot be built with this interpreter; "" if it can."""
    if importlib.util.find_spec("nanobind") is None:
        return f"{sys.executable} has no nanobind: pip install nanobind, the version that jax_ipu was built with"
    if importlib.util.find_spec("jax_ipu") is None:
        return f"{sys.executable} has no jax_ipu: run this with the Python that runs JAX"
    return ""


def extension(space: Workspace) -> None:
    """The module, and poplibs.json, by which jax_ipu sees whether it fits."""
    import nanobind  # type: ignore[import-untyped]

    from jax_ipu import poplibs
    from jax_ipu.plugin import library_path

    folder = space.work / "extension"
    (folder / "include").mkdir(parents=True, exist_ok=True)
    hlo = folder / "include" / "hlo"
    if not hlo.is_symlink():
        hlo.symlink_to(ROOT / "ipu_model" / "include" / "hlo")
    nanobind_folder = pathlib.Path(nanobind.include_dir()).parent
    flags = [
        *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-w"),
        *(f"-I{path}" for path in (SOURCES.parent, folder / "include", space.poplibs / "include", STAND_INS)),
        *("-isystem", str(space.include), "-isystem", str(nanobind_folder / "include")),
        *("-isystem", str(nanobind_folder / "ext" / "robin_map" / "include")),
        *("-isystem", sysconfig.get_paths()["include"]),
    ]
    results = space.results["extension"] = {}
    sources = [*sorted(SOURCES.glob("*.cc")), nanobind_folder / "src" / "nb_combined.cpp"]
    objects = {source: folder / f"{source.stem}.o" for source in sources}

    def build(source: pathlib.Path) -> None:
        results[source.name] = row(compile_object([*compiler(), *flags, str(source)], objects[source]))

    space.each(sources, build)
    if not all(result["ok"] for result in results.values()):
        return
    inside = [object_of(space, source) for library in INSIDE for source in sources_of(space, library)]
    inside += [object_of(space, source) for source in sorted((STAND_INS / "gccs").rglob("*.cpp"))]
    script = folder / "exports.map"
    script.write_text(EXPORTS)
    library = pathlib.Path(library_path())
    made = space.work / f"_poplibs{sysconfig.get_config_var('EXT_SUFFIX')}"
    everything = [*objects.values(), *inside]
    if not is_newer(made, [*everything, library]):
        command = ["g++", "-shared", *map(str, everything), str(library), *(f"-l{name}" for name in SYSTEM_LIBRARIES)]
        command += ["-Wl,-Bsymbolic", f"-Wl,--version-script={script}", "-o", str(made)]
        results[made.name] = row(run(command))
    stamp = {**poplibs.own_stamp(), "module": made.name, "poplibs": space.revision()}
    (space.work / poplibs.STAMP).write_text(json.dumps(stamp, indent=1))
    space.save()
