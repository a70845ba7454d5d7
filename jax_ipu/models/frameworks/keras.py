"""Conversion of Keras 3 models with the JAX backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax_ipu.models.model import Model, loaded


def keras_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """Returns the model if it is a Keras layer or model; builds it on `inputs` if it is not built.

    Raises TypeError: Keras runs on another backend than JAX.
    """
    keras: Any = loaded("keras")
    if keras is None or not isinstance(model, keras.Layer):
        return None
    if keras.backend.backend() != "jax":
        raise TypeError(
            f"this Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=jax before Keras is first imported"
        )
    if not model.built:
        model(*inputs)
    # Keras lists a variable once, also where several layers share it.
    learned, kept = list(model.trainable_variables), list(model.non_trainable_variables)
    places = {id(variable): i for i, variable in enumerate([*learned, *kept])}

    def values(variables: Sequence[Any]) -> list[Any]:
        return [variable.value for variable in variables]

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, frozen, *inputs, **_mode(model, training=False))
        return outputs

    def train(trainable: Any, frozen: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        # Random numbers come from the seed generators of the model, whose states are variables in `frozen`.
        outputs, frozen = model.stateless_call(trainable, frozen, *inputs, **_mode(model, training=True))
        return outputs, list(frozen)

    def weights(trainable: Any, frozen: Any) -> list[Any]:
        every = [*trainable, *frozen]
        return [np.asarray(every[places[id(variable)]]) for variable in model.weights]

    return Model("Keras", apply, values(learned), values(kept), shared=True, train=train, weights=weights)


def _mode(model: Any, *, training: bool) -> dict[str, bool]:
    """Returns the argument `training` for a layer that accepts it."""
    return {"training": training} if getattr(model, "_call_has_training_arg", True) else {}
