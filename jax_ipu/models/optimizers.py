"""Optimisers: those of optax, by object or by name, and plain descent without optax."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax


class Optimizer(NamedTuple):
    """As an optax.GradientTransformation."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


@runtime_checkable
class BoundLater(Protocol):
    """An optimiser that must know the weights before it can be used."""

    def bind(self, weights: Any) -> Any:
        """As an Optimizer; `weights` are a `TrainingWeights`."""


def optimizer_of(optimizer: Any, learning_rate: float) -> Any:
    """A name, or an object with `init` and `update` such as an optax optimiser, which is given back.

    Raises:
        ImportError: the named optimiser needs optax, which is not installed.
        ValueError, TypeError: there is no such optimiser.
    """
    if not isinstance(optimizer, str):
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(
                f"an optimizer is a name or has init and update, as those of optax; {type(optimizer).__name__} has not"
            )
        return optimizer
    if optimizer == "sgd":
        return Optimizer(lambda params: (), _descend(learning_rate))
    try:
        optax: Any = importlib.import_module("optax")
    except ImportError as error:
        raise ImportError(
            f'the optimizer "{optimizer}" needs optax: pip install \'jax_ipu[training]\'; "sgd" needs nothing'
        ) from error
    if optimizer == "momentum":
        return optax.sgd(learning_rate, momentum=0.9)
    known = ("adam", "adamw", "adagrad", "rmsprop", "lamb", "lion", "nadam")
    if optimizer not in known:
        raise ValueError(f'there is no optimizer "{optimizer}": use sgd, momentum, {", ".join(known)}, or one of optax')
    return getattr(optax, optimizer)(learning_rate)


def _descend(learning_rate: float) -> Callable[..., tuple[Any, Any]]:
    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(lambda g: -learning_rate * g, gradients), state

    return update
