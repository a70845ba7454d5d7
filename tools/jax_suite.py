"""Runs JAX's own tests, at the tag of the installed version, on the `ipu` platform and compares with the CPU.

    python tools/jax_suite.py                                 # all files, tests fetched from GitHub
    python tools/jax_suite.py --tests ~/jax api_test array_test -k jit
    python tools/jax_suite.py --report docs/jax_conformance.md --report-only

Every file runs in processes of its own. A test that crashes or hangs its process is recorded as such, and a new process
goes on after it. What passes on the CPU is run once and kept in the work folder. The exit code is 1 when a test that
passes on the CPU fails here and is not listed, with its reason, in tools/jax_suite_known_failures.toml.
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

Made by `tools/jax_suite.py`; do not edit. The tests of JAX at the tag `jax-v{version}`, each file in processes of its
own. The columns count the tests that pass on the CPU under the same settings; the ratio is passed over run. Settings
are those of the last run of the file: `JAX_NUM_GENERATED_CASES`, and the number of IPUs; revision is the commit that
was run, or the commits, where later ones have run a part of the file. The tests choose what to skip and which
tolerances to apply by the name of the platform; the IPU is held to the rules of the CPU. Where only the failed tests
were run on the CPU as well (`--baseline failed`), the others count as passing there.
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
        return self.root / f"jax-{version('jax')}-cases{settings.generated_cases}-ipus{settings.devices}{x64}"

    def newest_results(self, platform: str) -> list[Path]:
        """The results of every file under its latest settings."""
        by_age = sorted(self.root.glob(f"jax-{version('jax')}-*/{platform}/*.json"), key=lambda p: p.stat().st_mtime)
        newest = {result.stem: result for result in by_age}
        return sorted(newest.values(), key=lambda result: result.stem)

    def scratch(self, platform: str) -> Path:
        return self.folder / platform

    def result(self, platform: str, stem: str) -> Path:
        return self.folder / platform / f"{stem}.json"


def run(file: Path, platform: str, work: Work, known: KnownFailures, baseline: str) -> report.FileVerdict:
    """Runs a file on the platform, and on the CPU those of its tests that have no result yet.

    `baseline` "all" is exact; "failed" takes it that what passes on the platform passes on the CPU.
    """
    device = runner.run_file(file, platform, work.settings, work.scratch(platform))
    stored = runner.FileResult.read(work.result(platform, file.stem))
    stored.update(device.tests, report.revision(TOOLS))
    stored.write(work.result(platform, file.stem))

    cpu = runner.FileResult.read(work.result("cpu", file.stem))
    missing = [
        test
        for test, result in device.tests.items()
        if test not in cpu.tests and test not in events.PSEUDO_TESTS
        if baseline == "all" or result.outcome in runner.FAILURES
    ]
    uncollected = events.COLLECTION in device.tests and not cpu.tests
    if missing or uncollected:
        selection = None if uncollected else missing
        cpu.tests.update(runner.run_file(file, "cpu", work.settings, work.scratch("cpu"), selection).tests)
        cpu.write(work.result("cpu", file.stem))
    return report.judge(file.stem, cpu, device, known)


def print_verdict(stem: str, verdict: report.FileVerdict) -> None:
    """One line for the file, then what needs attention."""
    ratio = "-" if verdict.ratio is None else f"{100 * verdict.ratio:.1f} %"
    print(
        f"{stem}: {verdict.passed} of {verdict.cpu_passed} passed ({ratio}), {verdict.failed} failed, "
        f"{verdict.crashed} crashed, {verdict.hung} hung, {verdict.skipped} skipped",
        flush=True,
    )
    for test in verdict.unlisted:
        print(f"  not listed: {test}", flush=True)
    for test in verdict.now_passing:
        print(f"  listed, but passes: {test}", flush=True)


def write_report(path: Path, platform: str, work: Work, known: KnownFailures, stems: Collection[str]) -> None:
    """The document, and beside it the results that it is made from: those in the work folder replace earlier ones.

    A run that was ended before the CPU's turn changes nothing. `stems`: the files that should have a result.
    """
    results = path.with_suffix(".json")
    verdicts = report.read_results(results)
    for result in work.newest_results(platform):
        settings_folder = result.parent.parent
        cpu = runner.FileResult.read(settings_folder / "cpu" / result.name)
        device = runner.FileResult.read(result)
        if unknown := report.without_baseline(cpu, device):
            print(f"{result.stem}: not reported; tests without a result on the CPU: {len(unknown)}. Run it again")
            continue
        verdict = report.judge(result.stem, cpu, device, known)
        verdict.settings = settings_folder.name.removeprefix(f"jax-{version('jax')}-").replace("-", ", ")
        verdicts[result.stem] = verdict
    unmeasured = set(stems) - set(known.excluded) - set(verdicts)
    report.write_results(results, verdicts)
    path.write_text(report.markdown(verdicts, known, HEADER.format(version=version("jax")), unmeasured))


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="file stems, e.g. api_test (default: all that are not excluded)")
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
    parser.add_argument("--x64", action="store_true", help="JAX_ENABLE_X64=1")
    parser.add_argument(
        "--rules",
        default="cpu",
        help="platform whose skips and tolerances the tests apply; '' for those of a new platform",
    )
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--tiles", default="all", help="JAX_IPU_MODEL_NUM_TILES")
    parser.add_argument("--work", type=Path, default=TOOLS.parent / "build" / "jax_suite", help="results and output")
    parser.add_argument("--known", type=Path, default=TOOLS / "jax_suite_known_failures.toml")
    parser.add_argument("--report", type=Path, help="put the results of the work folder into the table there")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 1 for an unlisted failure."""
    options = parse_arguments(arguments)
    settings = runner.Settings(
        devices=options.devices,
        generated_cases=options.cases,
        x64=options.x64,
        rules=options.rules,
        tiles=options.tiles,
        timeout=options.timeout,
        memory_gigabytes=options.memory,
        shard=options.shard,
        keyword=options.keyword,
    )
    work = Work(options.work.resolve(), settings)
    known = KnownFailures.read(options.known)
    unlisted = 0
    tests = source.find_tests(options.tests) if options.tests else source.fetch_tests(work.root)
    if not options.report_only:
        stems = options.files or sorted({file.stem for file in tests.glob("*_test.py")} - set(known.excluded))
        files = [tests / f"{stem.removesuffix('.py')}.py" for stem in stems]
        if absent := [file.name for file in files if not file.exists()]:
            raise SystemExit(f"{tests} has no {', '.join(absent)}")
        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = pool.map(lambda file: run(file, options.platform, work, known, options.baseline), files)
            for file, verdict in zip(files, verdicts, strict=True):
                print_verdict(file.stem, verdict)
                unlisted += len(verdict.unlisted)
    if options.report:
        stems = {file.stem for file in tests.glob("*_test.py")}
        write_report(options.report, options.platform, work, known, stems)
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
