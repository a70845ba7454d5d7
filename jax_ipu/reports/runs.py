"""What the host did while a program ran, beside what the chip did: a report's data from a profile of JAX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_SUFFIX = ".xplane.pb"
# Events of a report; of a longer profile those are left out first that say least.
_MOST_EVENTS = 40_000
# Kinds of what the host does, by the names of XLA, JAX and this package; the first that matches. Others are "other".
_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("callback", r"ipu callback"),
        ("python", r"\$"),
        ("compile", r"ipu compiler: |.*[Cc]ompile(?!r::)|.*trace_to_jaxpr|.*lower"),
        ("wait", r"[Ww]ait|.*(Await|block_until_ready|BlockHostUntilReady)"),
        ("transfer", r"shard_args|np\.asarray|.*(DevicePut|BufferFromHost|ToHost|ToLiteral|copy|Copy|Transfer)"),
        ("dispatch", r"Pjit|ParseArguments|.*(Execute|linkage|Dispatch)"),
    )
)
# Lines of a device's plane and the kind of their events; None: the event's name.
_DEVICE_LINES = {
    "XLA Modules": ("Programs", "program"),
    "XLA Ops": ("Operations", "operation"),
    "BSP phases": ("Phases", None),
    "Host link": ("Host link", "host link"),
    "IPU-Links": ("IPU-Links", "links"),
}
_FIRST_LEFT_OUT = ("python", "compute", "exchange", "sync", "operation")


class _Event(NamedTuple):
    name: str
    kind: str
    begin: float
    duration: float


class _Line(NamedTuple):
    name: str
    clock: str
    device: int | None
    events: list[_Event]


def run_data(path: str | Path, program: str) -> dict[str, Any]:
    """The timeline of a profile, as docs/report_format.md describes `run`.

    Args:
        path: a file that `jax.profiler.trace` has written, or its folder: then the newest file in it.
        program: the name of the program that the report is on.

    Raises:
        ValueError: the profile is of another program, or has no host.
        OSError: there is no profile.
    """
    from jax.profiler import ProfileData

    file = _file(Path(path))
    try:
        planes = list(ProfileData.from_file(str(file)).planes)
    except Exception as error:  # jaxlib raises an exception of its own for what is not a profile
        raise ValueError(f"{file} is no profile: {error}") from error
    since = next((dict(p.stats).get("profile_start_time") for p in planes if p.name == "Task Environment"), None)
    host = next((plane for plane in planes if plane.name == "/host:CPU"), None)
    if since is None or host is None:
        raise ValueError(f"{file} has nothing of the host: record it with jax.profiler.trace")
    lines, runs, others = _threads(host), [], set()
    for plane in planes:
        stats = dict(plane.stats)
        if not str(stats.get("device_type_string", "")).startswith("Graphcore"):
            continue
        device = int(plane.name.rpartition(":")[2])
        own = {line.name: list(line.events) for line in plane.lines}
        model = []
        for event in own.get("XLA Modules", ()):
            of_run = dict(event.stats)
            if "host_begin_ns" not in of_run:
                raise ValueError(f"{file} is from an earlier version of jax_ipu: record it again")
            begin = float(of_run["host_begin_ns"] - since)
            name = str(of_run["hlo_module"])
            model.append(_Event(name, "model", begin, float(of_run["host_duration_ns"])))
            others.add(name)
            if name == program:
                runs.append((device, int(of_run["cycles"]), event.start_ns, event.duration_ns, model[-1]))
        lines.append(_Line(f"IPU {device} (the model)", "measured", device, model))
        for name, (title, kind) in _DEVICE_LINES.items():
            events = [
                _Event(re.sub(r"\(\d+\)$", "", e.name), kind or e.name, e.start_ns, e.duration_ns)
                for e in own.get(name, ())
            ]
            lines.append(_Line(title, "modelled", device, events))
    if not runs:
        found = f"it has runs of {', '.join(sorted(others))}" if others else "it has no runs on IPUs"
        raise ValueError(f"{file} has no run of {program}: {found}")
    return _as_data(file.name, [line for line in lines if line.events], runs)


def _file(path: Path) -> Path:
    if path.is_dir():
        found = sorted(path.rglob(f"*{_SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        if not found:
            raise FileNotFoundError(f"{path} has no file *{_SUFFIX} in it")
        return found[-1]
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}: give the one that jax.profiler.trace was given")
    return path


def _threads(host: Any) -> list[_Line]:
    """The threads of the host that did anything of interest, those that did most first."""
    threads = []
    for line in host.lines:
        events = [_Event(e.name.removeprefix("$"), _kind(e.name), e.start_ns, e.duration_ns) for e in line.events]
        if events:
            threads.append((sum(e.kind == "dispatch" for e in events), len(events), line.name, events))
    threads.sort(key=lambda thread: thread[:2], reverse=True)
    return [
        _Line(f"Host thread {number} ({name})", "measured", None, events)
        for number, (_, _, name, events) in enumerate(threads, 1)
    ]


def _kind(name: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.match(name)), "other")


def _as_data(
    source: str, lines: Sequence[_Line], runs: Sequence[tuple[int, int, float, float, _Event]]
) -> dict[str, Any]:
    begin = min(event.begin for line in lines for event in line.events)
    end = max(event.begin + event.duration for line in lines for event in line.events)
    kept, left_out = _shortened([line.events for line in lines])
    return {
        "source": source,
        "duration": round(end - begin),
        "left_out": left_out,
        "runs": [
            {
                "device": device,
                "cycles": cycles,
                "begin": round(at - begin),
                "duration": round(duration),
                "host_begin": round(model.begin - begin),
                "host_duration": round(model.duration),
            }
            for device, cycles, at, duration, model in runs
        ],
        "lines": [
            {"name": line.name, "clock": line.clock, "device": line.device, **_columns(events, begin)}
            for line, events in zip(lines, kept, strict=True)
            if events
        ],
    }


def _columns(events: Sequence[_Event], begin: float) -> dict[str, Any]:
    # What contains others comes before them.
    events = sorted(events, key=lambda event: (event.begin, -event.duration))
    kinds = {(event.name, event.kind): 0 for event in events}
    for number, key in enumerate(kinds):
        kinds[key] = number
    return {
        "names": [name for name, _ in kinds],
        "kinds": [kind for _, kind in kinds],
        "event": [kinds[event.name, event.kind] for event in events],
        "begin": [round(event.begin - begin) for event in events],
        "duration": [round(event.duration) for event in events],
    }


def _shortened(lines: Sequence[list[_Event]]) -> tuple[list[list[_Event]], int]:
    """The lines without the events that are too many, and their number."""
    excess = sum(map(len, lines)) - _MOST_EVENTS
    if excess <= 0:
        return list(lines), 0
    rank = {kind: number for number, kind in enumerate(_FIRST_LEFT_OUT)}

    def importance() -> Iterator[tuple[int, float, int, int]]:
        for number, events in enumerate(lines):
            for at, event in enumerate(events):
                yield rank.get(event.kind, len(rank)), event.duration, number, at

    gone = {(number, at) for _, _, number, at in sorted(importance())[:excess]}
    kept = [
        [event for at, event in enumerate(events) if (number, at) not in gone] for number, events in enumerate(lines)
    ]
    return kept, excess
