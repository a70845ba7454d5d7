"""Lists, builds and runs the tests that PopLibs' CMake files declare."""

from __future__ import annotations

import pathlib
import re
import time
from dataclasses import dataclass, field

from .workspace import LIBRARIES, ROOT, STAND_INS, SYSTEM_LIBRARIES, Workspace, compile_object, compiler, reason, run

LIST = ROOT / "tools" / "poplibs" / "list_tests.cmake"
# Sources that programs of tools/ have beside their own.
EXTRA_SOURCES = {"single_conv_layer": (STAND_INS / "tools" / "conv_analysis.cpp",)}
# The devices of a test's list that the model is, the first that a test has is taken.
DEVICES = ("IpuModel2", "IpuModel21", "NoTarget")

# Exit codes of a program that used up its time.
LATE = (124, -9, -24, 137, 152)


@dataclass(frozen=True)
class Test:
    """A test of CMake's list, with the sources of its program."""

    name: str
    program: str
    sources: tuple[pathlib.Path, ...]
    device: str  # "" if the test is not for a model
    arguments: tuple[str, ...]
    boost: bool
    suites: str = ""

    def command(self, binary: pathlib.Path) -> list[str]:
        """What is run."""
        if not self.boost:
            device = [] if self.device == "NoTarget" else [f"--device-type={self.device}"]
            return [str(binary), *self.arguments, *device]
        suites = [f"--run_test={suite}" for suite in self.suites.split(",") if suite]
        device = [] if self.device == "NoTarget" or not needs_device(self) else ["--", "--device-type", self.device]
        return [str(binary), "--report_level=detailed", "--color_output=no", *suites, *device]


def needs_device(test: Test) -> bool:
    """Whether the build of PopLibs has the program take its device from the command line."""
    return test.device != "NoTarget" and any("TestDevice.hpp" in source.read_text() for source in test.sources)


def listed(space: Workspace, library: str) -> list[Test]:
    """The tests in tests/<library>, in the order of its CMake files."""
    lines: list[list[str]] = []
    for folder in ("tools", f"tests/{library}"):
        output = space.work / f"list_{folder.replace('/', '_')}.txt"
        output.unlink(missing_ok=True)
        command = ["cmake", f"-DPOPLIBS={space.poplibs}", f"-DFOLDER={folder}", f"-DOUTPUT={output}", "-Wno-dev"]
        done = run([*command, "-P", str(LIST)])
        if done.returncode != 0:
            raise SystemExit(f"the tests of {folder} cannot be listed:\n{done.stderr}")
        lines += [line.split("\t") for line in output.read_text().splitlines()]
    programs = {line[1]: tuple(pathlib.Path(p) for p in line[2:]) for line in lines if line[0] == "executable"}
    tests = []
    for kind, name, *rest in lines:
        if kind == "executable":
            continue
        variants, suites, program, *arguments = rest
        program = re.sub(r"^\$<TARGET_FILE:(.*)>$", r"\1", program)
        device = next((d for d in DEVICES if d in variants.split(",")), "")
        sources = programs.get(program, ())
        tests.append(Test(name, program, sources, device, tuple(arguments), kind == "unit_test", suites.strip("-")))
    return tests


def program_of(space: Workspace, test: Test) -> pathlib.Path:
    """Where the program of a test is: one for all tests with its source."""
    return (space.work / "programs" / test.sources[0].relative_to(space.poplibs)).with_suffix("")


def build(space: Workspace, test: Test) -> str:
    """Builds the program of a test. Returns why it cannot be built, or "" when it can."""
    binary = program_of(space, test)
    made = []
    for source in (*test.sources, *EXTRA_SOURCES.get(test.program, ())):
        define = []
        if test.boost:
            define = ["-DTEST_WITH_TARGET" if needs_device(test) else "-DTEST_WITHOUT_TARGET"]
        # Graphcore's headers of Poplar include some of this library, which tests use.
        define += ["-include", "gccs/Algorithm.hpp"]
        to = binary.parent / f"{binary.name}.{source.stem}.o"
        done = compile_object([*compiler(), "-O0", *space.flags(source), *define, str(source)], to)
        if done.returncode != 0:
            return reason(done.stderr)
        made.append(to)
    newest = max(file.stat().st_mtime for file in made)
    if binary.exists() and binary.stat().st_mtime > newest:
        return ""
    names = [n for n in reversed(LIBRARIES) if (space.work / f"lib{n}.so").exists()]
    command = [
        "g++",
        *map(str, made),
        f"-L{space.work}",
        "-Wl,--as-needed",
        # A library that is not whole fails the tests that need what it lacks, not all.
        "-Wl,--allow-shlib-undefined",
        *(f"-l{n}" for n in names),
        "-lpoplar",
    ]
    command += ["-lboost_unit_test_framework", *(f"-l{n}" for n in (*SYSTEM_LIBRARIES, "boost_timer"))]
    done = run([*command, "-lpthread", "-o", str(binary)])
    return "" if done.returncode == 0 else reason(done.stderr)


def failure(done_output: str, code: int, seconds: float) -> str:
    """Why a test failed, from what it printed."""
    if code in LATE:
        return f"did not end in {seconds:g} s of processor time"
    lines = [line.strip() for line in done_output.splitlines() if line.strip()]
    for pattern in (r"what\(\):", r"\berror\b", r"(?i)mismatch|failed|exception", r"signal"):
        for line in lines:
            if re.search(pattern, line):
                return re.sub(r"^\S*/", "", line)[:200]
    return (lines or [f"exit code {code}"])[-1][:200]


def run_test(space: Workspace, test: Test, seconds: float) -> dict[str, object]:
    """Runs a test, with a limit of processor time."""
    begin = time.monotonic()
    limit = ["prlimit", f"--cpu={int(seconds)}"]
    done = run([*limit, *test.command(program_of(space, test))], 20 * seconds, env=space.environment(), cwd=space.work)
    output = done.stdout + done.stderr
    passed = len(re.findall(r'Test case "[^"]*" has passed', output))
    failed = len(re.findall(r'Test case "[^"]*" (?:has failed|was aborted)', output))
    ok = done.returncode == 0
    if not test.boost:
        passed, failed = int(ok), int(not ok)
    if not ok:
        log = space.work / "logs" / f"{test.name}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(" ".join(done.args) + "\n" + output)
    return {
        "ok": ok,
        "late": done.returncode in LATE,
        "limit": seconds,
        "passed": passed,
        "failed": failed,
        "reason": "" if ok else failure(output, done.returncode, seconds),
        "seconds": round(time.monotonic() - begin, 1),
    }


@dataclass
class Choice:
    """Which tests are run, and how long."""

    only: list[str]
    every: int
    seconds: float  # processor time of one test
    total_seconds: float
    begin: float = field(default_factory=time.monotonic)

    def has(self, test: Test) -> bool:
        """Whether --only names the test."""
        return not self.only or any(o in test.name or o == test.program for o in self.only)

    def is_over(self) -> bool:
        """Whether no other test may begin."""
        return time.monotonic() - self.begin > self.total_seconds


def tests(space: Workspace, library: str, choice: Choice | None) -> None:
    """Lists the tests of a library; builds and runs those chosen that have no result of the present libraries."""
    found = listed(space, library)
    results = space.results.setdefault(f"tests {library}", {})
    for name in set(results) - {test.name for test in found}:
        del results[name]
    version = space.version()
    by_program: dict[str, list[Test]] = {}
    for test in found:
        old = results.get(test.name, {})
        if old.get("version") != version:
            old = {"run": False, "version": version}
        results[test.name] = old | {"program": test.program, "model": bool(test.device)}
        if choice is not None and test.device and choice.has(test):
            by_program.setdefault(test.program, []).append(test)
    space.save()
    if choice is None:
        return
    every, seconds = choice.every, choice.seconds

    def is_missing(test: Test) -> bool:
        row = results[test.name]
        return not row["run"] or (bool(row.get("late")) and float(str(row["limit"])) < seconds)

    # One program after another, those with most tests first, so that little is missing after an early end.
    for group in sorted(by_program.values(), key=len, reverse=True):
        missing = [test for test in group[::every] if is_missing(test)]
        if not missing or choice.is_over():
            continue
        why = build(space, group[0]) if group[0].sources else "its program is not one of PopLibs' C++ programs"
        if why:
            print(group[0].program, why, flush=True)
            for test in missing:
                values = {"run": True, "ok": False, "passed": 0, "failed": 0, "reason": f"not built: {why}"}
                space.record(results, test.name, values)
            continue

        def check(test: Test) -> None:
            if choice.is_over():
                return
            space.record(results, test.name, {"run": True} | run_test(space, test, seconds))
            print(test.name, "passed" if results[test.name]["ok"] else results[test.name]["reason"], flush=True)

        space.each(missing, check)
