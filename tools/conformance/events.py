"""The protocol between a pytest process and its runner: environment variables, and one JSON line per event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

EVENTS_VARIABLE = "JAX_SUITE_EVENTS"  # file that events are appended to; tests it already names are not run again
SELECTION_VARIABLE = "JAX_SUITE_SELECTION"  # file with the test ids to run, one a line; absent: all
SHARD_VARIABLE = "JAX_SUITE_SHARD"  # "index/count"
RULES_VARIABLE = "JAX_SUITE_RULES"  # platform whose skips and tolerances JAX's test utilities use; absent: its own
MODULES_VARIABLE = "JAX_SUITE_MODULES"  # files of modules missing in the jax package; jax/_src/x.py is jax._src.x
MEMORY_VARIABLE = "JAX_SUITE_MEMORY_GB"  # a process with more memory stops between two tests and is restarted

# The name for events of a file outside of its tests.
COLLECTION = "(collection)"
EXIT = "(exit)"
PSEUDO_TESTS = (COLLECTION, EXIT)


class Event(TypedDict, total=False):
    """`kind` is "start", "end" (with outcome, seconds, details), "recycle" or "finish"."""

    kind: str
    test: str
    outcome: str
    seconds: float
    details: str


def read_events(path: Path) -> list[Event]:
    """Returns all complete events in the file, without the last line of a process that died while writing it."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines if line.endswith("}")]


def append_event(path: Path, event: Event) -> None:
    """Adds one event and flushes it, so that it survives the process."""
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")
