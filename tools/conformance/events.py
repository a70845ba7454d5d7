"""The contract between a pytest process and the runner that watches it: variables and one JSON line for each event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

EVENTS_VARIABLE = "JAX_SUITE_EVENTS"  # file that events are appended to; tests it already names are not run again
SELECTION_VARIABLE = "JAX_SUITE_SELECTION"  # file with the test ids to run, one a line; absent: all
SHARD_VARIABLE = "JAX_SUITE_SHARD"  # "index/count"
RULES_VARIABLE = "JAX_SUITE_RULES"  # platform whose skips and tolerances JAX's test utilities apply; absent: its own
MODULES_VARIABLE = "JAX_SUITE_MODULES"  # files of modules that the jax package leaves out, jax/_src/x.py is jax._src.x
MEMORY_VARIABLE = "JAX_SUITE_MEMORY_GB"  # a process that holds more stops between two tests and is started anew

# Stand for what happens to a file outside of its tests.
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
    """All complete events in the file; the last line of a process that died in the middle of it is dropped."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines if line.endswith("}")]


def append_event(path: Path, event: Event) -> None:
    """Adds one event and flushes it, so that it outlives the process."""
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")
