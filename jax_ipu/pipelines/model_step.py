"""A training step of ``GraphCoreManager`` whose model is cut into stages, each on an IPU of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jax_ipu import _ipu
from jax_ipu.config import config
from jax_ipu.models.plans import Cost, Plan
from jax_ipu.models.training import Trainer, TrainingStep
from jax_ipu.pipelines.splitting import split_into_stages
from jax_ipu.pipelines.training import Pipeline, PipelineState, pipeline


class StagedTrainingStep(TrainingStep):
    """What ``compile_training_step`` returns where a model fits only in stages; it is used as any training step.

    It cannot be saved. Its cost is that of one step by the estimates of the stages.

    Examples:
        >>> from jax_ipu.pipelines.model_step import StagedTrainingStep
        >>> from jax_ipu.models.training import TrainingStep
        >>> issubclass(StagedTrainingStep, TrainingStep)
        True
    """

    def __init__(
        self, trainer: Trainer, plan: Plan, target: str, precision: str, micro_batches: int, devices: Sequence[Any]
    ) -> None:
        """Cuts the model, and checks that every stage fits by its estimates.

        Raises ValueError: the model cannot be trained in stages, or a stage does not fit.
        """
        loss = trainer.as_loss()
        self._trainer, self.batches = trainer, trainer.batches
        inputs, targets = trainer.micro_batch()
        optimizer = trainer.narrow_optimizer()
        with trainer.types():
            self._stages = split_into_stages(
                loss, trainer.learned, inputs, *targets, count=plan.num_ipus, optimizer=optimizer
            )
            pipe = pipeline(
                self._stages.functions,
                devices=devices,
                optimizer=optimizer,
                gradient_accumulation=micro_batches,
                compiler_options=plan.compiler_options(),
            )
            batch = trainer.micro_batch(trainer.signature(np.float32).inputs)
            weights = self._stages.weights
            timeline = pipe.timeline(weights, batch[0], *batch[1])
            fullest = pipe.fullest_tile_bytes(weights, batch[0], *batch[1])
            self._state: PipelineState | None = pipe.init(weights)
        self._pipeline: Pipeline | None = pipe
        clock = _ipu.Target(config.model_version, config.model_num_tiles).tile_clock_frequency
        cost = Cost(round(timeline.whole * clock), fullest)
        super().__init__(trainer.kind, precision, target, plan, cost, trainer.signature(np.float32), [], None)
        self.report = f"{self._stages}\n{timeline}"

    def _step(self, inputs: list[Any]) -> list[Any]:
        with self._lock:
            self._check()
            assert self._state is not None and self._pipeline is not None
            arguments, targets = self._trainer.micro_batch(inputs)
            with self._trainer.types():
                self._state, loss = self._pipeline.step(self._state, arguments, *targets)
        return [loss]

    def weights(self) -> Any:
        """Returns the current weights as NumPy arrays in the structure of the model's weights."""
        with self._lock:
            self._check()
            assert self._state is not None
            learned = self._stages.join(self._state.params)
            return self._trainer.weights_of([np.array(w) for w in learned])

    def save(self, path: str | Path) -> None:
        """Raises ValueError: a model in stages is several programs, which have no file."""
        raise ValueError(
            f"a model in {len(self._stages.functions)} stages cannot be saved as an executable: save its weights(), "
            "and compile it again with them"
        )

    @property
    def distribution(self) -> list[str]:
        """A description for each IPU of the part of the model that it holds."""
        return [] if self._state is None else str(self._stages).splitlines()

    def release(self) -> None:
        """Frees the memory on the IPUs; the model cannot be trained afterwards."""
        with self._lock:
            for array in jax.tree.leaves(self._state):
                array.delete()
            self._state, self._pipeline, self._released = None, None, True
