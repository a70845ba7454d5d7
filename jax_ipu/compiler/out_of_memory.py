"""Why a program does not fit: what the fullest tile needs at its peak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler.capacity import TooLarge
from jax_ipu.compiler.ir import Module, Value, size_in_bytes
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.types import Shape


class Tensor(NamedTuple):
    """A tensor with a part on the fullest tile."""

    shape: Shape
    dtype: str
    bytes_on_tile: float
    lasting: bool  # keeps its contents between calls


class Need(NamedTuple):
    """The memory that the fullest tile needs, in bytes.

    `planned`: operations were planned, so that temporaries and code are known; otherwise only tensors are. `even`: what
    all tensors need where they are spread evenly over the tiles.
    """

    limit: int
    tensors: list[Tensor]
    working: float  # temporaries and exchange buffers of the running operation
    fixed: float  # constants, vertex state and code
    planned: bool
    even: float

    @property
    def total(self) -> float:
        return sum(t.bytes_on_tile for t in self.tensors) + self.working + self.fixed

    @staticmethod
    def of(error: _ipu.OutOfMemory, target: _ipu.Target) -> Need:
        peak = error.report.peak
        tensors = [Tensor(t.shape, t.dtype, t.bytes_on_tile, t.lasting) for t in peak.tensors if t.role == "variable"]
        fixed = peak.constants + peak.vertex_state + peak.code
        working = peak.temporaries + peak.exchange_buffers
        even = error.report.peak_variable_bytes / target.num_tiles
        return Need(target.bytes_per_tile, tensors, working, fixed, not peak.variables_only, even)

    @staticmethod
    def of_values(values: Iterable[Value], lasting: frozenset[Value], target: _ipu.Target) -> Need:
        """The need of values that exist at the same time, spread evenly over the tiles."""
        tiles = target.num_tiles
        tensors = [Tensor(v.shape, v.dtype, size_in_bytes(v) / tiles, v in lasting) for v in values]
        return Need(target.bytes_per_tile, tensors, 0, 0, False, sum(t.bytes_on_tile for t in tensors))


def lacks_code(error: _ipu.OutOfMemory, target: _ipu.Target) -> bool:
    """Whether all fits but the code, which must be in the first part of each tile's memory."""
    report = error.report
    return report.peak.code > target.code_bytes_per_tile and report.max_tile_bytes <= target.bytes_per_tile


class NoFit(Exception):
    """No way to compile a program fits.

    Attributes:
        error: of the attempt that was nearest, for the user.
        need: what that attempt needs.
        module, signature: what it was made of.
    """

    def __init__(self, error: _ipu.OutOfMemory | TooLarge, need: Need, module: Module, signature: Signature) -> None:
        super().__init__(str(error))
        self.error = error
        self.need = need
        self.module = module
        self.signature = signature
