"""Writes docs/op_support.md from the table of ops in tests/support/op_table.py.

python tools/op_support.py            # writes
python tools/op_support.py --check    # fails when the file is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "op_support.md"
sys.path.insert(0, str(ROOT / "tests"))

from jax_ipu.compiler.lowering.table import ALTERNATIVES  # noqa: E402
from support import op_table  # noqa: E402

# The chip has units for these types. All other types run as code, whose cost the model estimates.
NATIVE = frozenset(("float32", "float16", "bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"))
# Longer names first; each name stands for all of its types.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all types", op_table.ANY),
    ("numbers", op_table.NUMBER),
    ("real numbers", op_table.REAL),
    ("integers", op_table.INTEGER),
    ("signed integers", op_table.SIGNED),
    ("floats", op_table.FLOAT),
    ("complex", op_table.COMPLEX),
    ("2- and 4-bit integers", op_table.NARROW_INTEGER),
    ("fp8 and fp4", op_table.STORED_FLOAT),
    ("fp8", op_table.NARROW_FLOAT),
)
HEADER = """# Ops of StableHLO

Made by `tools/op_support.py` from `tests/support/op_table.py`; do not edit. Each row is tested against JAX on CPU in
both execution modes, with scalars, odd lengths, no elements, tensors larger than a tile, and operands stored in either
order of dimensions; `docs/stablehlo_conformance.md` has StableHLO's own programs.

Signed zeros, infinities, NaN, the ends of integers, and denormals of f32, bf16 and f16 go through the elementwise ops,
reductions, sorts, windows and cumulative ops in every combination (`tests/support/special_values.py`). Two results are
not those of XLA:CPU: functions of complex numbers have the C standard's infinities and signs of zero, and a denormal of
f32 or bf16 counts as itself or as zero.

What the chip has units for: {native}. Other types are computed correctly and costed as software: f64 and 64-bit
integers as sequences of 32-bit instructions, complex numbers as pairs, bf16 and fp8 by conversion to f32, 2- and 4-bit
integers in bytes. In elementwise expressions an f32 product whose only use is a sum is rounded with it, once; an f64
product is rounded for itself. Names of groups: {groups}.

"Function" is the PopLibs or Poplar function that runs the op; `hlo::` marks those that PopLibs lacks, which the model
declares under the same rules. "Vertices" says what a chip would run in place of the model's kernels: PopLibs' function,
or codelets of our own (`hlo/`). The types are those whose codelets have been run on the model's tiles: the scalar
operations against the model's kernels by `hlo/elementwise/map_test.cc`, ops against JAX on CPU by
`tests/operations/test_op_table.py` (most of them nightly). In the execution mode `codelets` other types of these ops
end with UNIMPLEMENTED. "Not written": a chip cannot run the op yet; nor can it run a more general form than PopLibs'
function has.
"""


def type_names(dtypes: Sequence[str]) -> str:
    """Returns the names of the types, with groups replaced by their name."""
    left, names = set(dtypes), []
    for name, members in GROUPS:
        if left >= set(members):
            names.append(name)
            left -= set(members)
    return ", ".join([*names, *(d for d in dtypes if d in left)])


def _vertices(library: str, codelets: Sequence[str]) -> str:
    """Returns what a chip runs: PopLibs' function, or codelets of our own."""
    own = library.startswith("hlo::") or library in op_table.OWN
    if codelets:
        return f"{'ours' if own else 'PopLibs or ours'}: {type_names(codelets)}"
    if own:
        return "ours: not written"
    return "PopLibs" if library.startswith("pop") and not library.startswith("poplar::") else "-"


def _rows() -> Iterator[tuple[str, ...]]:
    merged: dict[tuple[str, str], tuple[set[str], list[str], list[str]]] = {}
    codelets: dict[tuple[str, str], list[str]] = {}
    for row in op_table.ROWS:
        dtypes, order, notes = merged.setdefault((row.op, row.library), (set(), [], []))
        order += [d for d in row.dtypes if d not in dtypes]
        dtypes |= set(row.dtypes)
        ran = codelets.setdefault((row.op, row.library), [])
        ran += [d for d in op_table.codelet_types(row) if d not in ran]
        if row.note and row.note not in notes:
            notes.append(row.note)
    for (op, library), (_, order, notes) in merged.items():
        software = type_names([d for d in order if d not in NATIVE])
        moves = library in ("a view", "nothing") or library.startswith("poplar::")
        vertices = _vertices(library, codelets[op, library])
        yield op, library, type_names(order), "-" if moves or not software else software, vertices, "; ".join(notes)
    for op, (where, how) in op_table.ELSEWHERE.items():
        yield op, how, "those of StableHLO", "-", "-", f"tested in {where}"


def document() -> str:
    """Returns the text of the file."""
    native = ", ".join(sorted(NATIVE))
    groups = "; ".join(f"*{name}* {', '.join(members)}" for name, members in GROUPS[2:])
    groups = f"*all types* everything below; *numbers* real and complex; {groups}"
    lines = [HEADER.format(native=native, groups=groups), "## Supported", ""]
    lines += ["| op | function | types | in software | vertices | notes |", "|---|---|---|---|---|---|"]
    for op, library, types, software, vertices, notes in sorted(_rows()):
        function = f"`{library}`" if "::" in library else library
        lines.append(f"| {op} | {function} | {types} | {software} | {vertices} | {notes} |")
    lines += ["", "## Refused", "", "With UNIMPLEMENTED, the types, the shapes and the source line.", ""]
    lines += ["| op | what to do instead |", "|---|---|"]
    covered = {row.op for row in op_table.ROWS} | set(op_table.ELSEWHERE) | set(op_table.COLLECTIVES)
    lines += [f"| {op} | {advice} |" for op, advice in sorted(ALTERNATIVES.items()) if op not in covered]
    lines += ["", "Collectives run where the program is for one device: " + ", ".join(op_table.COLLECTIVES) + "."]
    moved = type_names(op_table.CODELETS["gcl::collective"])
    lines += [
        f"Between IPUs the model runs them as `gcl::collective`, and as codelets as copies between replicas: {moved}."
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Runs the command. Returns 1 if the file is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args(argv).check:
        stale = not DOCUMENT.exists() or DOCUMENT.read_text() != document()
        if stale:
            print("docs/op_support.md is stale: run python tools/op_support.py")
        return int(stale)
    DOCUMENT.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
