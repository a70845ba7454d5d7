"""Processor time of the start of a process, with and without the plugin: python benchmarks/start.py [--rounds N].

The last row loads a training step from JAX's persistent cache. Each row compares two kinds of processes, started in
turn: `ours - theirs` is the median of the differences of the rounds, in milliseconds of all threads. Such times
scatter: trust a difference only after many rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_COMPILE = """
import jax
from workloads import language
program = language.transformer_adam_step()
jax.jit(program.function, donate_argnums=0).lower(*program.arguments).compile()
"""
_JIT = "jax.jit(lambda x: x + 1)(jax.device_put(1.0, jax.devices('cpu')[0])).block_until_ready()"


class Row(NamedTuple):
    """The same process without and with the platform ipu: the code to run, and JAX_PLATFORMS."""

    name: str
    theirs: tuple[str, str]
    ours: tuple[str, str]
    cached: bool = False  # whether all processes but the first of each kind find their programs in JAX's cache


ROWS = (
    Row("devices", ("import jax; jax.devices('cpu')", "cpu"), ("import jax; jax.devices('ipu')", "ipu,cpu")),
    Row("first jit on the CPU", (f"import jax; {_JIT}", "cpu"), (f"import jax; {_JIT}", "ipu,cpu")),
    Row("cached program", (_COMPILE, "cpu"), (_COMPILE, "ipu,cpu"), cached=True),
)


def processor_time(code: str, platforms: str, cache: str | None) -> float:
    """Runs Python code in a new process, with a folder for JAX's cache; returns its processor time in milliseconds.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "JAX_PLATFORMS": platforms, "PYTHONPATH": str(Path(__file__).parent)}
    if cache is not None:
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    with tempfile.TemporaryDirectory() as folder:  # from which nothing is imported
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{'':24} {'theirs ms':>10} {'ours ms':>10} {'ours - theirs':>14}")
    for row in ROWS:
        pairs = []
        with tempfile.TemporaryDirectory() as folder:
            cache = folder if row.cached else None
            for kind in (row.theirs, row.ours) if row.cached else ():
                processor_time(*kind, cache)
            for index in range(rounds):
                if index % 2 == 0:
                    theirs = processor_time(*row.theirs, cache)
                    ours = processor_time(*row.ours, cache)
                else:
                    ours = processor_time(*row.ours, cache)
                    theirs = processor_time(*row.theirs, cache)
                pairs.append((theirs, ours))
        theirs, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
        difference = statistics.median(b - a for a, b in pairs)
        print(f"{row.name:24} {theirs:10.1f} {ours:10.1f} {difference:14.1f}", flush=True)


if __name__ == "__main__":
    main()
