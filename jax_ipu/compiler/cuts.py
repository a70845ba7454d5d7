"""How to put a program on several IPUs: along which axis to cut each argument, and the words for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jax_ipu.compiler.ir import Value, size_in_bytes
from jax_ipu.compiler.types import Shape, type_text
from jax_ipu.compiler.variants.batch import Batch

# Smaller arguments (bytes) are not worth sharding.
_SMALL_BYTES = 64 * 1024
_LONG = 32  # a long axis has at least as many elements on each IPU
_NAMES_SHOWN = 4


@dataclass(frozen=True)
class Cuttable:
    """The arguments of a program that may be cut.

    Attributes:
        arguments: the position of each -> its value, of the whole program.
        names: the names of all arguments.
        batch: the batch of the program, if it has one.
    """

    arguments: dict[int, Value]
    names: list[str]
    batch: Batch | None

    def shapes(self) -> dict[int, Shape]:
        """The shape of each argument."""
        return {i: a.shape for i, a in self.arguments.items()}

    def cuts(self, parts: int) -> dict[int, int]:
        """The argument -> the axis along which to cut it into `parts`; large arguments, and those with a batch."""
        found = self._large(parts)
        if self.batch is not None and self.batch.size % parts == 0:
            found |= {i: axis for i, axis in self.batch.axes.items() if i in self.arguments}
        return found

    def _large(self, parts: int) -> dict[int, int]:
        rows = self.batch.axes if self.batch is not None else {}
        axes = {i: _axis(a, parts) for i, a in self.arguments.items() if i not in rows}
        return {i: axis for i, axis in axes.items() if axis >= 0}

    def large_text(self, parts: int) -> str:
        """The large arguments with their axes, those of several layers as one; "" where there is none."""
        groups: dict[tuple[str, int], list[int]] = {}
        large = self._large(parts)
        for i in sorted(large, key=lambda i: -size_in_bytes(self.arguments[i])):
            groups.setdefault((re.sub(r"\d+", "*", self.names[i]), large[i]), []).append(i)
        texts = []
        for (_, axis), members in groups.items():
            first = self.arguments[members[0]]
            name = _common_name([self.names[i] for i in members])
            texts.append(f"{name} ({type_text(first.shape, first.dtype)}) along axis {axis}")
        more = len(texts) - _NAMES_SHOWN
        shown = texts if more <= 0 else [*texts[:_NAMES_SHOWN], f"and {more} more, each along its first long axis"]
        return ", ".join(shown)

    def batch_names(self) -> str:
        """The names of the arguments that have the batch."""
        assert self.batch is not None
        names = [self.names[i] for i in self.batch.axes]
        return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")

    def text(self, parts: int) -> str:
        """The cuts in words."""
        text = f"{parts} IPUs (a jax.sharding.Mesh of {parts}, one axis)"
        if large := self.large_text(parts):
            text += f", with the large arguments cut over them: {large}"
        if self.batch is not None and self.batch.size % parts == 0:
            axes = sorted(set(self.batch.axes.values()))
            along = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
            text += f"{'; and' if large else ', with'} the batch ({self.batch_names()}) cut along {along}"
        return text


def _axis(value: Value, parts: int) -> int:
    """The axis along which to shard the value over `parts` IPUs; -1 where it should not be sharded.

    The first long axis that `parts` divides: gathered rows lie one after the other, while columns must be rearranged by
    code on every tile. Short axes are often layers or heads, which loops and slices index.
    """
    shape = value.shape
    if size_in_bytes(value) < _SMALL_BYTES:
        return -1
    divides = [d for d in range(len(shape)) if shape[d] and shape[d] % parts == 0]
    long = [d for d in divides if shape[d] >= _LONG * parts]
    return long[0] if long else max(divides, key=shape.__getitem__, default=-1)


def _common_name(names: list[str]) -> str:
    """The names as one, with "*" for the numbers in which they differ."""
    parts = [re.split(r"(\d+)", name) for name in names]
    return "".join(same[0] if len(set(same)) == 1 else "*" for same in zip(*parts, strict=True))
