"""What a run means: failures against the CPU baseline and the list of known ones, and the table by file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance import events
from conformance.known_failures import KnownFailures
from conformance.runner import FAILURES, FileResult


@dataclass
class FileVerdict:
    """One file: how the tests that pass on the CPU fare on the platform."""

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
        """Passed over passed and failed, of what passes on the CPU; None when nothing was run."""
        run = self.passed + self.failed + self.crashed + self.hung
        return self.passed / run if run else None


def read_results(path: Path) -> dict[str, FileVerdict]:
    """File stem -> its last verdict; none where there is no such file."""
    if not path.exists():
        return {}
    return {stem: FileVerdict(**fields) for stem, fields in json.loads(path.read_text()).items()}


def write_results(path: Path, verdicts: Mapping[str, FileVerdict]) -> None:
    """One line for each file, so that a later run changes the lines of what it has run."""
    lines = (f"{json.dumps(stem)}: {json.dumps(asdict(verdict))}" for stem, verdict in sorted(verdicts.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def revision(checkout: Path) -> str:
    """The commit that is checked out there, and whether it was changed; empty where there is none."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def without_baseline(cpu: FileResult, device: FileResult) -> list[str]:
    """Failed tests of which nobody knows whether they pass on the CPU: the run was ended before."""
    return [
        test
        for test, result in device.tests.items()
        if result.outcome in FAILURES and test not in cpu.tests and test not in events.PSEUDO_TESTS
    ]


def judge(stem: str, cpu: FileResult, device: FileResult, known: KnownFailures) -> FileVerdict:
    """Compares one file. A test that does not pass on the CPU either is left out, but for a new crash or hang."""
    verdict = FileVerdict(revision=device.revision)
    for test, result in device.tests.items():
        baseline = cpu.tests[test].outcome if test in cpu.tests else _unknown(result.outcome)
        reason = known.reason(stem, test)
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
    """What is taken for a test without a result on the CPU: that it passes when it passes here."""
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
    """The document: totals, a row for each file, the reasons of known failures, and files without a result."""
    lines = [
        header.rstrip(),
        "",
        "| file | passes on CPU | passed on ipu | failed | crash or hang | skipped | ratio | settings | revision |",
    ]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---|---|")
    total = FileVerdict()
    for stem, verdict in sorted(verdicts.items()):
        if not verdict.cpu_passed and verdict.ratio is None:
            continue  # nothing in it runs on the CPU either
        lines.append(_row(stem, verdict))
        for name in ("cpu_passed", "passed", "failed", "crashed", "hung", "skipped"):
            setattr(total, name, getattr(total, name) + getattr(verdict, name))
    lines += [_row("**all**", total), "", "## Known failures", ""]
    for stem, verdict in sorted(verdicts.items()):
        lines += [f"* `{stem}`: {count} x {reason}" for reason, count in verdict.by_reason.items()]
        if verdict.unlisted:
            lines.append(f"* `{stem}`: {len(verdict.unlisted)} x not yet explained")
    lines += ["", "## Files that are not run", ""]
    lines += [f"* `{stem}`: {reason}" for stem, reason in sorted(known.excluded.items())]
    if unmeasured:
        lines += ["", "## Files without a result yet", "", ", ".join(f"`{stem}`" for stem in sorted(unmeasured))]
    return "\n".join(lines) + "\n"


def _row(name: str, verdict: FileVerdict) -> str:
    ratio = "" if verdict.ratio is None else f"{100 * verdict.ratio:.1f} %"
    cells = [name, verdict.cpu_passed, verdict.passed, verdict.failed, verdict.crashed + verdict.hung, verdict.skipped]
    return "| " + " | ".join(map(str, cells)) + f" | {ratio} | {verdict.settings} | {verdict.revision} |"
