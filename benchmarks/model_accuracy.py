"""Compares the IPU model's cycles with published measurements on Bow: python benchmarks/model_accuracy.py

Nothing is fitted here: the model's numbers come from its target table. Each row prints published and modelled cycles
and their ratio (above 1: the model is too slow). Sources and how the figures were read are in docs/model_accuracy.md.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

from jax_ipu import _ipu

BOW_CLOCK = 1.85e9
TIMER_CYCLES = 45  # what a pair of cycle counters adds to a raw measurement (tessellate-ipu)

# f16 [N, 16] x [16, 16] on every tile, no exchange: N -> cycles. tessellate-ipu, "IPU Peak Flops" notebook.
AMP_CYCLES = {16: 402, 64: 584, 256: 1352, 512: 2381, 1024: 4424, 2048: 8525}

# f32 elementwise, one tile: elements -> raw cycles. tessellate-ipu tests and notebook "01-basics".
SCALED_ADD_CYCLES = {64: 375, 128: 467, 256: 665, 512: 1043}
ADD_CYCLES = {10: 330, 1024: 1860}

# f16 Y[m, n] = W[m, k] X[k, n], m = k, whole chip: (m, n) -> TFLOP/s, read off a plot (about 2 to 4 %).
# PopSparse, arXiv 2303.16999. The best exceeds what float partials allow, so half partials are compared.
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


class Row(NamedTuple):
    name: str
    published: float
    modelled: float

    @property
    def ratio(self) -> float:
        return self.modelled / self.published


def product_cost(rows: int, depth: int, columns: int, num_tiles: int, partials: str) -> dict:
    """Cost of one f16 product whose operands lie as its plan likes them."""
    graph = _ipu.Graph(_ipu.Target("bow", num_tiles))
    program = _ipu.Sequence("product")
    options = {"partialsType": partials}
    shapes = ([1, rows, depth], [1, depth, columns])
    lhs = _ipu.create_mat_mul_grouped_input_lhs(graph, "f16", "f16", *shapes, "lhs", options)
    rhs = _ipu.create_mat_mul_grouped_input_rhs(graph, "f16", "f16", *shapes, "rhs", options)
    _ipu.mat_mul_grouped(graph, lhs, rhs, "f16", program, "product", options)
    return _ipu.compile_graph(graph, [program], "product").cost()


def elementwise_cost(elements: int, code: list[tuple], output: int, *, scaled: bool) -> dict:
    """Cost of one f32 operation on one tile."""
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
    return [
        Row(f"AMP [{n},16]x[16,16] f16", cycles, product_cost(n, 16, 16, 1, "half")["compute_cycles"])
        for n, cycles in AMP_CYCLES.items()
    ]


def elementwise_rows() -> list[Row]:
    add = [("add", "f32", "f32", 0, 1, 0, 0)]
    scaled_add = [("multiply", "f32", "f32", 1, 2, 0, 0), ("add", "f32", "f32", 0, 3, 0, 0)]
    rows = [
        Row(f"add f32 {n}", raw - TIMER_CYCLES, elementwise_cost(n, add, 2, scaled=False)["compute_cycles"])
        for n, raw in ADD_CYCLES.items()
    ]
    for n, raw in SCALED_ADD_CYCLES.items():
        cost = elementwise_cost(n, scaled_add, 4, scaled=True)
        rows.append(Row(f"scaled add f32 {n}", raw - TIMER_CYCLES, cost["compute_cycles"]))
    return rows


def dense_rows() -> list[Row]:
    rows = []
    for (m, n), tflops in DENSE_TFLOPS.items():
        published = 2.0 * m * m * n / (tflops * 1e12) * BOW_CLOCK
        rows.append(Row(f"dense f16 m=k={m} n={n}", published, product_cost(m, m, n, 1472, "half")["cycles"]))
    return rows


def report(title: str, rows: list[Row]) -> None:
    print(f"\n{title}\n{'':32} {'published':>12} {'modelled':>12} {'ratio':>7}")
    for row in rows:
        print(f"{row.name:32} {row.published:12.0f} {row.modelled:12.0f} {row.ratio:7.2f}")
    errors = [abs(row.ratio - 1) for row in rows]
    print(f"median error {100 * statistics.median(errors):.0f} %, largest {100 * max(errors):.0f} %")


def main() -> None:
    report("Inner loop of the matrix unit, one tile", amp_rows())
    report("Elementwise, one tile", elementwise_rows())
    report("Dense matrix products, whole chip", dense_rows())


if __name__ == "__main__":
    main()
