"""The schedule of a pipeline for a report: which IPU computes which micro-batch, copies or waits, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from jax_ipu import _ipu
from jax_ipu.reports.stage_loops import StageLoop

# With more events than this, all micro-batches of an IPU in a loop are one event.
_MOST_EVENTS = 40_000


class Event(NamedTuple):
    """What an IPU does from one cycle to another: "forward", "backward", "links" or "other".

    `name`: the micro-batch, or several of them, as a text; what there is to say otherwise.
    """

    row: int
    kind: str
    begin: int
    end: int
    name: str


def schedule_data(
    kind: str, rows: Sequence[tuple[int, int]], events: Sequence[Event], batches: int, executions: int = 1
) -> dict[str, Any]:
    """The part `schedule` of a report.

    Args:
        kind: "loop", or the schedule of a pipeline of several programs.
        rows: the IPU and the stage of each row.
        events: what the IPUs do; the rest of the time they wait. Copies may overlap with other events, and take only
            the time that these leave.
        batches: the number of micro-batches.
        executions: how often all of it happens in a call.
    """
    total = max((event.end for event in events), default=0)
    own: list[list[Event]] = [[] for _ in rows]
    for event in events:
        own[event.row].append(event)
    sums, lines = [], []
    for row, (ipu, stage) in enumerate(rows):
        copies = [event for event in own[row] if event.kind == "links"]
        listed = _filled(
            _filled([e for e in own[row] if e.kind != "links"], copies), [Event(row, "idle", 0, total, "idle")]
        )
        spent = dict.fromkeys(("forward", "backward", "links", "other", "idle"), 0)
        for event in listed:
            spent[event.kind] += event.end - event.begin
        work = spent.pop("forward") + spent.pop("backward")
        sums.append({"ipu": ipu, "stage": stage, "work": work, **spent})
        lines.append(_line(f"IPU {ipu}, stage {stage}", ipu, listed))
    return {
        "kind": kind,
        "stages": 1 + max((stage for _, stage in rows), default=-1),
        "batches": batches,
        "executions": executions,
        "duration": total,
        "idle": sum(row["idle"] for row in sums) / (total * len(rows)) if total else 0.0,
        "rows": sums,
        "lines": lines,
    }


def _filled(events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """The events, which do not overlap, and of others the parts between them, in order."""
    found: list[Event] = []
    fixed = sorted(events, key=lambda one: one.begin)
    at = 0
    for other in sorted(others, key=lambda one: one.begin):
        begin = max(other.begin, found[-1].end if found and found[-1].kind == other.kind else 0)
        while at < len(fixed) and fixed[at].end <= begin:
            at += 1
        for event in islice(fixed, at, None):
            if event.begin >= other.end:
                break
            if event.begin > begin:
                found.append(other._replace(begin=begin, end=event.begin))
            begin = max(begin, event.end)
        if begin < other.end:
            found.append(other._replace(begin=begin))
    return sorted((*fixed, *found), key=lambda one: one.begin)


def _line(name: str, ipu: int, events: Sequence[Event]) -> dict[str, Any]:
    """A line of events as those of a run."""
    kinds: dict[tuple[str, str], int] = {}
    index = [kinds.setdefault((event.name, event.kind), len(kinds)) for event in events]
    return {
        "name": name,
        "clock": "modelled",
        "device": ipu,
        "names": [text for text, _ in kinds],
        "kinds": [kind for _, kind in kinds],
        "event": index,
        "begin": [event.begin for event in events],
        "duration": [event.end - event.begin for event in events],
    }


def of_loops(
    loops: Sequence[StageLoop], tree: Sequence[Mapping[str, Any]], steps: _ipu.ProfileSteps
) -> dict[str, Any] | None:
    """The schedule of a program that has the loops of a pipeline; None where its steps have no such loop.

    Args:
        loops: in program order.
        tree: of the report.
        steps: of the profile.
    """
    nodes = _nodes_of(loops, tree, steps)
    if not nodes:
        return None
    parent = nodes[0][0]["parent"]
    of_node = {node["id"]: loop for node, loop in nodes if node["parent"] == parent}
    executions = tree[parent]["executions"]
    first = nodes[0][1]
    rows = [(ipu, stage) for chain in first.chains for stage, ipu in enumerate(chain)]
    row_of = {ipu: row for row, (ipu, _) in enumerate(rows)}
    events: list[Event] = []
    around: list[tuple[str, int, int]] = []
    at = 0.0
    for node in tree:
        if node["parent"] != parent or not node["cycles"]:
            continue
        loop = of_node.get(node["id"])
        if loop is None:
            end = at + node["cycles"] / executions
            copies = all(steps.link_bytes[step] for step in range(node["first_step"], node["last_step"] + 1))
            around.append(("links" if copies else "other", round(at), round(end)))
            at = end
            continue
        parts = _parts_of_trip(node, loop.trips * executions, steps)
        # Gradients go from the last stage to the first.
        direction = "forward" if set(loop.chains) & set(first.chains) else "backward"
        events += _of_loop(loop, row_of, parts, at, direction)
        at += loop.trips * sum(cycles for _, cycles in parts)
    events += (Event(row, *one, "") for row in range(len(rows)) for one in _joined(around))
    return schedule_data("loop", rows, events, first.batches, executions)


def _joined(intervals: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Intervals of one kind that follow each other as one."""
    joined: list[tuple[str, int, int]] = []
    for kind, begin, end in intervals:
        if joined and joined[-1][0] == kind and joined[-1][2] == begin:
            joined[-1] = (kind, joined[-1][1], end)
        else:
            joined.append((kind, begin, end))
    return joined


def _nodes_of(
    loops: Sequence[StageLoop], tree: Sequence[Mapping[str, Any]], steps: _ipu.ProfileSteps
) -> list[tuple[Mapping[str, Any], StageLoop]]:
    """The loops that the steps have, each with its node of the tree."""
    moved = steps.link_bytes
    found: list[tuple[Mapping[str, Any], StageLoop]] = []
    nodes = iter(tree)
    for loop in loops:
        for node in nodes:
            if node["kind"] == "repeat" and node["trips"] == loop.trips and node["first_step"] is not None:
                if any(moved[step] for step in range(node["first_step"], node["last_step"] + 1)):
                    found.append((node, loop))
                    break
    return found


def _parts_of_trip(node: Mapping[str, Any], trips: int, steps: _ipu.ProfileSteps) -> list[tuple[bool, float]]:
    """What a trip consists of, in order: whether it is a copy between IPUs, and its cycles."""
    costs = []
    for step in range(node["first_step"], node["last_step"] + 1):
        cycles = steps.compute[step] + steps.exchange[step] + steps.sync[step]
        costs.append((steps.link_bytes[step] > 0, steps.executions[step] * steps.counted[step] * cycles / trips))
    return [(copies, sum(c for _, c in part)) for copies, part in groupby(costs, key=lambda one: one[0])]


def _of_loop(
    loop: StageLoop, row_of: Mapping[int, int], parts: Sequence[tuple[bool, float]], start: float, direction: str
) -> list[Event]:
    trip = sum(cycles for _, cycles in parts)
    places = [(ipu, position) for chain in loop.chains for position, ipu in enumerate(chain)]
    events = []
    if loop.trips * len(parts) * len(places) > _MOST_EVENTS:
        for ipu, position in places:
            begin = start + position * trip
            end = round(begin + loop.batches * trip)
            events.append(Event(row_of[ipu], direction, round(begin), end, f"0 to {loop.batches - 1}"))
        return events
    for number in range(loop.trips):
        at = start + number * trip
        for copies, cycles in parts:
            begin, end = round(at), round(at + cycles)
            at += cycles
            for ipu, position in places:
                batch = number - position
                if copies:
                    events.append(Event(row_of[ipu], "links", begin, end, ""))
                elif 0 <= batch < loop.batches:
                    events.append(Event(row_of[ipu], direction, begin, end, str(batch)))
    return events
