"""Conversion of equinox modules."""

from __future__ import annotations

from typing import Any

from jax_ipu.models.model import Model, loaded


def equinox_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is an equinox module."""
    eqx: Any = loaded("equinox")
    if eqx is None or not isinstance(model, eqx.Module):
        return None
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays, static = eqx.partition(rest, eqx.is_array)

    def apply(params: Any, arrays: Any, *inputs: Any) -> Any:
        return eqx.combine(params, arrays, static)(*inputs)

    return Model("equinox", apply, params, arrays)
