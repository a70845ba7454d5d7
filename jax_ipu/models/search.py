"""The search for the plan of a model: candidates are compiled, and the one with the fewest cycles is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jax_ipu.models import plans
from jax_ipu.models.compiled import Placed
from jax_ipu.models.plans import Cost, Plan


class CompiledPlan(NamedTuple):
    """A plan and its result: `placed` on devices, or `data` when there is no device."""

    plan: Plan
    cost: Cost
    placed: Placed | None
    data: bytes = b""


class Search:
    """Compiles candidate plans and keeps the one with the fewest cycles; plans that do not fit are only counted."""

    def __init__(self, compile_plan: Callable[[Plan], CompiledPlan]) -> None:
        self._compile = compile_plan
        self._tried: dict[Plan, Cost | None] = {}
        self._best: CompiledPlan | None = None
        self._error: BaseException | None = None

    def try_all(self, candidates: Any) -> None:
        for plan in candidates:
            if plan in self._tried:
                continue
            try:
                compiled = self._compile(plan)
            except RuntimeError as error:
                if not plans.is_out_of_memory(error):
                    raise
                self._tried[plan], self._error = None, error
                continue
            self._tried[plan] = compiled.cost
            if self._best is None or compiled.cost < self._best.cost:
                self._best = compiled

    @property
    def nothing_fits(self) -> bool:
        return self._best is None

    def add_note(self, text: str) -> None:
        """Adds to the error that `best` raises when nothing fits."""
        if self._error is not None:
            self._error.add_note(text)

    def best(self) -> CompiledPlan:
        """Raises the last out-of-memory error when nothing fits."""
        if self._best is None:
            assert self._error is not None
            raise self._error
        return self._best

    def report(self, default: Plan) -> str:
        best = self.best()
        lines = [f"chosen: {best.plan}: {best.cost.cycles} cycles, {best.cost.fullest_tile_bytes} bytes on a tile"]
        before = self._tried.get(default)
        if before is None:
            lines.append(f"saves: it fits, which {default} does not")
        else:
            cycles, memory = before.cycles - best.cost.cycles, before.fullest_tile_bytes - best.cost.fullest_tile_bytes
            share = 100 * cycles / max(before.cycles, 1)
            lines.append(f"saves against {default}: {cycles} cycles ({share:.1f} %), {memory} bytes on a tile")
        for plan, cost in self._tried.items():
            text = f"{cost.cycles} cycles, {cost.fullest_tile_bytes} bytes on a tile" if cost else "does not fit"
            lines.append(f"tried: {plan}: {text}")
        return "\n".join(lines)
