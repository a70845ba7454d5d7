"""Conversion of Python functions of arrays."""

from __future__ import annotations

from typing import Any

from jax_ipu.models.model import Model


def pair_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a pair (apply_fn, params)."""
    if not (isinstance(model, tuple) and len(model) == 2 and callable(model[0])):
        return None
    function, params = model

    def apply(params: Any, frozen: Any, *inputs: Any) -> Any:
        return function(params, *inputs)

    return Model("(apply_fn, params)", apply, params)


def function_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a function of arrays."""
    if not callable(model) or isinstance(model, type):
        return None

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        return model(*inputs)

    return Model("function", apply)
