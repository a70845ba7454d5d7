"""Where operations come from: the user's files, call stacks, and places in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.location import Frame, operation_path, user_line
from jax_ipu.compiler.types import Shape
from jax_ipu.compiler.user_shapes import same_but_ones
from jax_ipu.reports.layers import NOWHERE, Place, place_of

# Longer files of the user are not part of a report.
_MOST_LINES = 2000


class Sources:
    """Where operations come from, and the user's files, in the order in which operations mention them."""

    def __init__(self, origins: Sequence[Op], reads: Mapping[Op, str]) -> None:
        """`origins`: the op that each origin in a profile stands for, counted from 1; `reads`: see `Place`."""
        self._origins, self._reads = origins, reads
        self._paths: dict[str, int] = {}
        self._known: dict[int, tuple[int | None, int | None]] = {0: (None, None)}
        self._places: dict[int, Place] = {0: NOWHERE}
        self._frames: dict[Frame, int] = {}

    def of(self, origin: int) -> tuple[int | None, int | None]:
        """The file and the line of an origin."""
        known = self._known.get(origin)
        if known is None:
            found = user_line(self._origins[origin - 1].location)
            known = None, None
            if found is not None:
                known = self._paths.setdefault(found.path, len(self._paths)), found.line
            self._known[origin] = known
        return known

    def scope(self, origin: int) -> str:
        """JAX's name stack at an origin."""
        return operation_path(self._origins[origin - 1].location) if origin else ""

    def place(self, origin: int) -> Place:
        """Where in the user's model an origin is."""
        if origin not in self._places:
            op = self._origins[origin - 1]
            self._places[origin] = place_of(op, self._reads.get(op, ""))
        return self._places[origin]

    def stack(self, origin: int) -> list[int]:
        """The call stack of an origin, the innermost call first, as numbers of `frames`."""
        return [self._frames.setdefault(frame, len(self._frames)) for frame in self.place(origin).stack]

    def frames(self) -> list[dict[str, Any]]:
        """The calls that stacks consist of."""
        return [
            {
                "path": frame.file if frame.library else frame.path,
                "line": frame.line,
                "function": frame.function,
                "library": frame.library,
            }
            for frame in self._frames
        ]

    def shape_like(self, origin: int, shape: Shape) -> Shape:
        """The shape that the user's program has for the result which is stored with `shape`."""
        results = self._origins[origin - 1].results if origin else ()
        return next((r.shape for r in results if same_but_ones(r.shape, shape)), shape)

    def as_list(self) -> list[dict[str, Any]]:
        """The files with their lines."""
        return [{"path": path, "lines": _lines(path)} for path in self._paths]


def _lines(path: str) -> list[str] | None:
    """The text of a file; None where it cannot be read or is long."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return lines if len(lines) <= _MOST_LINES else None
