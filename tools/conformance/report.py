"""The verdict on a run: failures against the CPU baseline and the list of known failures; the table by file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance import events
from conformance.known_failures import KnownFailures
from conformance.runner import FAILURES, FileResult

# The other columns of the report: the platform's own name, 64-bit types, and the newest JAX. The first column uses the
# CPU's rules.
OWN, X64, NEWEST = "own", "x64", "newest"
COLUMNS = {OWN: "own name", X64: "64 bits", NEWEST: "newest JAX"}


@dataclass
class FileVerdict:
    """The results, on the platform, of a file's tests that pass on the CPU."""

    cpu_passed: int = 0
    passed: int = 0
    failed: int = 0
    crashed: int = 0
    hung: int = 0
    skipped: int = 0
    unlisted: list[str] = field(default_factory=list)
    now_passing: list[str] = field(default_factory=list)
    by_reason: dict[str, int] = field(default_factory=dict)
    settings: str = ""
    revision: str = ""

    @property
    def ratio(self) -> float | None:
        """Returns passed / (passed + failed) among tests that pass on the CPU; None if no test ran."""
        run = self.passed + self.failed + self.crashed + self.hung
        return self.passed / run if run else None


def key(stem: str, column: str) -> str:
    """Returns the key of a file's verdict in a column; in the first column, the file's name."""
    return f"{stem} [{column}]" if column in COLUMNS else stem


def read_results(path: Path) -> dict[str, FileVerdict]:
    """Returns key -> last verdict; empty if there is no such file."""
    if not path.exists():
        return {}
    return {stem: FileVerdict(**fields) for stem, fields in json.loads(path.read_text()).items()}


def write_results(path: Path, verdicts: Mapping[str, FileVerdict]) -> None:
    """Writes one line per file, so that a later run only changes the lines of the files that it ran."""
    lines = (f"{json.dumps(stem)}: {json.dumps(asdict(verdict))}" for stem, verdict in sorted(verdicts.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def revision(checkout: Path) -> str:
    """Returns the commit that is checked out, and whether it was changed; empty if there is none."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def without_baseline(cpu: FileResult, device: FileResult) -> list[str]:
    """Returns failed tests whose result on the CPU is unknown, because the run ended before."""
    return [
        test
        for test, result in device.tests.items()
        if result.outcome in FAILURES and test not in cpu.tests and test not in events.PSEUDO_TESTS
    ]


def judge(stem: str, cpu: FileResult, device: FileResult, known: KnownFailures, column: str = "cpu") -> FileVerdict:
    """Compares one file. A test that does not pass on the CPU is left out, unless it newly crashes or hangs.

    Under the platform's own name, tests that are skipped on the CPU count as well.
    """
    verdict = FileVerdict(revision=device.revision)
    for test, result in device.tests.items():
        baseline = cpu.tests[test].outcome if test in cpu.tests else _unknown(result.outcome)
        reason = known.reason(stem, test, column)
        if column == OWN and baseline == "skipped" and result.outcome != "skipped":
            baseline = "passed"
        if reason is not None and result.outcome == "passed":
            verdict.now_passing.append(test)
        if not _counts(test, baseline, result.outcome):
            continue
        verdict.cpu_passed += baseline == "passed"
        counter = {"crash": "crashed", "hang": "hung"}.get(result.outcome, result.outcome)
        setattr(verdict, counter, getattr(verdict, counter) + 1)
        if result.outcome in FAILURES and reason is None:
            verdict.unlisted.append(test)
        elif result.outcome in FAILURES and reason is not None:
            verdict.by_reason[reason] = verdict.by_reason.get(reason, 0) + 1
    return verdict


def _unknown(outcome: str) -> str:
    """Returns the assumed CPU outcome of a test without one: it passes if it passes here."""
    return "passed" if outcome == "passed" else "absent"


def _counts(test: str, baseline: str, outcome: str) -> bool:
    if outcome in ("crash", "hang"):
        return baseline not in ("crash", "hang")
    if test in events.PSEUDO_TESTS:
        return outcome == "failed" and baseline == "absent"
    return baseline == "passed"


def markdown(
    verdicts: Mapping[str, FileVerdict], known: KnownFailures, header: str, unmeasured: Collection[str]
) -> str:
    """Returns the document: totals, a row per file, the reasons of known failures, and files without a result.

    Rows begin with the first column's counts; the other columns show the share that passed.
    """
    head = "| file | passes on CPU | passed on ipu | failed | crash or hang | skipped | ratio | settings | revision |"
    lines = [header.rstrip(), "", head + "".join(f" {title} |" for title in COLUMNS.values())]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---|---|" + "---:|" * len(COLUMNS))
    totals = {column: FileVerdict() for column in ("cpu", *COLUMNS)}
    stems = sorted({name.partition(" [")[0] for name in verdicts})
    for stem in stems:
        of_file = {column: verdicts.get(key(stem, column)) for column in totals}
        if all(v is None or (not v.cpu_passed and v.ratio is None) for v in of_file.values()):
            continue  # no test of it runs on the CPU
        lines.append(_row(stem, of_file))
        for column, verdict in of_file.items():
            for name in ("cpu_passed", "passed", "failed", "crashed", "hung", "skipped"):
                setattr(totals[column], name, getattr(totals[column], name) + getattr(verdict, name, 0))
    lines += [_row("**all**", dict(totals)), "", "## Known failures", ""]
    for stem, verdict in sorted(verdicts.items()):
        lines += [f"* `{stem}`: {count} x {reason}" for reason, count in verdict.by_reason.items()]
        if verdict.unlisted:
            lines.append(f"* `{stem}`: {len(verdict.unlisted)} x not yet explained")
    lines += ["", "## Files that are not run", ""]
    lines += [f"* `{stem}`: {reason}" for stem, reason in sorted(known.excluded.items())]
    if unmeasured:
        lines += ["", "## Files without a result yet", "", ", ".join(f"`{stem}`" for stem in sorted(unmeasured))]
    return "\n".join(lines) + "\n"


def _row(name: str, of_file: Mapping[str, FileVerdict | None]) -> str:
    v = of_file["cpu"] or FileVerdict(settings="not run")
    ratio = "" if v.ratio is None else f"{100 * v.ratio:.1f} %"
    counts = (v.cpu_passed, v.passed, v.failed, v.crashed + v.hung, v.skipped)
    cells = [name, *counts, ratio, v.settings, v.revision, *(_share(of_file[column]) for column in COLUMNS)]
    return "| " + " | ".join(map(str, cells)) + " |"


def _share(verdict: FileVerdict | None) -> str:
    """Returns the percentage of run tests that passed, with the settings if only a part of the file ran."""
    if verdict is None:
        return "not run"
    if verdict.ratio is None:
        return "-"
    part = [word for word in verdict.settings.split(", ") if word.startswith("shard")]
    run = verdict.passed + verdict.failed + verdict.crashed + verdict.hung
    return ", ".join([f"{verdict.passed} of {run} ({100 * verdict.ratio:.1f} %)", *part])
