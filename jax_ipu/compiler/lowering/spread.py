"""Chooses the tile mapping of large values that are sliced, and over which other ops go as a whole.

A slice at a computed position is cheapest where the tiles that hold a row hold the same part of all rows: often a small
part of the tiles, on which all other ops take longer. The ops are tried with that mapping and spread over all tiles.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.lowering.rivals import cycles_of, cycles_of_lookup, lower_alone
from jax_ipu.compiler.mapping import UPDATES, Demand, MappingPlan, Slices

# The most ops of a kind that are tried: those that run most often.
_MOST = 24


def settle(mapping: MappingPlan, trial: Callable[[], Context]) -> None:
    """Leaves out the demands of slices that cost more than they save; arguments as of `rivals.settle`."""
    for slices in mapping.slices:
        if slices.keys.isdisjoint(mapping.preferred) and _Trials(mapping, slices, trial).is_spread():
            mapping.preferred.update(dict.fromkeys(slices.keys))


class _Trials:
    def __init__(self, mapping: MappingPlan, slices: Slices, trial: Callable[[], Context]) -> None:
        self._mapping, self._slices, self._trial = mapping, slices, trial

    def is_spread(self) -> bool:
        """Whether all ops cost less together where the values are spread."""
        passes, lookups = (_most(ops) for ops in (self._slices.passes, self._slices.lookups))
        as_demanded = sum(times * self._cycles_of_pass(op, self._demand) for op, times in passes)
        spread = sum(times * self._cycles_of_pass(op, lambda value: None) for op, times in passes)
        if spread >= as_demanded:
            return False
        as_demanded += sum(
            times * cycles_of_lookup(self._trial(), self._demand(op.operands[0]), op) for op, times in lookups
        )
        spread += sum(times * cycles_of_lookup(self._trial(), None, op) for op, times in lookups)
        return spread < as_demanded

    def _demand(self, value: Value) -> Demand | None:
        while value.op is not None and value.op.name in UPDATES:  # lies as what it updates
            value = value.op.operands[value.index]
        demand = self._mapping.demands.get(value)
        return demand if demand is not None and demand.key() in self._slices.keys else None

    def _cycles_of_pass(self, op: Op, demand_of: Callable[[Value], Demand | None]) -> int:
        context = self._trial()
        demands = {value: demand for value in op.results if (demand := demand_of(value)) is not None}
        context.mapping = MappingPlan(demands, {}, {}, {}, [])
        lower_alone(context, op, demand_of)
        return cycles_of(context)


def _most(ops: dict[Op, int]) -> list[tuple[Op, int]]:
    return heapq.nlargest(_MOST, ops.items(), key=lambda item: item[1])
