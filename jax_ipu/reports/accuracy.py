"""How far the IPU model may be off, by kind of operation: the errors that reports show beside their figures.

docs/model_accuracy.md has the comparisons with published measurements that these come from.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Accuracy(NamedTuple):
    """The expected relative error of the modelled cycles and bytes of some operations; None where it is not known.

    `applies_to`: kinds of operations; the entry with neither these nor categories is for all others. `categories`:
    parts of the memory of a tile, as a report names them.
    """

    kind: str
    applies_to: tuple[str, ...]
    cycles: float | None
    memory: float | None
    basis: str
    categories: tuple[str, ...] = ()


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
        "memory of arrays",
        (),
        None,
        0.0,
        "a tile holds the elements that the tile mapping gives it, and the compiler sets that mapping: bytes follow "
        "from types and shapes; assumed is that arrays which are never needed together share memory without gaps",
        ("variables", "constants"),
    ),
    Accuracy(
        "memory of operations",
        (),
        None,
        None,
        "not compared with a compiled program: temporaries and buffers follow from the model's plans, vertex state "
        "from the fields of PopLibs' vertices",
        ("temporaries", "exchange_buffers", "vertex_state"),
    ),
    Accuracy(
        "memory of code",
        (),
        None,
        None,
        "not compared with a compiled program: instructions of codelets are estimated, those of an exchange are what "
        "another compiler emits for a C600, and 8 KiB a tile for Poplar's runtime are an assumption",
        ("code",),
    ),
)


def as_rows() -> list[dict[str, Any]]:
    """The table as a report holds it."""
    return [
        {**entry._asdict(), "applies_to": list(entry.applies_to), "categories": list(entry.categories)}
        for entry in ACCURACY
    ]
