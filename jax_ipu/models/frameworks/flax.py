"""Conversion of flax modules, linen and nnx."""

from __future__ import annotations

from typing import Any

import jax

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

    def train(params: Any, frozen: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        # The module, or an argument of it, decides whether dropout and batch statistics are active.
        outputs, changed = module.apply({"params": params, **frozen}, *inputs, rngs={"dropout": key}, mutable=[*frozen])
        return outputs, {name: changed.get(name, values) for name, values in frozen.items()}

    def weights(params: Any, frozen: Any) -> Any:
        return {"params": params, **frozen}

    return Model("flax.linen", apply, variables.get("params", {}), frozen, train=train, weights=weights)


def nnx_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is an nnx module."""
    nnx: Any = loaded("flax.nnx")
    if nnx is None or not isinstance(model, nnx.Module):
        return None
    # nnx.split lists a variable once, also where two modules refer to it.
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    keys = jax.tree.map(_is_key, rest)

    def with_keys(rest: Any) -> Any:
        return jax.tree.map(lambda is_key, x: jax.random.wrap_key_data(x) if is_key else x, keys, rest)

    def merged(params: Any, rest: Any) -> Any:
        return nnx.merge(graph, params, with_keys(rest))

    def apply(params: Any, rest: Any, *inputs: Any) -> Any:
        return merged(params, rest)(*inputs)

    def train(params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        # Random numbers come from the streams of the module, whose counters are variables in `rest`.
        module = merged(params, rest)
        outputs = module(*inputs)
        _, _, after = nnx.split(module, nnx.Param, ...)
        return outputs, _without_keys(after)

    def weights(params: Any, rest: Any) -> Any:
        return nnx.merge_state(params, with_keys(rest))

    return Model("flax.nnx", apply, params, _without_keys(rest), train=train, weights=weights)


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _without_keys(state: Any) -> Any:
    """Returns the state with random keys replaced by their data, because NumPy has no type for keys."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, state)
