"""Compiles traced models with the plans that the settings of a manager allow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.estimates import compilation_of
from jax_ipu.models import plans, training
from jax_ipu.models.compiled import CompiledModel, compile_for_target, compile_on_devices, program_for_target
from jax_ipu.models.devices import target_name
from jax_ipu.models.plans import Plan
from jax_ipu.models.search import CompiledPlan, Search
from jax_ipu.models.traced_model import TracedModel


class Planner(NamedTuple):
    """The settings of a manager, and what they make of a traced model; `devices` is None where nothing will run."""

    num_ipus: int
    precision: str
    memory_proportion: float
    half_partials: bool
    devices: Sequence[Any] | None

    def plan(self, distribution: str, count: int) -> Plan:
        return Plan(self.memory_proportion, self.half_partials, distribution=distribution, num_ipus=count)

    def plans_of(self, traced: TracedModel, alone: bool = False) -> list[Plan]:
        """One plan for each distribution over the IPUs; `alone` adds one IPU without the others."""
        found = list(plans.distributions(traced, self.num_ipus))
        if alone and self.num_ipus > 1:
            found.append(("none", 1))
        return [self.plan(*distribution) for distribution in found]

    def compile(self, traced: TracedModel, plan: Plan, step: Callable[..., Any] | None = None) -> CompiledPlan:
        step = step or plans.step_of(traced)
        if self.devices is None:
            data, cost = compile_for_target(traced, plan, target_name(), step)
            return CompiledPlan(plan, cost, None, data)
        placed, cost = compile_on_devices(traced, plan, self.devices, target_name(), step)
        return CompiledPlan(plan, cost, placed)

    def first_that_fits(self, traced: TracedModel) -> CompiledPlan:
        """Splits the batch over the IPUs if it divides evenly and fits, else the weights."""
        *others, last = self.plans_of(traced)
        for plan in others:
            try:
                return self.compile(traced, plan)
            except RuntimeError as error:
                if not plans.is_out_of_memory(error):
                    raise
        return self.compile(traced, last)

    def compilation(self, traced: TracedModel) -> Compilation:
        """A detailed compilation with the plan of `first_that_fits`; the last where nothing fits."""
        for plan in self.plans_of(traced):
            program = program_for_target(traced, plan, plans.step_of(traced))
            compilation = compilation_of(*program, target_name(), detailed=True)
            if compilation.error is None:
                break
        return compilation

    def search(
        self, traced: TracedModel, counts: Callable[[], Sequence[int]], trace_rows: Callable[[Any], TracedModel]
    ) -> Search:
        """Tries the plans of an inference.

        Args:
            traced: the model.
            counts: gives the numbers of batch slices to try if nothing fits.
            trace_rows: traces the model for the inputs of one slice.
        """
        pieces = {1: traced}
        search = Search(lambda plan: self.compile(pieces[plan.batch_slices], plan))
        # The manager's settings come first: another plan must be faster to be chosen.
        proportions = [self.memory_proportion, *(p for p in plans.PROPORTIONS if p != self.memory_proportion)]
        for base in self.plans_of(traced, alone=True):
            search.try_all(base._replace(memory_proportion=p) for p in proportions)
        for number in counts() if search.nothing_fits else ():
            pieces[number] = plans.sliced(traced, trace_rows(plans.example_slice(traced, number)))
            search.try_all(
                base._replace(batch_slices=number)
                for base in self.plans_of(traced, alone=True)
                if base.distribution != "batch"
            )
            if not search.nothing_fits:
                break
        return search

    def model(self, traced: TracedModel, compiled: CompiledPlan) -> CompiledModel:
        return CompiledModel(*self._model_fields(traced, compiled))

    def training_step(
        self,
        trainer: training.Trainer,
        optimize: bool,
        otherwise: Callable[[Search], training.TrainingStep | None],
    ) -> training.TrainingStep:
        """Tries the plans of a training step.

        Args:
            trainer: the step.
            optimize: whether to try more than what fits first.
            otherwise: makes a step in another way after a search that found no good plan, or returns None.
        """
        assert self.devices is not None
        moments = trainer.initial_state(self.devices[0])
        step_of = functools.cache(lambda recompute: trainer.step(moments, recompute))
        traced = step_of("nothing").traced
        search = Search(lambda plan: self.compile(traced, plan, step_of(plan.recompute).step))
        for base in self.plans_of(traced):
            search.try_all([base])
            if optimize or search.nothing_fits:
                search.try_all(base._replace(recompute=recompute) for recompute in training.RECOMPUTE)
            if optimize:
                best = search.best().plan if not search.nothing_fits else base
                search.try_all(best._replace(memory_proportion=p) for p in plans.PROPORTIONS)
            if not search.nothing_fits:
                break
        if self.num_ipus > 1 and (search.nothing_fits or (optimize and search.best().plan.distribution == "weights")):
            other = otherwise(search)
            if other is not None:
                return other
        chosen = search.best()
        step = training.TrainingStep(*self._model_fields(traced, chosen))
        step.batches = trainer.batches
        step.weights_of = step_of(chosen.plan.recompute).weights_of
        step.report = search.report(self.plan("none", 1)) if optimize else ""
        return step

    def _model_fields(self, traced: TracedModel, compiled: CompiledPlan) -> tuple[Any, ...]:
        """The arguments of CompiledModel."""
        return (
            traced.kind,
            self.precision,
            target_name(),
            compiled.plan,
            compiled.cost,
            traced.signature,
            traced.weights,
            compiled.placed,
            compiled.data,
        )
