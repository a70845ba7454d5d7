"""The programs that benchmarks/run.py times, by group: plain JAX functions with random arguments."""

from __future__ import annotations

import sys
from pathlib import Path

# The models of the examples and of the tests.
sys.path += [
    str(Path(__file__).resolve().parents[2] / folder) for folder in ("examples/mnist", "examples/gpt", "tests")
]
from . import calls, games, language, mathematics, operations, randomness, signals, simulation, vision
from .program import MakeProgram, Program

__all__ = ["DISPATCH", "PROGRAMS", "MakeProgram", "Program"]

# Each is timed twice: a step (a later call), and the first call, which traces, compiles and runs.
PROGRAMS: dict[str, MakeProgram] = {
    **vision.PROGRAMS,
    **language.PROGRAMS,
    **operations.PROGRAMS,
    **randomness.PROGRAMS,
    **signals.PROGRAMS,
    **simulation.PROGRAMS,
    **games.PROGRAMS,
    **mathematics.PROGRAMS,
}

# Calls that compute next to nothing.
DISPATCH: dict[str, MakeProgram] = calls.PROGRAMS
