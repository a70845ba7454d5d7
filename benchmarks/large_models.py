"""Large models on ipu and XLA:CPU: python benchmarks/large_models.py [options] [model ...]

Every model runs in two processes, one for each backend, which take turns. Prints the seconds of a compilation (from
the traced program to the executable) and of a step (median), the peak of each process's memory (RSS, arguments
included), and the modelled cycles of a step. Results are compared once. The exit status is 1 if a model fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import timing
from workloads.large import LARGE, Large


class Row(NamedTuple):
    """Result of one model: seconds, MiB, and cycles of a step; `error` is why it has none."""

    model: str
    compile_cpu: float = 0
    compile_ipu: float = 0
    step_cpu: float = 0
    step_ipu: float = 0
    rss_cpu: float = 0
    rss_ipu: float = 0
    cycles: int = 0
    error: str = ""

    def line(self) -> str:
        if self.error:
            return f"{self.model:36} failed: {self.error}"
        return (
            f"{self.model:36} {self.compile_cpu:8.2f} {self.compile_ipu:8.2f}"
            f" {self.compile_ipu / self.compile_cpu:6.2f}"
            f" {self.step_cpu:9.4f} {self.step_ipu:9.4f} {self.step_ipu / self.step_cpu:6.2f}"
            f" {self.rss_cpu:7.0f} {self.rss_ipu:7.0f} {self.rss_ipu / self.rss_cpu:6.2f} {self.cycles:14,}"
        )


HEADER = (
    f"{'model':36} {'compile':>8} {'ipu s':>8} {'ratio':>6} {'step cpu':>9} {'ipu s':>9} {'ratio':>6}"
    f" {'MiB cpu':>7} {'ipu':>7} {'ratio':>6} {'cycles':>14}"
)


class Backend:
    """A process that has compiled a model for one platform, and makes steps when it is told to."""

    def __init__(self, model: str, platform: str, values: Path, processor_time: bool) -> None:
        self._platform = platform
        self._process = subprocess.Popen(
            [
                sys.executable,
                __file__,
                *(["--processor-time"] if processor_time else []),
                *("--serve", platform, str(values), model),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"JAX_IPU_DEVICE_COUNT": str(max(LARGE[model].ipus, 1)), **os.environ},
        )

    def receive(self) -> dict[str, Any]:
        """Returns the next answer; raises RuntimeError if the process failed."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._platform}: the process ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self._platform}: {answer['error']}")
        return answer

    def step(self) -> dict[str, Any]:
        """Makes a step; returns its seconds, and the peak of the process's memory in MiB."""
        assert self._process.stdin
        print(file=self._process.stdin, flush=True)
        return self.receive()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin and self._process.stdin.close()
        self._process.wait()


def measure(model: str, rounds: int, seconds: float, processor_time: bool) -> Row:
    """Compiles a model in both processes, then makes steps in turn."""
    with tempfile.TemporaryDirectory() as folder:
        values = {platform: Path(folder) / f"{platform}.npz" for platform in ("cpu", "ipu")}
        backends: dict[str, Backend] = {}
        try:
            compiled, steps = {}, {}
            for platform, path in values.items():
                backends[platform] = Backend(model, platform, path, processor_time)
                compiled[platform] = backends[platform].receive()
            difference = _difference(values["ipu"], values["cpu"])
            if difference > compiled["ipu"]["tolerance"]:
                raise RuntimeError(f"values differ from XLA:CPU's by {difference:.1e} of the largest")
            times: dict[str, list[float]] = {"cpu": [], "ipu": []}
            for index in range(rounds):
                if index >= 2 and sum(map(sum, times.values())) > seconds:
                    break
                for platform, backend in backends.items():
                    steps[platform] = backend.step()
                    times[platform].append(steps[platform]["seconds"])
        except RuntimeError as error:
            return Row(model, error=str(error))
        finally:
            for backend in backends.values():
                backend.close()
    return Row(
        model,
        compiled["cpu"]["seconds"],
        compiled["ipu"]["seconds"],
        statistics.median(times["cpu"]),
        statistics.median(times["ipu"]),
        steps["cpu"]["rss"],
        steps["ipu"]["rss"],
        compiled["ipu"]["cycles"],
    )


def serve(name: str, platform: str, values: Path) -> None:
    """The process of a backend: compiles, makes a step, writes its result, then makes a step for each line it reads."""
    try:
        report, step = prepare(LARGE[name], platform, values)
    except Exception as error:  # the other process reports it
        print(json.dumps({"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}), flush=True)
        return
    print(json.dumps(report), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": step(), "rss": _peak()}), flush=True)


def prepare(model: Large, platform: str, values: Path) -> tuple[dict[str, Any], Callable[[], float]]:
    """Compiles a model, makes a step and writes its result; returns what to report, and a step that is timed."""
    program = model.make()
    device: Any = jax.devices(platform)[0]
    places = [device] * len(program.arguments)
    if platform == "ipu" and model.ipus > 1:
        mesh = jax.make_mesh((model.ipus,), ("batch",), devices=jax.devices("ipu")[: model.ipus])
        spec: Any = jax.P
        whole, split = (jax.NamedSharding(mesh, spec(axis)) for axis in (None, "batch"))
        places = [whole, *[split] * (len(places) - 1)]
    arguments = [jax.device_put(argument, place) for argument, place in zip(program.arguments, places, strict=True)]
    jitted = jax.jit(program.function, donate_argnums=(0,) if program.state else ())
    lowered = jitted.trace(*arguments).lower()
    tolerance, has_state = program.tolerance, program.state
    # The arguments are on the device now.
    del program
    start = timing.clock()
    compiled = lowered.compile()
    seconds = timing.clock() - start
    state = [arguments.pop(0)] if has_state else []

    def step() -> Any:
        if not state:
            return compiled(*arguments)
        # Popped, so that nothing but the call holds what it donates.
        new, value = compiled(state.pop(), *arguments)
        state.append(new)
        return value

    def timed() -> float:
        start = timing.clock()
        timing.wait(step())
        return timing.clock() - start

    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(step())]
    np.savez(values, *(leaf.astype(np.float64) for leaf in leaves))
    cost = compiled.cost_analysis() if platform == "ipu" else {}
    return {"seconds": seconds, "tolerance": tolerance, "cycles": int(cost.get("cycles", 0))}, timed


def _difference(ours: Path, expected: Path) -> float:
    with np.load(ours) as a, np.load(expected) as b:
        worst = 0.0
        for name in b.files:
            x, y = a[name], b[name]
            scale = np.abs(y).max() or 1.0
            # A comparison with nan is false, so it counts as different.
            worst = max(worst, float(np.nan_to_num(np.abs(x - y).max() / scale, nan=np.inf)))
        return worst


def _peak() -> float:
    """Peak of this process's resident memory, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="part of the name of the models to run; all by default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of steps, after which a model makes no further one"
    )
    parser.add_argument("--processor-time", action="store_true", help="of all threads, where other load does not show")
    parser.add_argument("--json", type=Path, help="file for the table as JSON")
    parser.add_argument("--serve", nargs=2, metavar=("PLATFORM", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.processor_time:
        timing.clock = time.process_time
    if arguments.serve:
        serve(arguments.model[0], arguments.serve[0], Path(arguments.serve[1]))
        return 0
    print(HEADER)
    rows = []
    for name in LARGE:
        if not arguments.model or any(part in name for part in arguments.model):
            rows.append(measure(name, arguments.rounds, arguments.seconds, arguments.processor_time))
            print(rows[-1].line(), flush=True)
    good = [row for row in rows if not row.error]
    if good:
        compiling = statistics.geometric_mean([row.compile_ipu / row.compile_cpu for row in good])
        stepping = statistics.geometric_mean([row.step_ipu / row.step_cpu for row in good])
        print(
            f"{len(rows) - len(good)} of {len(rows)} failed;"
            f" geometric means: compile {compiling:.2f}, step {stepping:.2f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    return int(len(good) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
