"""In which order the stages of a pipeline compute their micro-batches, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SCHEDULES = ("grouped", "interleaved", "sequential")


class Work(NamedTuple):
    """One micro-batch on one stage. The last stage computes forward and backward at once, as backward."""

    stage: int
    backward: bool
    batch: int


def most_in_flight(schedule: str, stage: int, stages: int, batches: int) -> int:
    """For how many micro-batches a stage has computed forward and not yet backward, at most."""
    return {"grouped": batches, "interleaved": min(batches, stages - stage), "sequential": 1}[schedule]


def order_of_stage(schedule: str, stage: int, stages: int, batches: int) -> list[Work]:
    """The work of one stage, in its order.

    grouped: all forward, then all backward. interleaved: as soon as the pipeline is full, one backward after each
    forward, so that fewer activations wait. sequential: each micro-batch goes forward and backward by itself.
    """
    backward = [Work(stage, True, batch) for batch in range(batches)]
    if stage == stages - 1:
        return backward
    forward = [Work(stage, False, batch) for batch in range(batches)]
    first = most_in_flight(schedule, stage, stages, batches) - (schedule != "grouped")
    order = forward[:first]
    for one in forward[first:]:
        order += [one, backward[one.batch - first]]
    return order + backward[batches - first :]


def needs(work: Work, stages: int) -> list[Work]:
    """The work on other stages whose results this takes."""
    found = []
    if work.stage > 0 and (not work.backward or work.stage == stages - 1):
        found.append(Work(work.stage - 1, False, work.batch))
    if work.backward and work.stage < stages - 1:
        found.append(Work(work.stage + 1, True, work.batch))
    return found


def order_of_all(schedule: str, stages: int, batches: int) -> Iterator[Work]:
    """The work of all stages, each piece after what it needs."""
    left = [order_of_stage(schedule, stage, stages, batches) for stage in range(stages)]
    done: set[Work] = set()
    while any(left):
        for queue in left:
            if queue and all(need in done for need in needs(queue[0], stages)):
                done.add(queue[0])
                yield queue.pop(0)
