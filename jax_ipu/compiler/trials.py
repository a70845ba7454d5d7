"""Compiles variants of a program that does not fit, to find those that do, within a bound of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum

from jax_ipu import _ipu
from jax_ipu.compiler.errors import CANCELLED, RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.fit import compile_to_fit
from jax_ipu.compiler.frontend.programs import LegalProgram, ParsedProgram
from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.out_of_memory import NoFit
from jax_ipu.compiler.pipeline import Change
from jax_ipu.compiler.progress import Progress, Trial
from jax_ipu.compiler.types import Shape
from jax_ipu.compiler.variants.checkpoint import NoParts
from jax_ipu.compiler.variants.half_precision import NoHalf
from jax_ipu.compiler.variants.sharded import NotCut, sharded
from jax_ipu.compiler.variants.spread import Fixed


class Outcome(Enum):
    """How a trial ended; UNKNOWN: there was no time for it, or no such variant can be made."""

    FITS = 1
    TOO_LARGE = 2
    UNKNOWN = 3


class Trials:
    """Trials of one program. They share the plans of operations, which are dropped with this object."""

    def __init__(
        self,
        parsed: ParsedProgram,
        legal: LegalProgram,
        settings: Options,
        target: _ipu.Target,
        progress: Progress,
    ) -> None:
        """`parsed` and `legal` stay as they are; `settings.advice_seconds` is the bound for all trials together."""
        self._parsed = parsed
        self._legal = legal
        self._settings = settings
        self._target = target
        self._progress = progress
        self._deadline = time.perf_counter() + settings.advice_seconds
        self._plans = _ipu.TilePlanCache(False)
        self._sharded: dict[int, LegalProgram] = {}
        self.any = False  # whether any trial has come to an end

    @property
    def has_time(self) -> bool:
        """Whether the bound is not reached."""
        return time.perf_counter() < self._deadline

    def compile(self, what: str, *changes: Change, num_tiles: int | None = None) -> Outcome:
        """Compiles the program with these changes; `num_tiles`: for a target with other tiles."""
        target = self._target if num_tiles is None else _ipu.Target(self._target.version, num_tiles)
        plans = self._plans if num_tiles is None else _ipu.TilePlanCache(False)
        return self._guarded(what, lambda trial: self._compile(self._legal, changes, target, plans, trial))

    def compile_sharded(
        self, what: str, num_ipus: int, cuts: Mapping[int, int], shapes: Mapping[int, Shape], *changes: Change
    ) -> Outcome:
        """Compiles the program over several IPUs, arguments as for `sharded`; the changes are of the part of one."""

        def run(trial: Trial) -> Outcome:
            program = self._sharded.get(num_ipus)
            if program is None:
                program = self._sharded[num_ipus] = sharded(self._parsed, num_ipus, cuts, shapes)
            return self._compile(program, changes, self._target, self._plans, trial)

        return self._guarded(what, run)

    def _guarded(self, what: str, run: Callable[[Trial], Outcome]) -> Outcome:
        if not self.has_time:
            return Outcome.UNKNOWN
        try:
            with _ipu.Deadline(self._deadline - time.perf_counter()):
                outcome = run(Trial(self._progress, what, self._deadline))
        except (_ipu.OutOfTime, NoHalf, NoParts, NotCut, Fixed):
            return Outcome.UNKNOWN
        except CompileError as error:
            if error.code == CANCELLED:
                raise
            if error.code != RESOURCE_EXHAUSTED:
                return Outcome.UNKNOWN  # the variant is something that IPU does not support
            outcome = Outcome.TOO_LARGE
        self.any = True
        return outcome

    def _compile(
        self,
        program: LegalProgram,
        changes: tuple[Change, ...],
        target: _ipu.Target,
        plans: _ipu.TilePlanCache,
        trial: Trial,
    ) -> Outcome:
        made: list[Module] = []

        def change(module: Module) -> None:
            made.append(module)
            trial.check()
            for one in changes:
                one(module)

        try:
            compile_to_fit(program, self._settings, target, trial, plans, change)
            return Outcome.FITS
        except NoFit:
            return Outcome.TOO_LARGE
        finally:
            # The collector is paused while a program compiles.
            for module in made:
                module.release()
