"""What Graph, Tensor and Engine cost on the host: python benchmarks/poplar_graph.py [--against PYTHON]

Compiles benchmarks/poplar_graph.cc against the package that this Python imports, and runs it: the graph of a matrix
product as PopLibs makes it, views of many variables, and vertices on blocks of rows. Each row is processor time for
each vertex, variable or slice. With --against, which is the Python of another environment, the package of that one is
measured in turn with it, and the last column says how many times longer it takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cc")


def build(python: str, folder: Path) -> Path:
    """The program, compiled against the package of a Python."""
    command = [python, "-m", "jax_ipu", "poplar", "--json"]
    flags = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    program = folder / "poplar_graph"
    subprocess.run(["g++", "-O2", *flags["cflags"], str(SOURCE), *flags["libs"], "-o", str(program)], check=True)
    return program


def measure(program: Path, best: dict[str, tuple[int, float]]) -> None:
    """Runs the program once; keeps the shortest time of each row."""
    done = subprocess.run([str(program)], check=True, stdout=subprocess.PIPE, text=True)
    section = ""
    for line in done.stdout.splitlines():
        name, count, microseconds = line.split("\t")
        if not name.startswith(("getTileMapping of it", "slices of it")):
            section = name
        key = name.replace("of it", f"of {section.split(',')[0]}")
        least = min(float(microseconds), best.get(key, (0, float("inf")))[1])
        best[key] = (int(count), least)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="the Python of another environment")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pythons = [sys.executable, *([options.against] if options.against else [])]
        programs = []
        for i, python in enumerate(pythons):
            (place := Path(folder, str(i))).mkdir()
            programs.append(build(python, place))
        times: list[dict[str, tuple[int, float]]] = [{} for _ in programs]
        for _ in range(options.rounds):
            for program, best in zip(programs, times, strict=True):
                measure(program, best)
    print(f"{'':60} {'count':>8} {'us each':>10}" + (f" {'against':>10} {'ratio':>7}" if options.against else ""))
    for name, (count, own) in times[0].items():
        line = f"{name:60} {count:8} {own:10.2f}"
        if options.against:
            other = times[1][name][1]
            line += f" {other:10.2f} {other / max(own, 1e-3):7.1f}"
        print(line)


if __name__ == "__main__":
    main()
