"""Runs JAX's own tests, at the tag of the installed version, on the `ipu` platform and compares with the CPU.

    python tools/jax_suite.py                                 # all files, tests fetched from GitHub
    python tools/jax_suite.py --tests ~/jax api_test array_test -k jit
    python tools/jax_suite.py --report docs/jax_conformance.md --report-only

    python tools/jax_suite.py --column own --resume           # under the platform's own name, what has no result yet

Every file runs in processes of its own. A test that crashes or hangs its process is recorded as such, and a new process
continues after it. The tests are run on the CPU once; the results are kept in the work folder. The exit code is 1 when
a test that passes on the CPU fails here and is not listed, with its reason, in tools/jax_suite_known_failures.toml.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from conformance import events, report, runner, source
from conformance.known_failures import KnownFailures

TOOLS = Path(__file__).resolve().parent
HEADER = """# JAX's own tests on the IPU model

Made by `tools/jax_suite.py`; do not edit. The tests of JAX at the tag `jax-v0.10.2`, each file in processes of its
own. The columns count the tests that pass on the CPU under the same settings; the ratio is passed over run. Settings
are those of the last run of the file: `JAX_NUM_GENERATED_CASES`, and the number of IPUs; revision is the commit that
was run, or the commits, where later ones have run a part of the file. The tests choose what to skip and which
tolerances to apply by the name of the platform; the IPU is held to the rules of the CPU. Where only the failed tests
were run on the CPU as well (`--baseline failed`), the others count as passing there. Of the packages without which
tests are skipped, mpmath, cloudpickle, flatbuffers and Pillow are installed; TensorFlow and PyTorch are not.

The last three columns say what passed of what was run: under the platform's own name (`--column own`), where tests are
not held to what the CPU skips, so those that only the CPU skips count as well; with `JAX_ENABLE_X64=1` (`x64`); and
with JAX 0.12.0.1 on Python 3.12 (`newest`), whose tests are those of JAX's main branch at cec06d1. "shard" is the part
of a file's tests that was run: every n-th. "-" means that none of the file's tests runs there, on the CPU either: JAX
skips them all under that name or with 64 bits, or JAX 0.12.0.1 lacks what that main branch's tests import.
"""


@dataclass(frozen=True)
class Work:
    """The work folder: results by settings, platform and file."""

    root: Path
    settings: runner.Settings

    @property
    def folder(self) -> Path:
        settings = self.settings
        x64 = "-x64" if settings.x64 else ""
        shard = "" if settings.shard == "0/1" else f"-shard{settings.shard.replace('/', 'of')}"
        return self.root / f"jax-{version('jax')}-cases{settings.generated_cases}-ipus{settings.devices}{x64}{shard}"

    def platform_folder(self, platform: str) -> str:
        """Returns the folder of a platform's results. All columns of equal settings share the CPU's results."""
        own = platform != "cpu" and self.settings.column == report.OWN
        return f"{platform}-{report.OWN}" if own else platform

    def newest_results(self, platform: str) -> list[Path]:
        """Returns the results of every file under its latest settings in this column."""
        results = [
            result
            for result in self.root.glob(f"jax-{version('jax')}-*/{self.platform_folder(platform)}/**/*.json")
            if ("-x64" in result.relative_to(self.root).parts[0]) == self.settings.x64
        ]
        by_age = sorted(results, key=lambda result: result.stat().st_mtime)
        newest = {self.name_of(result): result for result in by_age}
        return [newest[name] for name in sorted(newest)]

    def name_of(self, result: Path) -> str:
        """Returns the name, as in `source.test_files`, of the test file to which `result` belongs."""
        return Path(*result.relative_to(self.root).parts[2:]).with_suffix("").as_posix()

    def scratch(self, platform: str, name: str) -> Path:
        return self.folder / self.platform_folder(platform) / name

    def result(self, platform: str, name: str) -> Path:
        return self.folder / self.platform_folder(platform) / f"{name}.json"


def run(name: str, file: Path, platform: str, work: Work, known: KnownFailures, baseline: str) -> report.FileVerdict:
    """Runs a file on the platform, and on the CPU those of its tests that have no result yet.

    `baseline` "all" runs all of these tests on the CPU; "failed" assumes that tests that pass on the platform pass on
    the CPU.
    """
    device = runner.run_file(file, platform, work.settings, work.scratch(platform, name))
    stored = runner.FileResult.read(work.result(platform, name))
    stored.update(device.tests, report.revision(TOOLS))
    stored.write(work.result(platform, name))

    cpu = runner.FileResult.read(work.result("cpu", name))
    missing = [
        test
        for test, result in device.tests.items()
        if test not in cpu.tests and test not in events.PSEUDO_TESTS
        if baseline == "all" or result.outcome in runner.FAILURES
    ]
    uncollected = events.COLLECTION in device.tests and not cpu.tests
    if missing or uncollected:
        selection = None if uncollected else missing
        cpu.tests.update(runner.run_file(file, "cpu", work.settings, work.scratch("cpu", name), selection).tests)
        # Some files list other tests, such as other element types, on the CPU.
        cpu.tests = {test: runner.Outcome("skipped", details="no test on the CPU") for test in missing} | cpu.tests
        cpu.write(work.result("cpu", name))
    return report.judge(name, cpu, device, known, work.settings.column)


def print_verdict(name: str, verdict: report.FileVerdict) -> None:
    """Prints one line for the file, then the tests that need attention."""
    ratio = "-" if verdict.ratio is None else f"{100 * verdict.ratio:.1f} %"
    print(
        f"{name}: {verdict.passed} of {verdict.cpu_passed} passed ({ratio}), {verdict.failed} failed, "
        f"{verdict.crashed} crashed, {verdict.hung} hung, {verdict.skipped} skipped",
        flush=True,
    )
    for test in verdict.unlisted:
        print(f"  not listed: {test}", flush=True)
    for test in verdict.now_passing:
        print(f"  listed, but passes: {test}", flush=True)


def write_report(path: Path, platform: str, work: Work, known: KnownFailures, names: Collection[str]) -> None:
    """Writes the document and its results; those in the work folder replace earlier ones.

    A run that ended before the CPU's turn changes nothing. `names`: the files that should have a result.
    """
    results = path.with_suffix(".json")
    verdicts = report.read_results(results)
    for result in work.newest_results(platform):
        name = work.name_of(result)
        settings_folder = work.root / result.relative_to(work.root).parts[0]
        cpu = runner.FileResult.read(settings_folder / "cpu" / f"{name}.json")
        device = runner.FileResult.read(result)
        if unknown := report.without_baseline(cpu, device):
            print(f"{name}: not reported; tests without a result on the CPU: {len(unknown)}. Run it again")
            continue
        verdict = report.judge(name, cpu, device, known, work.settings.column)
        verdict.settings = settings_folder.name.removeprefix(f"jax-{version('jax')}-").replace("-", ", ")
        verdicts[report.key(name, work.settings.column)] = verdict
    unmeasured = set(names) - set(known.excluded) - set(verdicts)
    report.write_results(results, verdicts)
    path.write_text(report.markdown(verdicts, known, HEADER, unmeasured))


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="e.g. api_test, pallas/ops_test (default: all that are not excluded)")
    parser.add_argument("--tests", type=Path, help="a checkout of JAX or its tests folder (default: fetched)")
    parser.add_argument("--platform", default="ipu")
    parser.add_argument("-k", dest="keyword", default="", help="pytest's keyword expression")
    parser.add_argument(
        "--baseline",
        choices=("all", "failed"),
        default="all",
        help="what runs on the CPU: failed saves half of the time",
    )
    parser.add_argument("--jobs", type=int, default=1, help="files at the same time")
    parser.add_argument("--shard", default="0/1", help="index/count: every count-th test of each file")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one test")
    parser.add_argument("--memory", type=float, default=5.0, help="GB after which a process is replaced")
    parser.add_argument("--cases", type=int, default=3, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument(
        "--column",
        choices=("cpu", *report.COLUMNS),
        default="cpu",
        help="of the report: held to the rules of the CPU, under the platform's own name, with JAX_ENABLE_X64=1, or "
        "with a newer JAX, in whose Python the tool must run",
    )
    parser.add_argument("--resume", action="store_true", help="leave out files that have a result")
    parser.add_argument(
        "--rules",
        help="platform whose skips and tolerances the tests apply; '' for those of a new platform (default: by column)",
    )
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--tiles", default="all", help="JAX_IPU_MODEL_NUM_TILES")
    parser.add_argument("--work", type=Path, default=TOOLS.parent / "build" / "jax_suite", help="results and output")
    parser.add_argument("--known", type=Path, default=TOOLS / "jax_suite_known_failures.toml")
    parser.add_argument("--report", type=Path, help="put the results of the work folder into the table there")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 if there is an unlisted failure."""
    options = parse_arguments(arguments)
    rules = ("" if options.column == report.OWN else "cpu") if options.rules is None else options.rules
    settings = runner.Settings(
        devices=options.devices,
        generated_cases=options.cases,
        x64=options.column == report.X64,
        rules=rules,
        tiles=options.tiles,
        timeout=options.timeout,
        memory_gigabytes=options.memory,
        shard=options.shard,
        keyword=options.keyword,
        column=options.column,
    )
    work = Work(options.work.resolve(), settings)
    known = KnownFailures.read(options.known)
    unlisted = 0
    tests = source.find_tests(options.tests) if options.tests else source.fetch_tests(work.root)
    files = source.test_files(tests)
    if not options.report_only:
        names = [name.removesuffix(".py") for name in options.files] or sorted(set(files) - set(known.excluded))
        if options.resume:
            names = [name for name in names if not work.result(options.platform, name).exists()]
        if absent := [f"{name}.py" for name in names if name not in files]:
            raise SystemExit(f"{tests} has no {', '.join(absent)}")
        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = pool.map(
                lambda name: run(name, files[name], options.platform, work, known, options.baseline), names
            )
            for name, verdict in zip(names, verdicts, strict=True):
                print_verdict(name, verdict)
                unlisted += len(verdict.unlisted)
    if options.report:
        write_report(options.report, options.platform, work, known, files)
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
