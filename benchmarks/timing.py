"""Times programs on ipu and XLA:CPU, interleaved in one process, and compares their results."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from workloads import Program

Run = Callable[[], None]
PLATFORMS = ("cpu", "ipu")
# time.process_time counts the processor time of all threads, in which other load on the machine does not show.
clock: Callable[[], float] = time.perf_counter
_fresh = itertools.count()
# Waits for all arrays of a tree.
wait: Callable[[Any], Any] = jax.block_until_ready
# Drops the compiled programs that JAX holds.
forget: Callable[[], None] = jax.clear_caches


def jitted(program: Program, platform: str) -> Any:
    """Returns the function for a platform."""
    return jax.jit(program.function, backend=platform, donate_argnums=(0,) if program.state else ())


def later_calls(program: Program, platform: str) -> tuple[Run, Any]:
    """Calls a program once; returns a function that calls it again, and the first result as NumPy arrays."""
    function = jitted(program, platform)
    device = jax.devices(platform)[0]
    # A copy: the CPU's arrays may share NumPy's memory, which a donated argument overwrites.
    held = program.arguments if program.from_host else jax.device_put(_copied(program.arguments), device)
    result = function(*held)
    values = _copied(result)
    if not program.state:
        return lambda: wait(function(*held)), values
    state, others = result[0], held[1:]

    def run() -> None:
        nonlocal state
        state, value = function(state, *others)
        wait(value)

    return run, values


def first_calls(program: Program, platform: str) -> Run:
    """Returns a function that calls a program that is new to JAX: it is traced, compiled and run."""

    def run() -> None:
        number = float(next(_fresh))

        # A new constant, so that no cache on either side contains the program.
        def new(*arguments: Any) -> Any:
            leaves, tree = jax.tree.flatten(program.function(*arguments))
            return jax.tree.unflatten(tree, [*leaves[:-1], leaves[-1] + number])

        arguments = _copied(program.arguments)
        wait(jitted(program._replace(function=new), platform)(*arguments))

    return run


def interleaved(runs: dict[str, Run], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Returns the seconds of one call, an entry for each round, in at most `rounds` rounds and about `seconds`.

    A round makes as many calls as take 4 ms. There are at least three rounds, the first of which is not counted.
    """
    repeats = {}
    spent = 0.0
    for platform, run in runs.items():
        start = clock()
        run()
        first = clock() - start
        start = clock()
        run()
        once = clock() - start
        repeats[platform] = max(1, min(1000, math.ceil(4e-3 / max(once, 1e-6))))
        spent += first + once
    times: dict[str, list[float]] = {platform: [] for platform in runs}
    for index in range(rounds):
        if index >= 3 and spent > seconds:
            break
        order = list(runs.items())
        for platform, run in order if index % 2 == 0 else reversed(order):
            time.sleep(0.004)  # lets the other platform's spinning workers go to sleep
            start = clock()
            for _ in range(repeats[platform]):
                run()
            elapsed = clock() - start
            spent += elapsed
            times[platform].append(elapsed / repeats[platform])
    return times


def largest_difference(ours: Any, expected: Any) -> float:
    """Returns the largest difference of two results, relative to the largest element of each array.

    Raises:
        ValueError: they differ in structure, shape or type, or in where they are not finite.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(expected)
    leaves, own_tree = jax.tree.flatten(ours)
    if str(own_tree) != str(tree):
        raise ValueError(f"a result of the structure {own_tree}, not {tree}")
    worst = 0.0
    for (path, b), a in zip(paths, leaves, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"result {jax.tree_util.keystr(path)} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
            raise ValueError(f"result {jax.tree_util.keystr(path)} differs where it is not finite")
        if finite.any():
            scale = float(np.abs(b[finite]).max()) or 1.0
            worst = max(worst, float(np.abs(a[finite] - b[finite]).max()) / scale)
    return worst


def _copied(tree: Any) -> Any:
    return jax.tree.map(np.array, tree)
