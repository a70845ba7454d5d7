"""The common form of a model of any framework: a JAX function of weights and inputs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple


class Model(NamedTuple):
    """A model as a JAX function of its weights, which are pytrees of arrays or tensors, and its inputs.

    Leaves that are the same tensor (see `sharing.identity`) are stored once.

    Attributes:
        kind: the kind of the original model, e.g. "PyTorch".
        apply: `apply(trainable, frozen, *inputs)` returns the outputs.
        trainable: the weights that training changes.
        frozen: all other arrays of the model.
        fixed_types: the model is a compiled program whose element types cannot be changed.
        shared: leaves that are the same tensor are also one weight in training, as in frameworks whose layers hold
            references to weights. Otherwise each leaf is a weight of its own, as in a pytree of JAX.
        train: `train(trainable, frozen, key, *inputs)` returns (outputs, frozen) in training mode: with random numbers
            from the JAX key, and with the arrays that the model updates itself, such as running statistics. None where
            `apply` serves for training as well.
        weights: `weights(trainable, frozen)` returns the result of `TrainingStep.weights` from NumPy arrays; None
            where that is `trainable`.
        wide: types of 64 bits are kept. Otherwise they are as in the JAX of this process, which has 32 bits by default.
    """

    kind: str
    apply: Callable[..., Any]
    trainable: Any = ()
    frozen: Any = ()
    fixed_types: bool = False
    shared: bool = False
    train: Callable[..., tuple[Any, Any]] | None = None
    weights: Callable[[Any, Any], Any] | None = None
    wide: bool = False


def loaded(name: str) -> ModuleType | None:
    """Returns a framework's module if the process has imported it: otherwise no model of it can exist."""
    return sys.modules.get(name)


def required(name: str, kind: str, install: str) -> Any:
    """Imports the module `name`.

    Raises ImportError, with the command that installs it, where it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{kind} needs the package {name}: pip install {install} ({error})") from error
