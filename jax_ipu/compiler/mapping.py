"""The tile-mapping pass: on which tiles arguments, constants and loop state are born."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax_ipu.compiler.ir import Module, Value

if TYPE_CHECKING:
    from jax_ipu import _ipu
    from jax_ipu.compiler.lowering.context import Context


class MappingPlan:
    """Value -> where it wants to live; values without an entry are mapped linearly."""

    def allocate(self, context: Context, value: Value, name: str) -> _ipu.Tensor | None:
        return None


def plan(module: Module, mode: str) -> MappingPlan:
    return MappingPlan()
