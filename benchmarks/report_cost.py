"""What a report costs beside the compilation: python benchmarks/report_cost.py [--rounds N] [program ...]

Compiles programs for one IPU with and without a report, in turn, in processor time of all threads. "compile" is the
compiler alone; "planning" is what it takes longer when a report is wanted, "data" and "page" make the report and its
HTML file.
The exit status is 1 if a report costs more than 30 % of a compilation.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.estimates import compilation_of
from jax_ipu.integration.programs import program_of
from jax_ipu.reports import report_of
from workloads import Program, language, vision
from workloads.large import LARGE

TARGET = "ipu2:1472"
GOAL = 0.30
PROGRAMS: dict[str, Callable[[], Program]] = {
    "MNIST step, batch 128": vision.mlp_step,
    "CIFAR step, batch 32": vision.cnn_step,
    "transformer + Adam step": language.transformer_adam_step,
    "ResNet-50 training, batch 1": LARGE["ResNet-50 training b1"].make,
}


class Row(NamedTuple):
    """Seconds of processor time: of a compilation, and of what a report adds."""

    program: str
    compile: float
    planning: float
    data: float
    page: float
    bytes: int

    @property
    def ratio(self) -> float:
        return (self.planning + self.data + self.page) / self.compile

    def line(self) -> str:
        parts = "".join(f"{1e3 * part:10.0f}" for part in (self.compile, self.planning, self.data, self.page))
        return f"{self.program:30}{parts}{self.ratio:9.2f}{self.bytes / 1e6:9.2f}{'  *' if self.ratio > GOAL else ''}"


def measure(name: str, program: Program, rounds: int) -> Row:
    """Medians of the rounds after the first."""
    donated = (0,) if program.state else ()
    lowered = program_of(program.function, program.arguments, {}, donated, None)

    def compilation(detailed: bool) -> Compilation:
        return compilation_of(lowered.mlir, "mlir", lowered.options, TARGET, detailed=detailed)

    times: list[tuple[float, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        for _ in range(rounds + 1):
            gc.collect()
            start = time.process_time()
            plain = compilation(False)
            compiled = time.process_time()
            del plain
            gc.collect()
            begin = time.process_time()
            detailed = compilation(True)
            planned = time.process_time()
            report = report_of(detailed)
            made = time.process_time()
            report.save(path)
            times.append((compiled - start, planned - begin, made - planned, time.process_time() - made))
            del detailed, report
        size = path.stat().st_size
    plain, detailed, data, page = (statistics.median(column) for column in zip(*times[1:], strict=True))
    return Row(name, plain, detailed - plain, data, page, size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help="part of the name of the programs to compile; all by default")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{'ms':30}{'compile':>10}{'planning':>10}{'data':>10}{'page':>10}{'report':>9}{'MB':>9}")
    rows = []
    for name, make in PROGRAMS.items():
        if arguments.program and not any(part in name for part in arguments.program):
            continue
        rows.append(measure(name, make(), arguments.rounds))
        print(rows[-1].line(), flush=True)
    return int(any(row.ratio > GOAL for row in rows))


if __name__ == "__main__":
    sys.exit(main())
