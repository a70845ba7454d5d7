"""Support for Hugging Face's transformers: caches are pytrees, and models run without a cache unless one is given."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import logging
from collections.abc import Iterator
from typing import Any

import jax

from jax_ipu.models.model import loaded

logger = logging.getLogger(__name__)

# What models call their cache, among inputs and outputs: the second since transformers 5.24.
CACHE_NAMES = ("past_key_values", "cache")


def is_pretrained(model: Any) -> bool:
    """Whether the model is a PreTrainedModel of transformers."""
    transformers: Any = loaded("transformers")
    return transformers is not None and isinstance(model, transformers.PreTrainedModel)


@contextlib.contextmanager
def prepared(model: Any, keywords: dict[str, Any]) -> Iterator[None]:
    """While a model of transformers is exported, switches its cache off, unless a cache is an input."""
    if not is_pretrained(model) or any(name in keywords for name in CACHE_NAMES):
        yield
        return
    every: dict[int, Any] = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    configs = [config for config in every.values() if getattr(config, "use_cache", False)]
    if configs:
        parameters = inspect.signature(model.forward).parameters
        _say_once(type(model).__name__, next((name for name in CACHE_NAMES if name in parameters), CACHE_NAMES[0]))
    for config in configs:
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs:
            config.use_cache = True


@functools.cache
def _say_once(name: str, cache: str) -> None:
    logger.warning(
        "%s is compiled with use_cache=False: its outputs have no %s. To have it, give %s (a DynamicCache) among the "
        "inputs",
        name,
        cache,
        cache,
    )


def register_caches() -> None:
    """Registers DynamicCache as a pytree of PyTorch and JAX, whose leaves are the keys and values of its layers."""
    if loaded("transformers") is not None:
        _register_dynamic_cache()


@functools.cache
def _register_dynamic_cache() -> None:
    caches: Any = importlib.import_module("transformers.cache_utils")
    tree: Any = importlib.import_module("torch.utils._pytree")
    cache_type = caches.DynamicCache

    def flatten(cache: Any) -> tuple[list[Any], tuple[bool, ...]]:
        for layer in cache.layers:
            if type(layer) is not caches.DynamicLayer:
                raise TypeError(
                    f"a cache with layers of type {type(layer).__name__} is not supported, only DynamicLayer"
                )
        filled = tuple(bool(layer.is_initialized) for layer in cache.layers)
        return [x for layer in cache.layers if layer.is_initialized for x in (layer.keys, layer.values)], filled

    def unflatten(children: Any, filled: tuple[bool, ...]) -> Any:
        # Set the attributes instead of calling update(), which computes with the values: JAX passes placeholders here.
        remaining = iter(children)
        cache = cache_type()
        cache.layers = []
        for is_filled in filled:
            layer = caches.DynamicLayer()
            if is_filled:
                layer.keys, layer.values = next(remaining), next(remaining)
                layer.dtype = getattr(layer.keys, "dtype", None)
                layer.device = getattr(layer.keys, "device", None)
                layer.is_initialized = True
            cache.layers.append(layer)
        return cache

    def flatten_with_keys(cache: Any) -> tuple[list[Any], tuple[bool, ...]]:
        children, filled = flatten(cache)
        return [(tree.SequenceKey(i), child) for i, child in enumerate(children)], filled

    if cache_type not in tree.SUPPORTED_NODES:
        tree.register_pytree_node(
            cache_type,
            flatten,
            unflatten,
            serialized_type_name=f"{cache_type.__module__}.{cache_type.__name__}",
            flatten_with_keys_fn=flatten_with_keys,
        )
    jax.tree_util.register_pytree_node(cache_type, flatten, lambda filled, children: unflatten(children, filled))
