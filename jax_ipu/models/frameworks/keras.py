"""Keras 3 models with the JAX backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax_ipu.models.model import Model, loaded


def keras_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a Keras layer or model; built on `inputs` if it was not."""
    keras: Any = loaded("keras")
    if keras is None or not isinstance(model, keras.Layer):
        return None
    if keras.backend.backend() != "jax":
        raise TypeError(
            f"this Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=jax before Keras is first imported"
        )
    if not model.built:
        model(*inputs)

    def values(variables: Sequence[Any]) -> list[Any]:
        return [variable.value for variable in variables]

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, frozen, *inputs, training=False)
        return outputs

    return Model("Keras", apply, values(model.trainable_variables), values(model.non_trainable_variables))
