"""Runs a test file on a platform in separate processes; starts a new one after a test that crashed or hung."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance import events, source

TOOLS = Path(__file__).resolve().parent.parent
POLL_SECONDS = 0.2
START_SECONDS = 600.0  # import of the file and collection
EXIT_SECONDS = 90.0  # from the last test to the end of the process
KILL_SECONDS = 10.0  # for printing the stacks
FAILURES = ("failed", "crash", "hang")


@dataclass(frozen=True)
class Settings:
    """The settings that affect the result of a run; results of equal settings are comparable."""

    devices: int = 8
    generated_cases: int = 3
    x64: bool = False
    rules: str = "cpu"
    tiles: str = "all"
    timeout: float = 180.0
    memory_gigabytes: float = 5.0
    shard: str = "0/1"
    keyword: str = ""
    column: str = "cpu"

    def environment(self, platform: str) -> dict[str, str]:
        """Returns the variables of a test process on `platform`, "cpu" or "ipu"."""
        variables = {
            "JAX_PLATFORMS": "cpu" if platform == "cpu" else f"{platform},cpu",
            "JAX_NUM_CPU_DEVICES": str(self.devices),
            "JAX_NUM_GENERATED_CASES": str(self.generated_cases),
            "JAX_IPU_DEVICE_COUNT": str(self.devices),
            "JAX_IPU_MODEL_NUM_TILES": self.tiles,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(TOOLS), os.environ.get("PYTHONPATH", "")])),
            events.SHARD_VARIABLE: self.shard,
            events.MEMORY_VARIABLE: str(self.memory_gigabytes),
        }
        if self.rules and platform != "cpu":
            variables[events.RULES_VARIABLE] = self.rules
        if self.x64:
            variables["JAX_ENABLE_X64"] = "1"
        return {**os.environ, **variables}


@dataclass
class Outcome:
    """The outcome of one test: passed, failed, skipped, crash or hang."""

    outcome: str
    seconds: float = 0.0
    details: str = ""


@dataclass
class FileResult:
    """The outcomes of a file by test name, and the commits that were run, the latest last."""

    tests: dict[str, Outcome] = field(default_factory=dict)
    revision: str = ""

    def count(self, *outcomes: str) -> int:
        return sum(test.outcome in outcomes for test in self.tests.values())

    def update(self, tests: Mapping[str, Outcome], revision: str) -> None:
        """Adds the outcomes at `revision`. Earlier commits stay listed as long as one of their outcomes stays."""
        earlier = self.revision.split(", ") if self.tests.keys() - tests.keys() else []
        self.tests.update(tests)
        self.revision = ", ".join(filter(None, dict.fromkeys([*earlier, revision])))

    @classmethod
    def read(cls, path: Path) -> FileResult:
        """Reads a result; empty if there is no such file."""
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text())
        return cls({name: Outcome(**fields) for name, fields in stored["tests"].items()}, stored["revision"])

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))


def run_file(
    file: Path, platform: str, settings: Settings, stem: Path, selection: Sequence[str] | None = None
) -> FileResult:
    """Runs the tests of `file` (those in `selection`, or all) and returns one outcome for each.

    `stem` with its suffixes names the files for events and output, which stay there for reading.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    event_path, output_path = stem.with_suffix(".events"), stem.with_suffix(".out")
    for path in (event_path, output_path):
        path.unlink(missing_ok=True)
    environment = settings.environment(platform) | {events.EVENTS_VARIABLE: str(event_path)}
    modules = (source.checkout_of(file) / module for module in source.MODULES)
    environment[events.MODULES_VARIABLE] = os.pathsep.join(str(module) for module in modules if module.exists())
    if selection is not None:
        selection_path = stem.with_suffix(".selection")
        selection_path.write_text("\n".join(selection))
        environment[events.SELECTION_VARIABLE] = str(selection_path)

    while _run_process(_command(file, settings), environment, event_path, output_path, settings.timeout):
        pass
    return _collect(event_path)


def _command(file: Path, settings: Settings) -> list[str]:
    """Returns the command. It keeps the tests' own pytest configuration: JAX's turns warnings into errors."""
    root = source.checkout_of(file)
    configuration = root / "pyproject.toml"
    # -P: tests the installed packages, not those in the current folder.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--tb=short", "-p", "conformance.pytest_stream"]
    command += ["-p", "no:faulthandler", "-p", "no:cacheprovider", "-p", "no:timeout", "--rootdir", str(root)]
    command += ["-c", str(configuration if configuration.exists() else os.devnull), "--import-mode=importlib"]
    if settings.keyword:
        command += ["-k", settings.keyword]
    return [*command, str(file)]


def _run_process(
    command: list[str], environment: dict[str, str], event_path: Path, output_path: Path, timeout: float
) -> bool:
    """Runs one process to its end. Returns True if another one must continue where it stopped."""
    offset = output_path.stat().st_size if output_path.exists() else 0
    before = len(events.read_events(event_path))
    with output_path.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    hung = _watch(process, event_path, before, timeout)
    new = events.read_events(event_path)[before:]
    last = new[-1] if new else events.Event(kind="none")
    if last["kind"] == "recycle":
        return True
    # Exit codes of pytest up to 5 are verdicts on the tests, not on the process.
    if last["kind"] == "finish" and not hung and 0 <= process.returncode <= 5:
        return False
    culprit = {"finish": events.EXIT, "start": last.get("test", "")}.get(last["kind"], events.COLLECTION)
    if culprit == events.COLLECTION and any(event["kind"] == "end" for event in new):
        culprit = events.EXIT
    with output_path.open("rb") as output:
        output.seek(offset)
        text = output.read().decode(errors="replace")
    outcome = "hang" if hung else "crash"
    details = f"{outcome}: exit code {process.returncode}\n{text[-6000:]}"
    events.append_event(event_path, events.Event(kind="end", test=culprit, outcome=outcome, details=details))
    return last["kind"] == "start"


def _watch(process: subprocess.Popen[bytes], event_path: Path, before: int, timeout: float) -> bool:
    """Waits for the process, and kills it if nothing happens for too long. Returns True if it was killed.

    `before` is the number of events of earlier processes.
    """
    limits = {"start": timeout, "finish": EXIT_SECONDS, "recycle": EXIT_SECONDS}
    size, since, limit = 0, time.monotonic(), START_SECONDS
    while process.poll() is None:
        now = time.monotonic()
        new_size = event_path.stat().st_size if event_path.exists() else 0
        if new_size != size:
            new = events.read_events(event_path)[before:]
            size, since, limit = new_size, now, limits.get(new[-1]["kind"], START_SECONDS) if new else START_SECONDS
        elif now - since > limit:
            _kill(process)
            return True
        time.sleep(POLL_SECONDS)
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Sends SIGABRT first: the crash handler then prints the stack of every thread."""
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    # Also kills the processes that the test has started.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _collect(event_path: Path) -> FileResult:
    result = FileResult()
    for event in events.read_events(event_path):
        if event["kind"] == "end":
            result.tests[event["test"]] = Outcome(
                event["outcome"], event.get("seconds", 0.0), event.get("details", "")[-8000:]
            )
    return result
