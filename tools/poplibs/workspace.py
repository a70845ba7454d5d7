"""The paths and results of a build of PopLibs, and how compilers and tests are run."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "poplibs"
STAND_INS = TOOLS / "stand_ins"
CODELET_LIBRARIES = ("popops", "poplin", "popnn", "poprand", "popsparse")
# In the order in which they are linked: each needs those before it.
LIBRARIES = {
    "poplibs_support": (),
    "poputil": ("poplibs_support",),
    "popops": ("poputil", "poplibs_support"),
    "poprand": ("popops", "poputil", "poplibs_support"),
    "poplin": ("popops", "poprand", "poputil", "poplibs_support"),
    "popnn": ("poplin", "popops", "poprand", "poputil", "poplibs_support"),
    "popsparse": ("poplin", "popops", "poputil", "poplibs_support", "trilinos_zoltan", "mpi"),
    "poplibs_test": ("popnn", "poplin", "popops", "poputil", "poplibs_support"),
}
# What Debian has, by a header of it.
PACKAGES = {
    "boost/version.hpp": "libboost-dev",
    "boost/filesystem.hpp": "libboost-filesystem-dev",
    "boost/program_options.hpp": "libboost-program-options-dev",
    "tbb/parallel_for.h": "libtbb-dev",
    "spdlog/spdlog.h": "libspdlog-dev",
    "fmt/format.h": "libfmt-dev",
    "mpi.h": "libopenmpi-dev",
    "zoltan_cpp.h": "libtrilinos-zoltan-dev",
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
# Zoltan's headers, and those of its MPI.
ZOLTAN_FLAGS = (
    "-isystem/usr/include/trilinos",
    f"-isystem/usr/lib/{platform.machine()}-linux-gnu/openmpi/include",
    "-DOMPI_SKIP_MPICXX",
)
# A library that includes the private headers of another.
PRIVATE_HEADERS = {"popnn": ("poplin",), "popsparse": ("poplin", "poputil")}

Item = TypeVar("Item")
Rows = dict[str, dict[str, object]]


def largest(values: Any) -> int:
    """Of a list as a report holds it: runs are pairs of a value and a count."""
    return int(max(values["rle"][::2] if isinstance(values, dict) else values, default=0))


class Workspace:
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
        self.results: dict[str, Rows] = {}
        self.lock = threading.Lock()
        if self.results_path.exists():
            self.results = json.loads(self.results_path.read_text())

    def environment(self) -> dict[str, str]:
        """Of what is run: our libraries, a cache of compiled codelets, and the codelets of each library."""
        cache = self.work / "codelet_cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        packages = {f"IPU_{name.upper()}_GP": str(self.work / f"{name}.gp") for name in CODELET_LIBRARIES}
        return {**os.environ, "LD_LIBRARY_PATH": str(self.work), "IPU_MODEL_CODELET_CACHE": str(cache), **packages}

    def version(self) -> str:
        """Of all that a test's result depends on: libraries and codelets."""
        digest = hashlib.sha256()
        for path in sorted([*self.work.glob("lib*.so"), *self.work.glob("*.gp")]):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()[:16]

    def revision(self) -> str:
        """Of PopLibs: its commit with its date, and whether files differ from it."""
        git = ["git", "-C", str(self.poplibs)]
        log = run([*git, "log", "-1", "--format=%h of %cs"])
        changed = run([*git, "status", "--porcelain", "--untracked-files=no"])
        if log.returncode != 0 or changed.returncode != 0:
            sys.exit(f"{self.poplibs} is not a Git checkout of PopLibs, so its revision is not known: {log.stderr}")
        return log.stdout.strip() + (", changed" if changed.stdout.strip() else "")

    def save(self) -> None:
        """Writes the results; an interruption leaves the old file or the new one."""
        with self.lock:
            new = self.results_path.with_suffix(".new")
            new.write_text(json.dumps(self.results, indent=1, sort_keys=True))
            new.replace(self.results_path)

    def record(self, rows: Rows, name: str, values: dict[str, object]) -> None:
        """Adds to a row, and writes the results."""
        with self.lock:
            rows[name] = {**rows.get(name, {}), **values}
        self.save()

    def flags(self, source: pathlib.Path) -> list[str]:
        """Of the compilation of a host source."""
        library = source.relative_to(self.poplibs).parts[1] if source.is_relative_to(self.poplibs) else ""
        folders = [
            self.poplibs / "include",
            self.poplibs / "lib",
            self.poplibs / "lib" / library,
            *(self.poplibs / "lib" / name for name in PRIVATE_HEADERS.get(library, ())),
            self.poplibs / "tests",
            self.poplibs / "tools" / "src",
            source.parent,
        ]
        own = (f"-I{STAND_INS}", *(f"-I{folder}" for folder in folders))
        zoltan = ZOLTAN_FLAGS if library == "popsparse" else ()
        return [*HOST_FLAGS, *own, "-isystem", str(self.include), *zoltan]

    def each(self, items: Iterable[Item], function: Callable[[Item], None]) -> None:
        """Calls a function for each item, several at a time, and saves the results."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                list(pool.map(function, items))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self.save()


def run(
    command: list[str], seconds: float = 3600, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command; its code is 124 if it does not end in time."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"did not end in {seconds:g} s")


def compiler() -> list[str]:
    """The compiler, behind ccache where that is installed."""
    return ["ccache", "g++"] if shutil.which("ccache") else ["g++"]


def compile_object(command: list[str], to: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Compiles to an object, unless one is there that is newer than all files that it was compiled from.

    The source is the last part of the command; the object of a source elsewhere, as of another checkout, is not it.
    """
    rule = to.with_suffix(".d")
    if to.exists() and rule.exists():
        files = rule.read_text().replace("\\\n", " ").split()[1:]
        time = to.stat().st_mtime
        if command[-1] in files and all(os.path.exists(file) and os.stat(file).st_mtime < time for file in files):
            return subprocess.CompletedProcess([], 0, "", "")
    to.parent.mkdir(parents=True, exist_ok=True)
    done = run([*command, "-MD", "-MF", str(rule), "-c", "-o", str(to)])
    if done.returncode != 0:
        to.unlink(missing_ok=True)
    return done


def missing_packages(packages: dict[str, str]) -> list[str]:
    """Of these, by header, the packages whose header no compiler finds."""
    lines = [f"#if !__has_include(<{header}>)\nMISSING {package}\n#endif" for header, package in packages.items()]
    command = ["g++", "-E", "-P", *ZOLTAN_FLAGS, "-x", "c++", "-"]
    if not shutil.which("g++"):
        return ["g++", *packages.values()]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("MISSING")]


def reason(text: str) -> str:
    """The first error in what a compiler or a test says."""
    for line in text.splitlines():
        if re.search(r"\berror\b|did not end|undefined reference|terminate called|signal|what\(\):", line):
            return re.sub(r"^\S*/", "", line).strip()[:200]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "no message"


def row(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The result of a compilation."""
    ok = done.returncode == 0
    return {"ok": ok, "reason": "" if ok else reason(done.stderr)}
