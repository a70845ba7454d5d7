"""Runs a row on the IPU model and on its framework's own CPU, and compares the results."""

from __future__ import annotations

import statistics
import time
from typing import Any, NamedTuple

import numpy as np

from support.zoo.row import Row

# If the results depend on rounding, the errors of two correct implementations differ by up to this factor.
SENSITIVITY = 4.0


class Measurement(NamedTuple):
    """Times in seconds; `cycles` are those of one step on the busiest IPU.

    `error` is the IPU's error relative to the largest value. The reference is the framework's own CPU, or the exact
    reference of a case that has one; `cpu_error` is then the error of the framework's CPU against it.
    """

    compile_seconds: float
    step_seconds: float
    cpu_step_seconds: float
    cycles: int
    error: float
    cpu_error: float | None = None

    def agrees(self, tolerance: float) -> bool:
        """Whether the error is within the tolerance, or about as large as that of the framework's own CPU."""
        return self.error <= max(tolerance, SENSITIVITY * (self.cpu_error or 0.0))


def largest_error(actual: Any, expected: Any) -> float:
    """Largest |actual - expected| over the largest |expected|, over all arrays of two pytrees of one structure.

    Raises:
        ValueError: the structures or shapes differ, or infinities and NaNs are not in the same places.
    """
    import jax

    found, wanted = ([np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)] for tree in (actual, expected))
    if [a.shape for a in found] != [e.shape for e in wanted] or not found:
        raise ValueError(f"results of shapes {[a.shape for a in found]}, expected {[e.shape for e in wanted]}")
    error = 0.0
    for a, e in zip(found, wanted, strict=True):
        finite = np.isfinite(e)
        if not np.isfinite(a[finite]).all() or not np.array_equal(a[~finite], e[~finite], equal_nan=True):
            raise ValueError("an infinite value or a NaN is on one side only")
        if finite.any():
            scale = max(float(np.abs(e[finite]).max()), np.finfo(np.float64).tiny)
            error = max(error, float(np.abs(a[finite] - e[finite]).max()) / scale)
    return error


def measure(row: Row, steps: int = 2, seconds: float = 0.0) -> Measurement:
    """Compares `steps` steps of the row on both sides, one by one, and times more until `seconds` have passed.

    Compile time includes the first step, as a user experiences it. The later steps are not compared: after thousands of
    training steps in half precision only the accumulated rounding would be.
    """
    import jax

    import jax_ipu

    case = row.build()
    reference = case.cpu()
    exact = case.exact() if case.exact else None
    errors, cpu_errors = [], []

    def compare(actual: Any, expected: Any) -> None:
        if exact is None:
            errors.append(largest_error(actual, expected))
            return
        wanted = _arrays(exact())
        errors.append(largest_error(actual, wanted))
        cpu_errors.append(largest_error(expected, wanted))

    began = time.perf_counter()
    step = case.ipu()
    first = _arrays(step())
    compile_seconds = time.perf_counter() - began
    compare(first, _arrays(reference()))
    ipus = jax.local_devices(backend="ipu")[: row.ipus]
    before = [jax_ipu.counters(d).cycles for d in ipus]
    times: list[float] = []
    cpu_times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < steps - 1 or time.perf_counter() < end:
        began = time.perf_counter()
        actual = _arrays(step())
        between = time.perf_counter()
        expected = _arrays(reference())
        cpu_times.append(time.perf_counter() - between)
        times.append(between - began)
        if len(times) < steps:
            compare(actual, expected)
    cycles = max((jax_ipu.counters(d).cycles - b) // len(times) for d, b in zip(ipus, before, strict=True))
    return Measurement(
        compile_seconds,
        statistics.median(times),
        statistics.median(cpu_times),
        cycles,
        max(errors),
        max(cpu_errors, default=None),
    )


def _arrays(results: Any) -> Any:
    """Results as NumPy arrays, which waits for them."""
    import jax

    from jax_ipu.models.arrays import to_array

    return jax.tree.map(lambda leaf: np.asarray(to_array(leaf)), results)
