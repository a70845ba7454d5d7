"""What a pipeline does when, by the estimates of its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax_ipu.compiler.tables import percent_text, seconds_text
from jax_ipu.pipelines.order import Work, needs, order_of_all
from jax_ipu.reports.drawing import Drawing
from jax_ipu.reports.schedule import Event, schedule_data


@dataclass(frozen=True)
class Timeline:
    """When each stage computes which micro-batch; ``print`` shows a line for each IPU.

    Attributes:
        starts: the second at which each piece of work begins.
        seconds: how long each takes.
        stages: the number of stages.
        whole: seconds from the first to the last.
        copies: the stage that receives activations or gradients, and from which second to which.

    Examples:
        >>> from jax_ipu.pipelines.timeline import timeline
        >>> seconds = {(0, False): 1.0, (0, True): 2.0, (1, True): 2.0}
        >>> print(timeline("grouped", 2, 3, seconds, {0: 0.0}))
        2 stages, 9 s, idle 16.7 %
        IPU 0: 6 runs, busy 100.0 %
        IPU 1: 3 runs, busy 66.7 %
    """

    starts: Mapping[Work, float]
    seconds: Mapping[Work, float]
    stages: int
    whole: float
    copies: Sequence[tuple[int, float, float]] = ()

    @property
    def idle(self) -> float:
        """The part of the time that the IPUs wait, from 0 to 1.

        Examples:
            >>> from jax_ipu.pipelines.timeline import timeline
            >>> round(timeline("grouped", 2, 3, {(0, False): 1.0, (0, True): 2.0, (1, True): 2.0}, {0: 0.0}).idle, 2)
            0.17
        """
        return 1 - sum(self.seconds.values()) / (self.stages * self.whole)

    def __str__(self) -> str:
        lines = [f"{self.stages} stages, {seconds_text(self.whole)}, idle {percent_text(self.idle, 1.0)}"]
        for stage in range(self.stages):
            own = [work for work in self.starts if work.stage == stage]
            busy = sum(self.seconds[work] for work in own)
            lines.append(f"IPU {stage}: {len(own)} runs, busy {percent_text(busy, self.whole)}")
        return "\n".join(lines)

    def svg(self, title: str = "") -> str:
        """A picture: a row for each IPU, the micro-batches in it, and between them where it waits.

        Examples:
            >>> from jax_ipu.pipelines.timeline import timeline
            >>> seconds = {(0, False): 1.0, (0, True): 2.0, (1, True): 2.0}
            >>> timeline("grouped", 2, 3, seconds, {0: 0.0}).svg()[:4]
            '<svg'
        """
        drawing = Drawing(title or "Stages of a pipeline", 720, 74 + 30 * self.stages)
        drawing.text("text", 12, 16, title or f"{self.stages} stages: {seconds_text(self.whole)} by the model", size=13)
        left, right = 60, 708
        scale = (right - left) / self.whole
        for stage in range(self.stages):
            drawing.text("muted", 12, 46 + 30 * stage, f"IPU {stage}")
            drawing.rectangle("grid", left, 34 + 30 * stage, right - left, 24)
        for work, start in self.starts.items():
            seconds = self.seconds[work]
            x, width = left + start * scale, seconds * scale
            what = "backward" if work.backward else "forward"
            drawing.rectangle(
                "second" if work.backward else "first",
                x,
                34 + 30 * work.stage,
                width - 0.8,
                24,
                f"micro-batch {work.batch}, {what}: {seconds_text(seconds)}",
            )
            drawing.text("text", x + width / 2, 46 + 30 * work.stage, str(work.batch), "middle")
        entries = [("first", "forward"), ("second", "backward"), ("grid", f"idle {self.idle:.0%}")]
        drawing.legend(left, 56 + 30 * self.stages, entries)
        return drawing.svg()

    def schedule(self, kind: str, batches: int, replicas: int, clock: float) -> dict[str, Any]:
        """The part `schedule` of a report, in cycles: a row for each IPU.

        Args:
            kind: the schedule, as `timeline` takes it.
            batches: the number of micro-batches.
            replicas: the number of IPUs of each stage.
            clock: cycles per second.

        Examples:
            >>> from jax_ipu.pipelines.timeline import timeline
            >>> seconds = {(0, False): 1.0, (0, True): 2.0, (1, True): 2.0}
            >>> found = timeline("grouped", 2, 3, seconds, {0: 0.0}).schedule("grouped", 3, replicas=1, clock=100.0)
            >>> [row["work"] for row in found["rows"]], found["duration"]
            ([900, 600], 900)
        """
        rows = [(stage * replicas + one, stage) for stage in range(self.stages) for one in range(replicas)]
        events = []
        for row, (_, stage) in enumerate(rows):
            for work, start in self.starts.items():
                if work.stage == stage:
                    ends = start + self.seconds[work]
                    direction = "backward" if work.backward else "forward"
                    events.append(Event(row, direction, round(start * clock), round(ends * clock), str(work.batch)))
            for receiver, begin, end in self.copies:
                if receiver == stage and end > begin:
                    events.append(Event(row, "links", round(begin * clock), round(end * clock), ""))
        return schedule_data(kind, rows, events, batches)

    def _repr_html_(self) -> str:
        return self.svg()


def timeline(
    schedule: str, stages: int, batches: int, seconds: Mapping[tuple[int, bool], float], send: Mapping[int, float]
) -> Timeline:
    """When the work of a pipeline begins.

    Args:
        schedule, stages, batches: as `order_of_all`.
        seconds: of a micro-batch, by stage and whether it is backward.
        send: seconds for the activations of a micro-batch from a stage to the next one; as long for their gradient.
    """
    free = [0.0] * stages
    starts: dict[Work, float] = {}
    ends: dict[Work, float] = {}
    copies: list[tuple[int, float, float]] = []
    for work in order_of_all(schedule, stages, batches):
        received = [(ends[need], ends[need] + send[min(need.stage, work.stage)]) for need in needs(work, stages)]
        copies += ((work.stage, *one) for one in received)
        arrivals = [end for _, end in received]
        starts[work] = max([free[work.stage], *arrivals])
        free[work.stage] = ends[work] = starts[work] + seconds[work.stage, work.backward]
    return Timeline(starts, {work: seconds[work.stage, work.backward] for work in starts}, stages, max(free), copies)
