"""The cost of each operation of a program on the IPU model: the data of jax_ipu.debug.profile."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu.compiler.api import compile_parsed, parse_target, reported
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.options import compile_options


class OperationCost(NamedTuple):
    """The cost of one operation, summed over all its executions in one call of the program."""

    operation: str  # name in the compiler, e.g. "dot_general"; "map" is a fused elementwise expression
    source_line: str  # "model.py:12 (loss)", or "" when the program carries no location
    kind: str  # function of the model, e.g. "popops::map"
    executions: int
    compute_cycles: int
    exchange_cycles: int
    sync_cycles: int
    exchange_bytes: int
    flops: float
    tiles: int  # number of tiles that compute

    @property
    def cycles(self) -> int:
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles


class Profile(NamedTuple):
    """The report of a program.

    Attributes:
        operations: in falling order of cycles.
        cycles: of one call of the program.
        unknown_trip_counts: the number of loops that are counted as one trip.
    """

    operations: list[OperationCost]
    cycles: int
    unknown_trip_counts: int


@reported()
def profile(program: bytes, format: str, options: bytes, target: str) -> Profile:
    """Compiles the program and reports the cost of every operation; arguments and errors as for `compile`."""
    parsed = parse(program, format, options)
    compiled = compile_parsed(parsed, compile_options(options), parse_target(target)).compiled
    rows = []
    for row in compiled.operations():
        operation, _, source_line = row.pop("name").partition(" ")
        rows.append(OperationCost(operation=operation, source_line=source_line, **row))
    rows.sort(key=lambda row: -row.cycles)
    return Profile(rows, compiled.cost().cycles, len(compiled.loops()))
