"""Operations one by one: the first use of a small operation beyond JAX's tracing, and later uses, against XLA:CPU.

    python benchmarks/eager.py

First uses are counted in processor time of the whole process, so that other load on the machine does not show.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import compiler

OPERATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sin": jnp.sin,
    "x * x": lambda x: x * x,
    "x + 1": lambda x: x + 1,
    "sum": jnp.sum,
    "max of columns": lambda x: jnp.max(x, 0),
    "reshape": jnp.ravel,
    "transpose": jnp.transpose,
    "where": lambda x: jnp.where(x > 2, x, 0),
    "x @ x.T": lambda x: x @ x.T,
    "x[1]": lambda x: x[1],
    "concatenate": lambda x: jnp.concatenate([x, x]),
    "cumsum": jnp.cumsum,
    "argsort": jnp.argsort,
}
# Each repetition has its own shape, so that every first use compiles.
REPETITIONS = 5
LATER_USES = 200


class CompileTimer:
    """Sums the processor time of compilations while it is active."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs = 0
        self._compile = compiler.backend_compile_and_load
        compiler.backend_compile_and_load = self._timed

    def _timed(self, *args: Any, **options: Any) -> Any:
        begin = time.process_time()
        result = self._compile(*args, **options)
        self.seconds += time.process_time() - begin
        self.programs += 1
        return result


def measure(device: jax.Device, timer: CompileTimer) -> dict[str, tuple[float, float]]:
    """Returns operation -> (milliseconds of compilation per program, microseconds of a later use)."""
    results = {}
    for name, operation in OPERATIONS.items():
        first, later = [], []
        for repetition in range(REPETITIONS):
            x = jax.device_put(np.arange(4 * (repetition + 3), dtype=np.float32).reshape(4, -1), device)
            timer.seconds, timer.programs = 0.0, 0
            operation(x).block_until_ready()
            first.append(timer.seconds / max(timer.programs, 1))
            best = min(timed(operation, x) for _ in range(LATER_USES))
            later.append(best)
        results[name] = statistics.median(first) * 1e3, min(later) * 1e6
    return results


def timed(operation: Callable[[jax.Array], jax.Array], x: jax.Array) -> float:
    begin = time.perf_counter()
    operation(x).block_until_ready()
    return time.perf_counter() - begin


def main() -> None:
    timer = CompileTimer()
    results = {platform: measure(jax.devices(platform)[0], timer) for platform in ("ipu", "cpu")}
    print(f"{'operation':16s} first use, ms (ratio)   later uses, us (ratio)")
    for name in OPERATIONS:
        (first, later), (cpu_first, cpu_later) = results["ipu"][name], results["cpu"][name]
        print(f"{name:16s} {first:8.2f} ({first / cpu_first:4.2f})         {later:8.1f} ({later / cpu_later:4.2f})")


if __name__ == "__main__":
    main()
