"""Runs the rows of the table of ops with PopLibs, and writes docs/poplibs_ops.md.

    python tools/poplibs_ops.py FOLDER [--only WORD] [--minutes N]

FOLDER is one of tools/build_poplibs. Each row of tests/support/op_table.py is compiled for every type of f32, f16, s32,
u32 and pred that it has, on 64 tiles, and its values are compared with JAX's on the CPU. --only takes the rows whose
name has the word, and prints them without writing; after --minutes the rows that are left are listed as not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "poplibs_ops.md"
sys.path.insert(0, str(ROOT / "tests"))

from jax_ipu import _ipu, compiler  # noqa: E402
from jax_ipu.compiler.options import serialize_options  # noqa: E402
from support import op_table  # noqa: E402
from support.modes import array, close, cpu_jit, lower  # noqa: E402

TYPES = ("float32", "float16", "int32", "uint32", "bool")
TARGET = "ipu2:64"
HEADER = """# Ops on Graphcore's PopLibs

Made by `tools/poplibs_ops.py` from the table of ops that the tests have (do not edit): each row compiled with
[`JAX_IPU_POPLIBS`](poplibs.md), run on 64 tiles, and compared with JAX on the CPU. Types other than f32, f16, s32, u32
and pred are never PopLibs'. "PopLibs": all of the program's operations are PopLibs'; "both": some are `hlo`'s; "hlo":
all are, or the program only moves elements.

| op | PopLibs | both | hlo | wrong or refused | why not PopLibs |
|---|---|---|---|---|---|
"""


class Outcome(NamedTuple):
    """Of a row in one type."""

    group: str
    reasons: tuple[str, ...]


def outcome(row: op_table.Row, dtype: str, folder: str) -> Outcome:
    """Compiles and runs the cases of a row in one type."""
    calls = [
        [
            array(*spec, dtype=dtype, seed=seed, low=row.low, high=row.high) if isinstance(spec, tuple) else spec
            for seed, spec in enumerate(specs)
        ]
        for specs in row.cases
    ]

    def program(calls: Any) -> Any:
        return [row.function(*arguments) for arguments in calls]

    import jax

    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(cpu_jit(program)(calls))]
    text, lowered = lower(program, calls)
    chosen: list[Any] = []

    def observe(compilation: Any) -> None:
        if compilation.built is not None:
            chosen.extend(compilation.built.lowered.choices or ())

    try:
        executable = compiler.compile(text, "mlir", serialize_options({"ipu_poplibs": folder}), TARGET, observe)
        flat = [np.asarray(leaf) for leaf in jax.tree.leaves(calls)]
        kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
        results = _ipu.run(executable, [flat[i].tobytes() for i in kept], "fast")
        for result, wanted in zip(results, expected, strict=True):
            made = np.frombuffer(result, wanted.dtype).reshape(wanted.shape)
            close(made, wanted, row.rtol if dtype == "float32" else None)
    except (compiler.CompileError, _ipu.Error, AssertionError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Outcome("wrong", (f"{dtype}: {lines[0][:160] if lines else type(error).__name__}",))
    libraries = {choice.library for choice in chosen}
    reasons = tuple(sorted({choice.reason for choice in chosen if choice.reason}))
    if libraries == {"PopLibs"}:
        return Outcome("PopLibs", ())
    return Outcome("both" if "PopLibs" in libraries else "hlo", reasons)


def line_of(row: op_table.Row, folder: str) -> str:
    """The line of a row."""
    groups: dict[str, list[str]] = {}
    reasons: dict[str, None] = {}
    for dtype in TYPES:
        if dtype in row.dtypes:
            group, why = outcome(row, dtype, folder)
            groups.setdefault(group, []).append(dtype)
            reasons.update(dict.fromkeys(why))
    cells = [", ".join(groups.get(group, ())) for group in ("PopLibs", "both", "hlo", "wrong")]
    name = f"{row.op} ({row.note})" if row.note else row.op
    return f"| {name} | {' | '.join(cells)} | {'; '.join(reasons).replace('|', '/')} |"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--only", default="", help="only rows whose name has this word; nothing is written")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    lines, left = [], []
    for row in op_table.ROWS:
        if arguments.only not in row.op or not set(TYPES) & set(row.dtypes):
            continue
        if time.monotonic() > end:
            left.append(row.op)
            continue
        lines.append(line_of(row, arguments.folder))
        print(lines[-1], flush=True)
    if not arguments.only:
        rest = f"\nNot run, for lack of time: {', '.join(left)}.\n" if left else ""
        DOCUMENT.write_text(HEADER + "\n".join(lines) + "\n" + rest)


if __name__ == "__main__":
    main()
