"""Modelled cycles of programs on one IPU: python benchmarks/modelled.py [--write] [--top N] [program ...]

Cycles are deterministic: they depend on the program and on the compiler, not on the machine. Prints the cycles of one
call, their ratio to those stored in benchmarks/modelled.json, and the share of each kind of operation; then the
geometric mean of the ratios. --write stores the cycles. A loop whose trip count is known at run time only would count
as one trip; these programs have none.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
from pathlib import Path
from typing import NamedTuple

import jax_ipu
from workloads import Program, language, vision
from workloads.large import bert_forward, gpt_decoding, resnet_inference

STORED = Path(__file__).with_name("modelled.json")
TARGET = "ipu2:1472"


PROGRAMS = {
    "MNIST step, batch 128": vision.mlp_step,
    "CIFAR step, batch 32": vision.cnn_step,
    "transformer + Adam step": language.transformer_adam_step,
    "GPT decoding, 64 tokens": gpt_decoding,
    "residual block step, batch 8": vision.residual_block_step,
    "ResNet-50 inference, batch 4": resnet_inference,
    "BERT-base forward, 128 tokens": bert_forward,
}


class Share(NamedTuple):
    """What the operations of one name take, in cycles, and how often they run."""

    operation: str
    executions: int
    compute: int
    exchange: int
    sync: int

    @property
    def cycles(self) -> int:
        return self.compute + self.exchange + self.sync


def estimated(program: Program) -> jax_ipu.Estimate:
    """Compiles a program and returns what a call costs."""
    donated = (0,) if program.state else ()
    return jax_ipu.estimate(program.function, *program.arguments, target=TARGET, donate_argnums=donated)


def shares(result: jax_ipu.Estimate) -> list[Share]:
    """Sums the operations by name, in falling order of cycles."""
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    for row in result.operations:
        parts = (row.executions, row.compute_cycles, row.exchange_cycles, row.sync_cycles)
        sums[row.operation] = [a + b for a, b in zip(sums[row.operation], parts, strict=True)]
    return sorted((Share(name, *parts) for name, parts in sums.items()), key=lambda share: -share.cycles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help="part of the name of the programs to compile; all by default")
    parser.add_argument("--write", action="store_true", help=f"store the cycles in {STORED.name}")
    parser.add_argument("--top", type=int, default=6, help="how many kinds of operations to print")
    arguments = parser.parse_args()
    stored: dict[str, int] = json.loads(STORED.read_text()) if STORED.exists() else {}
    cycles = {}
    for name, make in PROGRAMS.items():
        if arguments.program and not any(part in name for part in arguments.program):
            continue
        result = estimated(make())
        if result.cycles is None or not result.fits:
            print(f"{name}: {result.reason}")
            continue
        cycles[name] = result.cycles
        against = f", {result.cycles / stored[name]:.3f} of {stored[name]:,}" if name in stored else ""
        print(f"{name}: {result.cycles:,} cycles{against}")
        total = sum(row.cycles for row in result.operations)
        for share in shares(result)[: arguments.top]:
            print(
                f"  {100 * share.cycles / total:5.1f} % {share.operation:28} {share.executions:6} runs,"
                f" compute {share.compute:,}, exchange {share.exchange:,}, sync {share.sync:,}",
                flush=True,
            )
    ratios = [own / stored[name] for name, own in cycles.items() if name in stored]
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.3f}")
    if arguments.write:
        STORED.write_text(json.dumps({**stored, **cycles}, indent=2) + "\n")


if __name__ == "__main__":
    main()
