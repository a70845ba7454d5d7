"""How far the IPU model may be off, by kind of operation: the errors that reports show beside their figures.

docs/model_accuracy.md has the comparisons with published measurements that these come from.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Accuracy(NamedTuple):
    """The expected relative error of the modelled cycles and bytes of some operations; None where it is not known.

    `applies_to`: kinds of operations. The entry without any is for all others.
    """

    kind: str
    applies_to: tuple[str, ...]
    cycles: float | None
    memory: float | None
    basis: str


ACCURACY = (
    Accuracy(
        "products",
        ("poplin::matMulGrouped",),
        0.11,
        None,
        "the worst of four median errors over published dense f16 products on the whole chip, one for each reading of "
        "the source; small products are a third too fast",
    ),
    Accuracy(
        "elementwise",
        ("popops::map", "popops::fill", "popops::iota", "poplar::copy"),
        0.11,
        None,
        "the median error over published f32 additions on one tile, all too fast; the largest is 29 %, for 10 elements",
    ),
    Accuracy(
        "convolutions",
        ("poplin::convolution",),
        None,
        None,
        "not compared with a measurement; vertices cost what PopLibs estimates, and the inner loop of the matrix unit "
        "is that of products, within 2 %",
    ),
    Accuracy(
        "others",
        (),
        None,
        None,
        "not compared with a measurement: reductions, lookups, sorting, linear algebra, the exchange alone, links",
    ),
    Accuracy(
        "memory",
        (),
        None,
        None,
        "variables that are never needed together are assumed to share memory without fragmentation; not compared with "
        "a measurement",
    ),
)


def as_rows() -> list[dict[str, Any]]:
    """The table as a report holds it."""
    return [{**entry._asdict(), "applies_to": list(entry.applies_to)} for entry in ACCURACY]
