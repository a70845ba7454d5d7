"""Compares the IPU model's cycles with published measurements on Bow: python benchmarks/model_accuracy.py [BUILD]

The model's numbers come from its target table and from PopLibs' formulas. Each row has published and modelled cycles
and the residual in per cent (positive: the model is too slow). Prints the tables of docs/model_accuracy.md, where
sources and how the figures were read are told. With the folder of a build that has the C++ tests, also prints the
table of vertices against PopLibs' estimators: those tests compare over grids of sizes, and print a row for every
variant.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jax_ipu import _ipu

BOW_CLOCK = 1.85e9
TIMER_CYCLES = 45  # a pair of cycle counters adds this to a raw measurement (tessellate-ipu)

# f16 [N, 16] x [16, 16] on every tile, no exchange: N -> cycles. tessellate-ipu, "IPU Peak Flops" notebook.
AMP_CYCLES = {16: 402, 64: 584, 256: 1352, 512: 2381, 1024: 4424, 2048: 8525}

# f32 elementwise, one tile: elements -> raw cycles. tessellate-ipu tests and notebook "01-basics".
SCALED_ADD_CYCLES = {64: 375, 128: 467, 256: 665, 512: 1043}
ADD_CYCLES = {10: 330, 1024: 1860}

# f16 Y[m, n] = W[m, k] X[k, n], m = k, whole chip: (m, n) -> TFLOP/s, read off a plot (about 2 to 4 %).
# PopSparse, arXiv 2303.16999. Which operand the plan keeps in the AMP is not stated. Nor is the kind of partial
# sums, but with float ones no program can exceed 174 TFLOP/s (8 convolution units), so they are half.
DENSE_TFLOPS = {
    (1024, 4): 6.04,
    (1024, 16): 20.3,
    (1024, 64): 45.54,
    (1024, 256): 89.05,
    (1024, 1024): 120.08,
    (1024, 4096): 179.85,
    (1024, 16384): 223.08,
    (1024, 65536): 235.43,
    (4096, 4): 18.23,
    (4096, 16): 61.24,
    (4096, 64): 129.83,
    (4096, 256): 175.07,
    (4096, 1024): 208.56,
    (8192, 4): 21.54,
    (8192, 16): 72.18,
    (8192, 64): 157.19,
    (8192, 256): 223.08,
}


Instruction = tuple[str, str, str, int, int, int, int]  # of _ipu.Expression


class Row(NamedTuple):
    name: str
    published: float
    modelled: float

    @property
    def residual(self) -> float:
        """Returns the relative error of the model."""
        return self.modelled / self.published - 1


def product_cost(
    rows: int, depth: int, columns: int, num_tiles: int, partials: str, groups: int = 1
) -> dict[str, float]:
    """Returns the cost of a batch of f16 products whose operands have the mappings that the plan prefers."""
    graph = _ipu.Graph(_ipu.Target("bow", num_tiles))
    program = _ipu.Sequence("product")
    options = {"partialsType": partials}
    shapes = ([groups, rows, depth], [groups, depth, columns])
    lhs = _ipu.create_mat_mul_grouped_input_lhs(graph, "f16", "f16", *shapes, "lhs", options)
    rhs = _ipu.create_mat_mul_grouped_input_rhs(graph, "f16", "f16", *shapes, "rhs", options)
    _ipu.mat_mul_grouped(graph, lhs, rhs, "f16", program, "product", options)
    return _ipu.compile_graph(graph, [program], "product").cost()


def elementwise_cost(elements: int, code: list[Instruction], output: int, *, scaled: bool) -> dict[str, float]:
    """Returns the cost of one f32 operation on one tile."""
    graph = _ipu.Graph(_ipu.Target("bow", 1))
    program = _ipu.Sequence("elementwise")
    tensors = [graph.add_variable("f32", [elements], name) for name in "ab"]
    for tensor in tensors:
        graph.map_linearly(tensor)
    constants = [("f32", b"\x00\x00\x00\x40")] if scaled else []
    expression = _ipu.Expression(["f32", "f32"], constants, code, [output])
    if scaled:  # PopLibs' scaled add is in place
        _ipu.map_in_place(graph, expression, tensors, program, "elementwise")
    else:
        _ipu.map(graph, expression, tensors, program, "elementwise")
    return _ipu.compile_graph(graph, [program], "elementwise").cost()


def amp_rows() -> list[Row]:
    # W X of [16, 16] and [16, N]: PopLibs keeps the rows of the left side in the AMP.
    return [
        Row(f"[{n},16]x[16,16] f16", cycles, product_cost(16, 16, n, 1, "half").compute_cycles)
        for n, cycles in AMP_CYCLES.items()
    ]


def batch_rows() -> list[Row]:
    # The same as one batch, the long side first and last.
    rows = []
    for n, cycles in AMP_CYCLES.items():
        for m, columns in dict.fromkeys([(n, 16), (16, n)]):
            cost = product_cost(m, 16, columns, 1472, "half", groups=1472)
            rows.append(Row(f"[1472,{m},16]x[1472,16,{columns}] f16", cycles, cost.compute_cycles))
    return rows


def elementwise_rows() -> list[Row]:
    add = [("add", "f32", "f32", 0, 1, 0, 0)]
    scaled_add = [("multiply", "f32", "f32", 1, 2, 0, 0), ("add", "f32", "f32", 0, 3, 0, 0)]
    rows = [
        Row(f"add f32 {n}", raw - TIMER_CYCLES, elementwise_cost(n, add, 2, scaled=False).compute_cycles)
        for n, raw in ADD_CYCLES.items()
    ]
    for n, raw in SCALED_ADD_CYCLES.items():
        cost = elementwise_cost(n, scaled_add, 4, scaled=True)
        rows.append(Row(f"scaled add f32 {n}", raw - TIMER_CYCLES, cost.compute_cycles))
    return rows


def dense_rows(partials: str = "half", *, transposed: bool = False) -> list[Row]:
    """Returns the rows of Y[m, n] = W[m, k] X[k, n], or of its transpose X' W', with X's columns in the AMP."""
    rows = []
    for (m, n), tflops in DENSE_TFLOPS.items():
        published = 2.0 * m * m * n / (tflops * 1e12) * BOW_CLOCK
        cost = product_cost(n, m, m, 1472, partials) if transposed else product_cost(m, m, n, 1472, partials)
        rows.append(Row(f"m=k={m} n={n} f16", published, cost.cycles))
    return rows


def median_error(rows: list[Row]) -> float:
    return statistics.median(abs(row.residual) for row in rows)


def largest_error(rows: list[Row]) -> float:
    return max(abs(row.residual) for row in rows)


def tables() -> dict[str, Callable[[], list[Row]]]:
    """Returns the tables of published figures by title."""
    return {
        "Inner loop of the matrix unit, one tile, cycles": amp_rows,
        "The same as a batch on all tiles, cycles": batch_rows,
        "Elementwise, one tile, cycles": elementwise_rows,
        "Dense matrix products, whole chip, cycles (half partials, W X)": dense_rows,
    }


def report(title: str, rows: list[Row]) -> None:
    print(f"\n### {title}\n\n| case | published | model | residual |\n|---|---:|---:|---:|")
    for row in rows:
        print(f"| {row.name} | {row.published:.0f} | {row.modelled:.0f} | {100 * row.residual:+.1f} % |")
    print(f"\nMedian error {100 * median_error(rows):.1f} %, largest {100 * largest_error(rows):.1f} %.")


def report_dense_variants() -> None:
    print("\n### The same, other readings of the source\n\n| partial sums | product | median error | residuals |")
    print("|---|---|---:|---:|")
    for partials in ("half", "float"):
        for transposed in (False, True):
            rows = dense_rows(partials, transposed=transposed)
            residuals = [row.residual for row in rows]
            spread = f"{100 * min(residuals):+.0f} to {100 * max(residuals):+.0f} %"
            product = "X' W'" if transposed else "W X"
            print(f"| {partials} | {product} | {100 * median_error(rows):.1f} % | {spread} |")


def report_vertices(build: Path) -> None:
    """Runs the C++ tests of the estimators and sums their rows by vertex."""
    print("\n### Vertices against PopLibs' estimators\n")
    print("| vertex | variants | sizes | cycles, ours | largest difference |\n|---|---|---:|---:|---:|")
    for test in sorted(build.glob("operations_*_cost_test")):
        environment = os.environ | {"MODEL_ACCURACY_TABLE": "1"}
        output = subprocess.run([test], env=environment, capture_output=True, text=True, check=True).stdout
        vertices: dict[str, list[list[str]]] = {}
        for line in output.splitlines():
            if line.startswith("| "):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                vertices.setdefault(cells[0].partition("<")[0], []).append(cells)
        for vertex, rows in vertices.items():
            ranges = [[int(end) for end in row[2].split(" to ")] for row in rows]
            least, most = min(low for low, _ in ranges), max(high for _, high in ranges)
            difference = max(float(row[3].rstrip(" %")) for row in rows)
            sizes = sum(int(row[1]) for row in rows)
            print(f"| `{vertex}` | {len(rows)} | {sizes} | {least} to {most} | {difference:.1f} % |")


def main() -> None:
    for title, rows in tables().items():
        report(title, rows())
    report_dense_variants()
    for build in sys.argv[1:]:
        report_vertices(Path(build))


if __name__ == "__main__":
    main()
