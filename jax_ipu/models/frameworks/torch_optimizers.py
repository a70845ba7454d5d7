"""PyTorch's optimisers SGD, Adam and AdamW with all settings, which compute the same values step for step.

They consist of transformations of optax where these compute the same; other formulas are those of the documentation of
torch.optim.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jax_ipu.models.model import loaded, required
from jax_ipu.models.sharing import identity

_SGD = {"lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False}
_ADAM = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 0,
    "amsgrad": False,
    "maximize": False,
    "decoupled_weight_decay": False,
}
# The settings that influence the computed values, with PyTorch's defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "SGD": _SGD,
    "Adam": _ADAM,
    "AdamW": {**_ADAM, "weight_decay": 1e-2, "decoupled_weight_decay": True},
}


class TorchOptimizer:
    """An optimiser of PyTorch. Each step reads its learning rates again, so that schedulers work."""

    def __init__(self, kind: str, groups: Sequence[dict[str, Any]], original: Any = None) -> None:
        """`groups`: the `param_groups` of `original`, or one group without "params", which stands for all weights."""
        required("optax", f"the optimizer {kind}", "'jax_ipu[training]'")
        self._kind, self._groups, self._original = kind, groups, original
        self._fixed = [self._settings(group) for group in groups]

    def rates(self) -> list[float]:
        """Returns the current learning rates of the groups.

        Raises RuntimeError: another setting was changed, which the compiled step has as a constant.
        """
        for group, before in zip(self._groups, self._fixed, strict=True):
            now = self._settings(group)
            if now != before:
                changed = ", ".join(
                    f"{name} from {before[name]} to {now[name]}" for name in now if now[name] != before[name]
                )
                raise RuntimeError(
                    f"the optimizer's {changed} was changed after the training step was compiled, in which only "
                    "learning rates can change: compile it again"
                )
        if self._original is not None:
            # Schedulers warn unless this is set, which says that a step was made before the rate changes.
            self._original._opt_called = True
        return [float(group["lr"]) for group in self._groups]

    def bind(self, weights: Any) -> Any:
        """Returns the optimiser for these weights, a `TrainingWeights`.

        Raises ValueError: a parameter is not in the model, or two separate parameters share their memory.
        """
        return _Bound(self, [_rule(self._kind, settings) for settings in self._fixed], self._members(weights))

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        names = SETTINGS[self._kind]
        return {name: group.get(name, default) for name, default in names.items() if name != "lr"}

    def _members(self, weights: Any) -> list[list[int]]:
        """Returns for each group the indices of its learned arrays."""
        slot_of = {identity(t): slot for slot, tensors in enumerate(weights.tensors) for t in tensors}
        owners: dict[int, Any] = {}
        members: list[list[int]] = []
        for group, settings in zip(self._groups, self._fixed, strict=True):
            if "params" not in group:
                members.append(list(range(len(weights.tensors))))
                continue
            slots: list[int] = []
            for parameter in group["params"]:
                slot = slot_of.get(identity(parameter))
                if slot is None:
                    if parameter.requires_grad:
                        raise ValueError(
                            f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is none of the "
                            "model's: make it after the model has its parameters, from model.parameters()"
                        )
                    continue
                if slot in owners and owners[slot] is not parameter:
                    self._check_linear(settings, weights.learned_names(slot))
                elif slot not in owners:
                    slots.append(slot)
                owners[slot] = parameter
            members.append(slots)
        left = sorted(set(range(len(weights.tensors))) - {slot for slots in members for slot in slots})
        if left:
            names = [name for slot in left for name in weights.learned_names(slot)]
            warnings.warn(
                f"these weights are not trained, as the optimizer does not have them: {', '.join(names)}", stacklevel=2
            )
        return members

    def _check_linear(self, settings: dict[str, Any], names: Sequence[str]) -> None:
        """Raises ValueError unless updating a weight once per parameter equals one update by the sum of gradients.

        PyTorch updates two parameters over one memory one after the other; only plain SGD is linear in the gradient.
        """
        if self._kind != "SGD" or settings["weight_decay"]:
            raise ValueError(
                f"{' and '.join(names)} are two parameters over one memory, which PyTorch's {self._kind} changes twice "
                "in a step: tie them by one parameter (a.weight = b.weight) before you make the optimizer"
            )


class _Bound(NamedTuple):
    optimizer: TorchOptimizer
    rules: list[Any]
    members: list[list[int]]

    def rates(self) -> list[float]:
        return self.optimizer.rates()

    def init(self, params: list[Any]) -> Any:
        return [rule.init([params[i] for i in slots]) for rule, slots in zip(self.rules, self.members, strict=True)]

    def update(self, gradients: list[Any], state: Any, params: list[Any], rates: Any, used: list[bool]) -> Any:
        """Returns (updates, state); an update is zero where the loss does not depend on a weight, as in PyTorch."""
        updates = [jnp.zeros_like(p) for p in params]
        after = []
        for rule, slots, rate, old in zip(self.rules, self.members, rates, state, strict=True):
            directions, new = rule.update([gradients[i] for i in slots], old, [params[i] for i in slots])
            after.append(new)
            for i, direction in zip(slots, directions, strict=True):
                if used[i]:
                    updates[i] = (-rate * direction).astype(direction.dtype)
        return updates, after


def torch_optimizer(optimizer: Any) -> TorchOptimizer | None:
    """Returns the optimiser if it is one of `torch.optim`, else None.

    Raises:
        TypeError: it is neither SGD nor Adam nor AdamW.
        ValueError: it has a state from earlier steps.
    """
    torch: Any = loaded("torch")
    if torch is None or not isinstance(optimizer, torch.optim.Optimizer):
        return None
    kind = type(optimizer).__name__
    if type(optimizer) is not getattr(torch.optim, kind, None) or kind not in SETTINGS:
        raise TypeError(
            f"of PyTorch's optimisers there are {', '.join(SETTINGS)}, not {kind}: use one of these, or one of optax, "
            f"which has many more"
        )
    if optimizer.state:
        raise ValueError(
            f"this {kind} has a state from earlier steps, which the IPU would not go on from: give a new one, made of "
            "model.parameters()"
        )
    return TorchOptimizer(kind, optimizer.param_groups, optimizer)


def _rule(kind: str, settings: dict[str, Any]) -> Any:
    """Returns the update rule without learning rate and sign, as an optax.GradientTransformation."""
    optax: Any = importlib.import_module("optax")
    parts = [optax.scale(-1.0)] if settings["maximize"] else []
    decay = optax.add_decayed_weights(settings["weight_decay"]) if settings["weight_decay"] else optax.identity()
    if kind == "SGD":
        parts.append(decay)
        if settings["dampening"] and settings["momentum"]:
            parts.append(_dampened(optax, settings["momentum"], settings["dampening"], settings["nesterov"]))
        elif settings["momentum"]:
            parts.append(optax.trace(settings["momentum"], settings["nesterov"]))
        return optax.chain(*parts)
    (b1, b2), eps = settings["betas"], settings["eps"]
    adam = _amsgrad(optax, b1, b2, eps) if settings["amsgrad"] else optax.scale_by_adam(float(b1), float(b2), eps)
    return optax.chain(*parts, *([adam, decay] if settings["decoupled_weight_decay"] else [decay, adam]))


def _dampened(optax: Any, momentum: float, dampening: float, nesterov: bool) -> Any:
    """Momentum with dampening: b = momentum b + (1 - dampening) g, where the first b is g."""

    def init(params: Any) -> Any:
        return jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params)

    def update(gradients: Any, state: Any, params: Any = None) -> Any:
        count, buffers = state
        share = jnp.where(count == 0, 1.0, 1.0 - dampening)
        buffers = jax.tree.map(lambda b, g: momentum * b + share * g, buffers, gradients)
        looked = jax.tree.map(lambda g, b: g + momentum * b, gradients, buffers) if nesterov else buffers
        return looked, (jnp.ones_like(count), buffers)

    return optax.GradientTransformation(init, update)


def _amsgrad(optax: Any, b1: float, b2: float, eps: float) -> Any:
    """AMSGrad as in PyTorch, which takes the maximum of second moments before the bias correction, optax after it."""

    def init(params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return jnp.zeros((), jnp.float32), zeros, zeros, zeros

    def update(gradients: Any, state: Any, params: Any = None) -> Any:
        count, first, second, largest = state
        count = count + 1
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
        second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
        largest = jax.tree.map(jnp.maximum, largest, second)

        def direction(m: Any, v: Any) -> Any:
            return m / (1 - b1**count) / (jnp.sqrt(v) / jnp.sqrt(1 - b2**count) + eps)

        return jax.tree.map(direction, first, largest), (count, first, second, largest)

    return optax.GradientTransformation(init, update)
