"""Optimisers of optax and PyTorch, given as objects or by name; "sgd" also works without optax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

from jax_ipu.models.frameworks.torch_optimizers import SETTINGS, TorchOptimizer, torch_optimizer
from jax_ipu.models.model import required


class Optimizer(NamedTuple):
    """The interface of optax.GradientTransformation."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


@runtime_checkable
class BoundLater(Protocol):
    """An optimiser that needs the weights before it can be used."""

    def bind(self, weights: Any) -> Any:
        """Returns an `Optimizer` for the `TrainingWeights`."""


def optimizer_of(optimizer: Any, learning_rate: float, settings: Mapping[str, Any] | None = None) -> Any:
    """Returns the optimiser for a name with settings, an optimiser of PyTorch, or an object with `init` and `update`.

    Raises:
        ImportError: the optimiser needs optax, which is not installed.
        ValueError, TypeError: the optimiser or a setting does not exist.
    """
    if not isinstance(optimizer, str):
        if settings:
            raise ValueError("optimizer_settings are for an optimizer given by its name")
        of_torch = torch_optimizer(optimizer)
        if of_torch is not None:
            return of_torch
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(
                "an optimizer is a name, one of torch.optim, or has init and update, as those of optax; "
                f"{type(optimizer).__name__} has not"
            )
        return optimizer
    if not (hasattr(learning_rate, "__float__") or callable(learning_rate)):  # schedules of optax are functions
        raise TypeError(f"learning_rate={learning_rate!r} is not valid: give a number")
    settings = dict(settings or {})
    if optimizer in SETTINGS:
        unknown = sorted(set(settings) - set(SETTINGS[optimizer]))
        if unknown:
            raise ValueError(f"{optimizer} has the settings {', '.join(SETTINGS[optimizer])}, not {', '.join(unknown)}")
        return TorchOptimizer(optimizer, [{"lr": learning_rate, **settings}])
    if optimizer == "sgd" and not settings:
        return Optimizer(lambda params: (), _descend(learning_rate))
    known = ("sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "lamb", "lion", "nadam")
    if optimizer not in known:
        raise ValueError(
            f'there is no optimizer "{optimizer}": use {", ".join(known)}, PyTorch\'s {", ".join(SETTINGS)}, or one of '
            "optax"
        )
    optax: Any = required("optax", f'the optimizer "{optimizer}"', "'jax_ipu[training]'; \"sgd\" needs nothing")
    if optimizer == "momentum":
        return optax.sgd(learning_rate, **{"momentum": 0.9, **settings})
    return getattr(optax, optimizer)(learning_rate, **settings)


def _descend(learning_rate: float) -> Callable[..., tuple[Any, Any]]:
    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(lambda g: -learning_rate * g, gradients), state

    return update
