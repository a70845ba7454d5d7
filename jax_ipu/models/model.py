"""A model of any framework as one form: a JAX function of weights and inputs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple


class Model(NamedTuple):
    """`apply(trainable, frozen, *inputs)` gives the outputs; the weights are pytrees of arrays or tensors.

    Leaves that are the same tensor (see `sharing.identity`) are stored once. `shared` says that they are one weight in
    training as well, as in frameworks whose layers refer to their weights; a pytree of JAX has a weight for each leaf.

    `train(trainable, frozen, key, *inputs)` gives (outputs, frozen) as in training: with noise from the JAX random key,
    and with what the model changes itself, such as running statistics. None: `apply`, which changes nothing.

    `weights(trainable, frozen)` is what `TrainingStep.weights` gives, of NumPy arrays; None: `trainable`.
    """

    kind: str
    apply: Callable[..., Any]
    trainable: Any = ()
    frozen: Any = ()
    fixed_types: bool = False  # a compiled program, whose element types cannot be changed any more
    shared: bool = False
    train: Callable[..., tuple[Any, Any]] | None = None
    weights: Callable[[Any, Any], Any] | None = None


def loaded(name: str) -> ModuleType | None:
    """A framework's module when the process has imported it: before that, no model can be of that framework."""
    return sys.modules.get(name)


def required(name: str, kind: str, install: str) -> Any:
    """The module `name`; raises ImportError that says what to install where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{kind} needs the package {name}: pip install {install} ({error})") from error
