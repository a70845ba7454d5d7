"""Builds PopLibs, from its public source, on the model's public headers and library, and runs its tests on the model.

    python tools/poplibs_conformance.py --poplibs SOURCE --build BUILD --work FOLDER [STEP...]

SOURCE is a checkout of github.com/graphcore/poplibs; BUILD a CMake build of this project that has the target
`ipu_model` and has put the extension module into jax_ipu/. In FOLDER are the objects, libraries and results, so that a
second run does only what is missing. The steps are headers, codelets, objects, libraries, tests and report; the last
writes docs/poplibs_conformance.md.

PopLibs takes `poplar/` from ipu_model/include, and everything else (`popops/`, `poplin/`, ...) from itself. Graphcore's
unpublished helpers that it needs have stand-ins in tools/poplibs/stand_ins. From Debian: libboost-test-dev,
libboost-program-options-dev, libboost-filesystem-dev, libtbb-dev, libspdlog-dev, libfmt-dev.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAND_INS = ROOT / "tools" / "poplibs" / "stand_ins"
DOCUMENT = ROOT / "docs" / "poplibs_conformance.md"
PUBLIC_LIBRARIES = ("poputil", "popops", "poplin", "popnn", "poprand", "popsparse", "popfloat")
CODELET_LIBRARIES = ("popops", "poplin", "popnn", "poprand")
# In the order in which they are linked: each needs those before it.
LIBRARIES = {
    "poplibs_support": (),
    "poputil": ("poplibs_support",),
    "popops": ("poputil", "poplibs_support"),
    "poprand": ("popops", "poputil", "poplibs_support"),
    "poplin": ("popops", "poprand", "poputil", "poplibs_support"),
    "popnn": ("poplin", "popops", "poprand", "poputil", "poplibs_support"),
    "poplibs_test": ("popnn", "poplin", "popops", "poputil", "poplibs_support"),
}
SYSTEM_LIBRARIES = ("tbb", "fmt", "boost_filesystem", "boost_system", "boost_program_options")
# Headers of ipu_model/include that the device's Poplar has, too; those of popops and so on are our own and stay hidden.
POPLAR_HEADERS = (
    "poplar",
    "ipu_model",
    "ipudef.h",
    "ipu_builtins.h",
    "ipu_memory_intrinsics",
    "ipu_vector_math",
    "print.h",
    "pva",
)
HOST_FLAGS = (
    "-std=c++17",
    "-w",
    "-DBOOST_ICL_USE_STATIC_BOUNDED_INTERVALS",
    "-DFMT_DEPRECATED_OSTREAM",
    "-DSPDLOG_FMT_EXTERNAL",
    "-DBOOST_TEST_DYN_LINK",
)
# Clang accepts a member type with the name of a template that it comes from; g++ needs to be told.
CODELET_FLAGS = ("-fpermissive", "-w")
# Files of codelets that call functions of another one. On the device all are linked together; the model compiles each
# file by itself, so these are compiled with what they call.
LINKED = {
    "MultiSlice": "MultiSliceUpdateCommon",
    "MultiUpdate": "MultiSliceUpdateCommon",
    "MultiUpdateOp": "MultiSliceUpdateCommon",
    "elemwiseScaledAddCodelets": "CheckAccuracyWhenCast",
}
# libpoplar.so exports Poplar's names only, so that none of our own popops or poputil takes the place of PopLibs'.
EXPORTS = """{
  global: extern "C++" {
    poplar::*; ipu_model::*; typeinfo?for?poplar::*; typeinfo?name?for?poplar::*; vtable?for?poplar::*;
  };
  local: *;
};
"""


class Tool:
    """The paths of one run, and the results of all runs in its folder."""

    def __init__(self, poplibs: pathlib.Path, build: pathlib.Path, work: pathlib.Path, jobs: int) -> None:
        self.poplibs, self.build, self.work, self.jobs = poplibs, build, work, jobs
        self.include = work / "include"
        self.include.mkdir(parents=True, exist_ok=True)
        for name in POPLAR_HEADERS:
            target, link = ROOT / "ipu_model" / "include" / name, self.include / name
            if link.is_symlink() and link.readlink() != target:  # of another checkout
                link.unlink()
            if target.exists() and not link.is_symlink():
                link.symlink_to(target)
        self.results_path = work / "results.json"
        self.results: dict[str, dict[str, dict[str, object]]] = {}
        if self.results_path.exists():
            self.results = json.loads(self.results_path.read_text())

    def environment(self) -> dict[str, str]:
        """Of what is run: our libraries, a cache of compiled codelets, and the codelets of each library."""
        cache = self.work / "codelet_cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        packages = {f"IPU_{name.upper()}_GP": str(self.work / f"{name}.gp") for name in CODELET_LIBRARIES}
        return {**os.environ, "LD_LIBRARY_PATH": str(self.work), "IPU_MODEL_CODELET_CACHE": str(cache), **packages}

    def save(self) -> None:
        self.results_path.write_text(json.dumps(self.results, indent=1, sort_keys=True))

    def flags(self, source: pathlib.Path) -> list[str]:
        library = source.relative_to(self.poplibs).parts[1] if source.is_relative_to(self.poplibs) else ""
        folders = [
            self.poplibs / "include",
            self.poplibs / "lib",
            self.poplibs / "lib" / library,
            self.poplibs / "tests",
            source.parent,
        ]
        return [
            *HOST_FLAGS,
            *(f"-I{folder}" for folder in folders),
            "-isystem",
            str(self.include),
            f"-I{STAND_INS}",
        ]

    def all(self, items: list[pathlib.Path], function: Callable[[pathlib.Path], None]) -> None:
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(function, items))
        self.save()


def run(
    command: list[str], seconds: float = 1800, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command; its code is 124 if it does not end in time."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"did not end in {seconds:g} s")


def reason(text: str) -> str:
    """The first error in what a compiler or a test says."""
    for line in text.splitlines():
        if re.search(r"\berror\b|did not end|undefined reference|terminate called|signal", line):
            return re.sub(r"^\S*/", "", line).strip()[:160]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else "no message"


def headers(tool: Tool) -> None:
    """Every public header alone."""
    found = [p for name in PUBLIC_LIBRARIES for p in sorted((tool.poplibs / "include" / name).rglob("*.hpp"))]
    results = tool.results["headers"] = {}

    def check(path: pathlib.Path) -> None:
        name = str(path.relative_to(tool.poplibs / "include"))
        source = tool.work / "headers" / (name.replace("/", "_") + ".cc")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"#include <{name}>\n")
        done = run(["g++", "-fsyntax-only", *tool.flags(source), str(source)])
        results[name] = {"ok": done.returncode == 0, "reason": "" if done.returncode == 0 else reason(done.stderr)}

    tool.all(found, check)


def popc(tool: Tool, library: str, files: list[pathlib.Path], output: pathlib.Path) -> tuple[bool, str]:
    """Compiles codelets of a library to a .gp file. Returns whether it did, and the reason if not."""
    folder = tool.poplibs / "lib" / library / "codelets"
    folders = (tool.poplibs / "include", tool.poplibs / "lib", folder, folder.parent)
    command = [sys.executable, "-m", "jax_ipu", "popc", *map(str, files), "-o", str(output)]
    command += [f"-I{f}" for f in folders] + [f"--flag={flag}" for flag in CODELET_FLAGS]
    done = run(command, env=tool.environment(), cwd=ROOT)
    return done.returncode == 0, "" if done.returncode == 0 else reason(done.stderr)


def codelets(tool: Tool, library: str) -> None:
    """Every C++ codelet of a library with `jax-ipu popc`, and a .gp file with all that compile."""
    results = tool.results.setdefault("codelets", {})
    folder = tool.poplibs / "lib" / library / "codelets"
    made = tool.work / "codelets" / library
    made.mkdir(parents=True, exist_ok=True)
    compiled = []

    def check(path: pathlib.Path) -> None:
        source = path
        if path.stem in LINKED:
            source = made / path.name
            source.write_text(f'#include "{folder / LINKED[path.stem]}.cpp"\n#include "{path}"\n')
        ok, why = popc(tool, library, [source], made / f"{path.stem}.gp")
        results[str(path.relative_to(tool.poplibs))] = {"ok": ok, "reason": why}
        if ok:
            compiled.append(source)

    tool.all([path for path in sorted(folder.glob("*.cpp")) if path.stem not in LINKED.values()], check)
    ok, why = popc(tool, library, sorted(compiled), tool.work / f"{library}.gp")
    results[f"{library}.gp"] = {"ok": ok, "reason": why}
    tool.save()


def sources_of(tool: Tool, library: str) -> list[pathlib.Path]:
    """The host sources of a library."""
    folder = tool.poplibs / "lib" / library
    return sorted([*folder.glob("*.cpp"), *folder.glob("reduction/*.cpp")])


def object_of(tool: Tool, source: pathlib.Path) -> pathlib.Path:
    """Where the object of a source is."""
    base = tool.poplibs if source.is_relative_to(tool.poplibs) else STAND_INS
    return (tool.work / "objects" / source.relative_to(base)).with_suffix(".o")


def compile_object(tool: Tool, source: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Compiles a file unless its object is newer than it."""
    to = object_of(tool, source)
    if to.exists() and to.stat().st_mtime > source.stat().st_mtime:
        return subprocess.CompletedProcess([], 0, "", "")
    to.parent.mkdir(parents=True, exist_ok=True)
    return run(["g++", "-O1", "-fPIC", *tool.flags(source), "-c", str(source), "-o", str(to)])


def objects(tool: Tool) -> None:
    """The host sources of the libraries."""
    results = tool.results["objects"] = {}
    found = [source for library in LIBRARIES for source in sources_of(tool, library)]
    found += sorted(STAND_INS.rglob("*.cpp"))

    def build(source: pathlib.Path) -> None:
        done = compile_object(tool, source)
        if source.is_relative_to(tool.poplibs):
            results[str(source.relative_to(tool.poplibs))] = {
                "ok": done.returncode == 0,
                "reason": "" if done.returncode == 0 else reason(done.stderr),
            }
        elif done.returncode != 0:
            sys.exit(done.stderr)

    tool.all(found, build)


def libraries(tool: Tool) -> None:
    """libpoplar.so of this project, and PopLibs' libraries."""
    script = tool.work / "libpoplar.map"
    script.write_text(EXPORTS)
    archives = [str(tool.build / "ipu_model" / f"lib{name}.a") for name in ("ipu_model", "ipu_kernels", "ipu_host")]
    link = [
        "g++",
        "-shared",
        "-Wl,--whole-archive",
        *archives,
        "-Wl,--no-whole-archive",
        f"-Wl,--version-script={script}",
    ]
    done = run([*link, "-lpthread", "-ldl", "-lrt", "-o", str(tool.work / "libpoplar.so")])
    if done.returncode != 0:
        sys.exit(done.stderr)
    results = tool.results["libraries"] = {}
    for library, needs in LIBRARIES.items():
        made = [object_of(tool, s) for s in sources_of(tool, library)]
        if library == "poplibs_support":
            made += [object_of(tool, s) for s in sorted(STAND_INS.rglob("*.cpp"))]
        command = ["g++", "-shared", "-Wl,-rpath,$ORIGIN", *(str(o) for o in made if o.exists()), f"-L{tool.work}"]
        command += [*(f"-l{n}" for n in needs), "-lpoplar", *(f"-l{n}" for n in SYSTEM_LIBRARIES)]
        done = run([*command, "-o", str(tool.work / f"lib{library}.so")])
        results[library] = {"ok": done.returncode == 0, "reason": "" if done.returncode == 0 else reason(done.stderr)}
    tool.save()


def tests_of(tool: Tool) -> list[pathlib.Path]:
    """The tests of one file each that Boost's framework runs."""
    found = []
    for library in ("poputil", "popops", "poprand", "poplin", "popnn"):
        found += sorted((tool.poplibs / "tests" / library).glob("*.cpp"))
    return [p for p in found if "BOOST_AUTO_TEST" in p.read_text() or "BOOST_DATA_TEST" in p.read_text()]


def tests(tool: Tool, only: list[str], seconds: float) -> None:
    """Builds and runs PopLibs' tests on a device of the model."""
    results = tool.results.setdefault("tests", {})

    def check(source: pathlib.Path) -> None:
        name = str(source.relative_to(tool.poplibs / "tests"))
        if only and not any(o in name for o in only):
            return
        program = (tool.work / "tests" / name).with_suffix("")
        program.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        # The build of PopLibs defines which device a test takes from its command line.
        define = "-DTEST_WITH_TARGET" if "TestDevice.hpp" in text else "-DTEST_WITHOUT_TARGET"
        command = ["g++", "-O1", *tool.flags(source), define, str(source), f"-L{tool.work}"]
        command += [f"-l{n}" for n in reversed(LIBRARIES) if (tool.work / f"lib{n}.so").exists()]
        command += [
            "-lpoplar",
            "-lboost_unit_test_framework",
            *(f"-l{n}" for n in SYSTEM_LIBRARIES),
            "-o",
            str(program),
        ]
        done = run(command)
        if done.returncode != 0:
            results[name] = {"built": False, "passed": 0, "failed": 0, "reason": reason(done.stderr)}
            tool.save()
            return
        begin = time.monotonic()
        arguments = ["--", "--device-type", "IpuModel2"] if define == "-DTEST_WITH_TARGET" else []
        done = run(
            [str(program), "--report_level=detailed", "--color_output=no", *arguments],
            seconds,
            env=tool.environment(),
            cwd=tool.work,
        )
        output = done.stdout + done.stderr
        passed = len(re.findall(r'Test case "[^"]*" has passed', output))
        failed = len(re.findall(r'Test case "[^"]*" (?:has failed|was aborted)', output))
        ok = done.returncode == 0
        results[name] = {
            "built": True,
            "passed": passed,
            "failed": failed,
            "reason": "" if ok else reason(output),
            "seconds": round(time.monotonic() - begin, 1),
        }
        (program.parent / (program.name + ".log")).write_text(output)
        print(name, results[name], flush=True)
        tool.save()

    tool.all(tests_of(tool), check)


def report(tool: Tool) -> None:
    """Writes the document."""
    results = tool.results
    lines = [
        "# PopLibs on the model",
        "",
        "Made by `tools/poplibs_conformance.py` (do not edit): Graphcore's PopLibs, from its public source, unchanged,",
        "compiled against `ipu_model/include/poplar` and run on the model. What it needs from Graphcore's unpublished",
        "helpers (GCCS with its constraint solver, libpvti, the helpers of Poplar's tests) has stand-ins of our own in",
        "`tools/poplibs/stand_ins`. PopLibs' codelets in C++ are compiled with `jax-ipu popc`, each file by itself",
        "together with the file whose functions it calls.",
        "Two headers compile alone with no Poplar: `popnn/Recurrent.hpp` only declares",
        "what `poplin/MatMul.hpp` defines, and `popfloat/experimental/CastToHalf.hpp` includes nothing.",
        "",
        "| part | compiled | of |",
        "|---|---|---|",
    ]
    for part, what in (
        ("headers", "public headers, each alone"),
        ("codelets", "C++ codelets, and the `.gp` file of each library"),
        ("objects", "host sources"),
    ):
        rows = results.get(part, {})
        lines.append(f"| {what} | {sum(bool(r['ok']) for r in rows.values())} | {len(rows)} |")
    lines += ["", "What does not compile:", ""]
    for part in ("headers", "codelets", "objects", "libraries"):
        for name, row in sorted(results.get(part, {}).items()):
            if not row["ok"]:
                lines.append(f"* `{name}`: {row['reason']}")
    lines += ["", "## Tests", "", "Of the files that are not listed here no result is known.", ""]
    lines += ["| file | built | test cases passed | failed | reason |", "|---|---|---|---|---|"]
    for name, row in sorted(results.get("tests", {}).items()):
        text = str(row["reason"]).replace("|", "\\|").replace(f"{tool.work}/", "")
        lines.append(f"| `{name}` | {'yes' if row['built'] else 'no'} | {row['passed']} | {row['failed']} | {text} |")
    DOCUMENT.write_text("\n".join(lines) + "\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poplibs", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], help="tests whose path has this text")
    parser.add_argument("--library", action="append", default=[], help="whose codelets are compiled (all)")
    parser.add_argument("--seconds", type=float, default=300, help="for one test program")
    parser.add_argument("steps", nargs="*", default=["headers", "codelets", "objects", "libraries", "tests", "report"])
    arguments = parser.parse_args()
    tool = Tool(arguments.poplibs.resolve(), arguments.build.resolve(), arguments.work.resolve(), arguments.jobs)
    functions = {"headers": headers, "objects": objects, "libraries": libraries, "report": report}
    for step in arguments.steps:
        if step == "tests":
            tests(tool, arguments.only, arguments.seconds)
        elif step == "codelets":
            for library in arguments.library or CODELET_LIBRARIES:
                codelets(tool, library)
        else:
            functions[step](tool)


if __name__ == "__main__":
    main()
