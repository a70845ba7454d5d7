"""Pytest plugin: streams test starts and ends, and skips tests that an earlier process of the file already ran."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import time
from pathlib import Path

import pytest

from conformance import events

# Opened at import: pytest later replaces stderr by a file of its own, which is lost when the process dies.
CRASH_OUTPUT = os.fdopen(os.dup(2), "w")
faulthandler.enable(CRASH_OUTPUT)


def resident_gigabytes() -> float:
    """Returns the memory of this process; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


class Stream:
    """The hooks; one object for each session."""

    def __init__(self) -> None:
        self.path = Path(os.environ[events.EVENTS_VARIABLE])
        self.memory_limit = float(os.environ.get(events.MEMORY_VARIABLE, "inf"))
        self.outcome = "passed"
        self.details = ""
        self.began = 0.0
        self.recycled = False

    def emit(self, event: events.Event) -> None:
        events.append_event(self.path, event)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "passed":
            return
        outcome = "skipped" if report.outcome == "skipped" else "failed"
        test = events.COLLECTION
        self.emit({"kind": "end", "test": test, "outcome": outcome, "seconds": 0.0, "details": report.longreprtext})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = {event["test"] for event in events.read_events(self.path) if event["kind"] in ("start", "end")}
        index, count = map(int, os.environ.get(events.SHARD_VARIABLE, "0/1").split("/"))
        selected = items[index::count]
        if selection := os.environ.get(events.SELECTION_VARIABLE):
            wanted = set(Path(selection).read_text().split("\n"))
            selected = [item for item in items if short_name(item.nodeid) in wanted]
        items[:] = [item for item in selected if short_name(item.nodeid) not in done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.outcome, self.details, self.began = "passed", "", time.monotonic()
        self.emit({"kind": "start", "test": short_name(nodeid)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.outcome = "failed"
        elif report.skipped and self.outcome == "passed":
            self.outcome = "skipped"
        else:
            return
        self.details += report.longreprtext + "\n"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds = round(time.monotonic() - self.began, 3)
        test, outcome, details = short_name(nodeid), self.outcome, self.details
        self.emit({"kind": "end", "test": test, "outcome": outcome, "seconds": seconds, "details": details})

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is not None and resident_gigabytes() > self.memory_limit:
            item.session.shouldstop = "memory limit"
            self.recycled = True

    def pytest_unconfigure(self) -> None:
        self.emit({"kind": "recycle" if self.recycled else "finish"})


def short_name(nodeid: str) -> str:
    """`tests/api_test.py::JitTest::test_x` -> `JitTest::test_x`."""
    return nodeid.split("::", 1)[-1]


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest for `-p conformance.pytest_stream`."""
    if rules := os.environ.get(events.RULES_VARIABLE):
        # JAX's test files read their flags from sys.argv when they are imported.
        sys.argv.append(f"--jax_test_dut={rules}")
    for module in filter(None, os.environ.get(events.MODULES_VARIABLE, "").split(os.pathsep)):
        folder = Path(module).parent
        package = "jax._src" + folder.as_posix().rpartition("jax/_src")[2].replace("/", ".")
        # Appended last, so that modules of the package take precedence.
        importlib.import_module(package).__path__.append(str(folder))
    config.pluginmanager.register(Stream(), "jax-suite-stream")
