"""How far the IPU model may be off, by kind of operation: the errors that estimates and reports show beside figures.

docs/model_accuracy.md has the comparisons, with published measurements and with PopLibs, that these come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MEASURED, POPLIBS, CONSTRUCTION, UNKNOWN = "measured", "PopLibs", "by construction", "unknown"


class Accuracy(NamedTuple):
    """The expected relative error of the modelled cycles and bytes of some operations; None where it is not known.

    `applies_to`: kinds of operations; the entry with neither these nor categories is for all others. `categories`:
    parts of the memory of a tile, as a report names them. `source`: what it is compared with: published measurements,
    PopLibs' own estimates of what PopLibs would do, or nothing else because it follows from the program.
    """

    kind: str
    applies_to: tuple[str, ...]
    cycles: float | None
    memory: float | None
    source: str
    basis: str
    categories: tuple[str, ...] = ()


ACCURACY = (
    Accuracy(
        "products",
        ("poplin::matMulGrouped",),
        0.11,
        None,
        MEASURED,
        "the larger of two median errors over published dense f16 products on the whole chip, with half partial sums "
        "and either operand in the matrix unit, as the source names neither; small ones are up to a quarter too fast",
    ),
    Accuracy(
        "elementwise",
        ("popops::map", "popops::fill", "popops::iota", "poplar::copy"),
        0.11,
        None,
        MEASURED,
        "the median error over published f32 additions on one tile, all too fast; the largest is 29 %, for 10 elements",
    ),
    Accuracy(
        "convolutions",
        ("poplin::convolution",),
        0.11,
        None,
        POPLIBS,
        "the larger of two medians: 8 % from what PopLibs' planner expects of its own plans of 34 convolutions, 14 of "
        "them with little memory, 11 % from PopLibs' programs on the model's tiles, which take 1.0 to 1.4 times as "
        "long, with one input channel up to 2.3. "
        "Not measured on a chip, but the inner loop of the matrix unit is that of products, within 2 %",
    ),
    Accuracy(
        "reductions",
        ("popops::reduce",),
        0.24,
        None,
        POPLIBS,
        "the median difference from PopLibs' plans and vertices for 24 sums, means and variances on the model's tiles: "
        "0.5 to 1.2 of their cycles",
    ),
    Accuracy(
        "slices",
        ("popops::dynamicSlice", "popops::dynamicUpdate"),
        0.21,
        None,
        POPLIBS,
        "the median difference from PopLibs' plans and vertices for six slices and updates at positions of run time, "
        "mostly 0.8 to 0.9 of their cycles",
    ),
    Accuracy(
        "windows",
        ("hlo::reduceWindow",),
        0.11,
        None,
        POPLIBS,
        "the median difference from PopLibs' plans and vertices for four sums over windows: 0.9 to 1.5 of their cycles",
    ),
    Accuracy(
        "vertices of PopLibs",
        ("hlo::selectAndScatter", "poplin::cholesky", "poplin::triangularSolve"),
        0.10,
        None,
        POPLIBS,
        "the vertices cost what PopLibs' estimators say, within 0.4 %, and Graphcore's own tests hold these to 10 % of "
        "its simulator; the exchange is compared with nothing",
    ),
    Accuracy(
        "others",
        (),
        None,
        None,
        UNKNOWN,
        "no comparison: random bits, other decompositions, Fourier transforms, links between IPUs. Lookups and sorts: "
        "PopLibs' own programs take 12 to 50 times as many cycles on the model's tiles, which no band can state",
    ),
    Accuracy(
        "memory of arrays",
        (),
        None,
        0.0,
        CONSTRUCTION,
        "a tile holds the elements that the tile mapping gives it, and the compiler sets that mapping: bytes follow "
        "from types and shapes; assumed is that arrays which are never needed together share memory without gaps",
        ("variables", "constants"),
    ),
    Accuracy(
        "memory of operations",
        (),
        None,
        0.30,
        POPLIBS,
        "the larger of two medians: 20 % from the temporary bytes of PopLibs' plans of convolutions, 30 % from the "
        "buffers of its other operations on the model's tiles",
        ("temporaries", "exchange_buffers"),
    ),
    Accuracy(
        "memory of vertices",
        (),
        None,
        0.17,
        POPLIBS,
        "the median difference from the fields of PopLibs' own vertices on the model's tiles, where a plan often has "
        "another number of them",
        ("vertex_state",),
    ),
    Accuracy(
        "memory of code",
        (),
        None,
        None,
        UNKNOWN,
        "not compared with a compiled program: instructions of codelets are estimated, those of an exchange are what "
        "another compiler emits for a C600, and 8 KiB a tile for Poplar's runtime are an assumption",
        ("code",),
    ),
)


class Band(NamedTuple):
    """The expected relative error of a sum, and the share of the sum for which one is known."""

    error: float | None
    known: float

    def __str__(self) -> str:
        if self.error is None or self.known < 0.005:  # of 0 % nothing can be said
            return "unknown"
        part = "" if self.known > 0.995 else f" for {100 * self.known:.0f} % of it"
        return f"{100 * self.error:.0f} %{part}"


def cycles_band(cycles: Iterable[tuple[str, int]]) -> Band:
    """Of the cycles of a program, given those of each operation with its kind.

    Examples:
        >>> print(cycles_band([("popops::map", 300), ("hlo::fft", 100)]))
        11 % for 75 % of it
    """
    errors = {kind: entry.cycles for entry in ACCURACY for kind in entry.applies_to}
    return _band((number, errors.get(kind)) for kind, number in cycles)


def memory_band(parts: Mapping[str, int]) -> Band:
    """Of the bytes on a tile, given those of each part of its memory.

    Examples:
        >>> print(memory_band({"variables": 300, "code": 100}))
        0 % for 75 % of it
    """
    errors = {part: entry.memory for entry in ACCURACY for part in entry.categories}
    return _band((number, errors.get(part)) for part, number in parts.items())


def _band(figures: Iterable[tuple[int, float | None]]) -> Band:
    whole = known = off = 0.0
    for number, error in figures:
        whole += number
        if error is not None:
            known += number
            off += error * number
    return Band(off / known if known else None, known / whole if whole else 0.0)


def as_rows() -> list[dict[str, Any]]:
    """The table as a report holds it."""
    return [
        {**entry._asdict(), "applies_to": list(entry.applies_to), "categories": list(entry.categories)}
        for entry in ACCURACY
    ]
