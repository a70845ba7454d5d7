"""The cost of each operation of a program on the IPU model: the data of jax_ipu.debug.profile."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler.api import compile_parsed, parse_target, reported
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.options import compile_options

OperationCost = _ipu.OperationCost


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
    report = compiled.report()
    operations = sorted(report.operations, key=lambda row: -row.cycles)
    return Profile(operations, report.cycles.total, len(report.loops))
