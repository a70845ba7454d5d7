"""The types of a row of the model table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# One call of a model, or one training step: returns its results as a pytree of arrays.
Step = Callable[[], Any]


class Case(NamedTuple):
    """A model with example data, on the IPU model and on its framework's own CPU.

    Each function compiles and returns a step. Steps take no arguments; a training step continues with the weights of
    the previous step and returns the loss. Both sides begin with the same weights and data.
    """

    ipu: Callable[[], Step]
    cpu: Callable[[], Step]
    exact: Callable[[], Step] | None = None  # on the CPU in a wider type, where rounding alone changes the results much


class Row(NamedTuple):
    """A model that must fit and agree with its framework's own CPU."""

    model: str  # "GPT-2 small, 1 x 128"
    framework: str  # "JAX", "PyTorch", "Hugging Face", "Keras", "ONNX", "flax"
    task: str  # "inference" or "training"
    precision: str  # "float32", "float16", "mixed", "bfloat16"
    ipus: int
    tolerance: float  # limit of the largest error, relative to the largest value of the result
    build: Callable[[], Case]
    packages: tuple[str, ...] = ()  # modules without which the row cannot be run
    small: bool = False  # part of the usual test run; others are nightly

    @property
    def name(self) -> str:
        return f"{self.framework}: {self.model}, {self.task}, {self.precision}, {self.ipus} IPU"
