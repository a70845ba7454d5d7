"""flax models: linen and nnx modules."""

from __future__ import annotations

from typing import Any

from jax_ipu.models.model import Model, loaded


def linen_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a bound linen module or a pair (module, variables)."""
    linen: Any = loaded("flax.linen")
    if linen is None:
        return None
    if isinstance(model, linen.Module):
        if model.scope is None:
            raise TypeError(
                "a flax.linen module has no weights of its own: give (module, variables) or module.bind(variables)"
            )
        module, variables = model.unbind()
    elif isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], linen.Module):
        module, variables = model
    else:
        return None
    frozen = {name: values for name, values in variables.items() if name != "params"}

    def apply(params: Any, frozen: Any, *inputs: Any) -> Any:
        return module.apply({"params": params, **frozen}, *inputs)

    return Model("flax.linen", apply, variables.get("params", {}), frozen)


def nnx_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is an nnx module."""
    nnx: Any = loaded("flax.nnx")
    if nnx is None or not isinstance(model, nnx.Module):
        return None
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def apply(params: Any, rest: Any, *inputs: Any) -> Any:
        return nnx.merge(graph, params, rest)(*inputs)

    return Model("flax.nnx", apply, params, rest)
