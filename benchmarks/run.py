"""Compares ipu (the model's fast engine) with XLA:CPU: python benchmarks/run.py [options] [case ...]

Both run interleaved in one process, and their results are compared once. A ratio is ipu's median over XLA:CPU's, and
"best" that of the shortest times: below 1, ipu is faster. A case is a later call of a program ("step"), its first call
("first call": tracing, compiling, running), or a call that computes next to nothing ("dispatch").
The exit status is 1 if a case fails on ipu or its values differ.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax

import timing
from workloads import DISPATCH, PROGRAMS, MakeProgram

warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)


class Group(NamedTuple):
    """Cases of one kind: the goal of the geometric mean of their ratios, and the largest ratio that one may have."""

    mean: float
    limit: float


GROUPS = {"step": Group(0.40, 1.1), "first call": Group(0.25, 1.0), "dispatch": Group(0.75, 1.1)}


class Row(NamedTuple):
    """Result of one case, in microseconds; without times if it failed, which `error` describes."""

    case: str
    group: str
    cpu: float | None
    ipu: float | None
    ratio: float | None
    best: float | None
    error: str

    def line(self) -> str:
        if self.cpu is None or self.ipu is None or self.ratio is None or self.best is None:
            return f"{self.case:44} failed: {self.error}"
        over = " *" if self.ratio > GROUPS[self.group].limit else ""
        return f"{self.case:44} {self.cpu:12.1f} {self.ipu:12.1f} {self.ratio:7.2f} {self.best:7.2f}{over}"


def cases() -> dict[str, tuple[str, MakeProgram]]:
    """Returns name -> group and program."""
    return {
        **{name: ("dispatch", make) for name, make in DISPATCH.items()},
        **{name: ("step", make) for name, make in PROGRAMS.items()},
        **{
            f"first call, {name}": ("first call", make)
            for name, make in {"tiny": DISPATCH["tiny dispatch"], **PROGRAMS}.items()
        },
    }


def run(name: str, group: str, make: MakeProgram, rounds: int, seconds: float) -> Row:
    """Measures one case."""
    try:
        program = make()
        prepared = {platform: timing.later_calls(program, platform) for platform in timing.PLATFORMS}
        difference = timing.largest_difference(prepared["ipu"][1], prepared["cpu"][1])
        if difference > program.tolerance:
            raise ValueError(f"values differ from XLA:CPU's by {difference:.1e} of the largest")
        runs = {platform: run for platform, (run, _) in prepared.items()}
        if group == "first call":
            runs = {platform: timing.first_calls(program, platform) for platform in timing.PLATFORMS}
        times = timing.interleaved(runs, rounds, seconds)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return Row(name, group, None, None, None, None, str(error).splitlines()[0][:160])
    cpu, ipu = (statistics.median(times[platform]) for platform in timing.PLATFORMS)
    return Row(name, group, cpu * 1e6, ipu * 1e6, ipu / cpu, min(times["ipu"]) / min(times["cpu"]), "")


def summary(rows: list[Row]) -> Iterator[str]:
    """The geometric mean of each group, and its cases above the limit."""
    for group, (goal, limit) in GROUPS.items():
        own = [row for row in rows if row.group == group]
        ratios = [row.ratio for row in own if row.ratio is not None]
        if not own:
            continue
        text = f"{group}: {len(own) - len(ratios)} of {len(own)} failed"
        if ratios:
            mean = statistics.geometric_mean(ratios)
            best = statistics.geometric_mean([row.best for row in own if row.best is not None])
            faster = sum(ratio < 1 for ratio in ratios)
            text += f", {faster} faster; geometric mean {mean:.2f}, best {best:.2f} (goal {goal:.2f})"
        yield text
        slow = sorted(
            (row for row in own if row.ratio is not None and row.ratio > limit), key=lambda r: -(r.ratio or 0)
        )
        for row in slow:
            yield f"  above {limit}: {row.case} {row.ratio:.2f} (best {row.best:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help="part of the name of the cases to run; all by default")
    parser.add_argument("--group", choices=GROUPS, action="append", help="run only these groups")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="after which a case makes no further round")
    parser.add_argument("--processor-time", action="store_true", help="of all threads, where other load does not show")
    parser.add_argument("--json", type=Path, help="file for the table as JSON")
    arguments = parser.parse_args()
    if arguments.processor_time:
        timing.clock = time.process_time
    chosen = {
        name: (group, make)
        for name, (group, make) in cases().items()
        if (not arguments.case or any(part in name for part in arguments.case))
        and (not arguments.group or group in arguments.group)
    }
    print(f"jax {jax.__version__}, {jax.devices('ipu')[0]}")
    rows = []
    for group in GROUPS:
        own = {name: make for name, (g, make) in chosen.items() if g == group}
        if own:
            print(f"\n{group:44} {'cpu us':>12} {'ipu us':>12} {'ratio':>7} {'best':>7}")
        for name, make in own.items():
            rows.append(run(name, group, make, arguments.rounds, arguments.seconds))
            print(rows[-1].line(), flush=True)
            timing.forget()
            gc.collect()
    print(*("", *summary(rows)), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    return int(any(row.error for row in rows))


if __name__ == "__main__":
    sys.exit(main())
