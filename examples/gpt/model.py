"""GPT-2 as plain functions over a pytree of parameters: initialisation, training loss, decoding with a cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Params = dict[str, Any]


class Config(NamedTuple):
    """Sizes of a network; the defaults are those of GPT-2 small, which has 124 million parameters."""

    vocabulary: int = 50257
    positions: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12


class Cache(NamedTuple):
    """Keys and values of the tokens so far: [layers, batch, heads, positions, head width]."""

    keys: Array
    values: Array


def init(seed: int, config: Config, dtype: Any = np.float32) -> Params:
    """Returns random parameters as NumPy arrays, as in GPT-2. The token embedding is also the output layer."""
    rng = np.random.default_rng(seed)
    width = config.width

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (scale * rng.standard_normal(shape, np.float32)).astype(dtype)

    def norm() -> Params:
        return {"scale": np.ones(width, dtype), "bias": np.zeros(width, dtype)}

    def dense(n_in: int, n_out: int, scale: float = 0.02) -> Params:
        return {"kernel": normal(n_in, n_out, scale=scale), "bias": np.zeros(n_out, dtype)}

    # Every layer adds two terms to the residual stream. Their weights are smaller, so that the stream does not grow.
    residual = 0.02 / math.sqrt(2 * config.layers)
    return {
        "tokens": normal(config.vocabulary, width),
        "positions": normal(config.positions, width, scale=0.01),
        "layers": [
            {
                "norm_1": norm(),
                "attention": {"qkv": dense(width, 3 * width), "out": dense(width, width, residual)},
                "norm_2": norm(),
                "mlp": {"up": dense(width, 4 * width), "down": dense(4 * width, width, residual)},
            }
            for _ in range(config.layers)
        ],
        "norm": norm(),
    }


class Placement(NamedTuple):
    """What is done to weights where they are used, and to values [batch, ...] between the layers.

    Where several devices hold a part of the weights and of the batch each, `weights` gathers those of one layer at a
    time, and `rows` keeps the values divided by sequences.
    """

    weights: Callable[[Any], Any] = lambda tree: tree
    rows: Callable[[Array], Array] = lambda x: x


def logits(
    params: Params, tokens: Array, config: Config, recompute: bool = False, placement: Placement | None = None
) -> Array:
    """Returns the next token's scores after each of int[batch, length]: float32 [batch, length, vocabulary].

    `recompute`: the backward pass computes the values inside the layers again, in place of keeping them.
    """
    weights, rows = placement or Placement()
    length = tokens.shape[1]
    ends = weights({name: params[name] for name in ("tokens", "positions", "norm")})
    x = rows(ends["tokens"][tokens] + ends["positions"][:length])
    mask = np.tril(np.ones((length, length), bool))

    def one(layer: Params, x: Array) -> Array:
        layer = weights(layer)
        q, k, v = _queries_keys_values(layer, x, config.heads)
        return rows(_rest_of_layer(layer, x, _attention(q, k, v, mask)))

    for layer in params["layers"]:
        x = jax.checkpoint(one)(layer, x) if recompute else one(layer, x)
    return rows(_scores(ends, x))


def loss(
    params: Params, tokens: Array, config: Config, recompute: bool = False, placement: Placement | None = None
) -> Array:
    """Returns the mean cross entropy of the next tokens of int[batch, length + 1], in nats; a float32 scalar."""
    scores = logits(params, tokens[:, :-1], config, recompute, placement)
    chosen = jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=-1) - chosen)


def empty_cache(batch: int, config: Config, dtype: Any = np.float32) -> Cache:
    """Returns a cache without tokens, with room for `config.positions`."""
    shape = (config.layers, batch, config.heads, config.positions, config.width // config.heads)
    return Cache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))


def decode(params: Params, cache: Cache, token: Array, position: Array, config: Config) -> tuple[Array, Cache]:
    """Decodes one token per sequence: int[batch] at `position` -> scores float32 [batch, vocabulary]."""
    x = params["tokens"][token][:, None] + jax.lax.dynamic_slice_in_dim(params["positions"], position, 1)
    mask = jnp.arange(config.positions) <= position
    keys, values = cache
    for i, layer in enumerate(params["layers"]):
        q, k, v = _queries_keys_values(layer, x, config.heads)
        keys = jax.lax.dynamic_update_slice(keys, k[None], (i, 0, 0, position, 0))
        values = jax.lax.dynamic_update_slice(values, v[None], (i, 0, 0, position, 0))
        x = _rest_of_layer(layer, x, _attention(q, keys[i], values[i], mask))
    return _scores(params, x)[:, 0], Cache(keys, values)


def _queries_keys_values(layer: Params, x: Array, heads: int) -> tuple[Array, Array, Array]:
    """Returns queries, keys and values, each [batch, heads, length, head width]."""
    batch, length, width = x.shape
    qkv = _dense(layer["attention"]["qkv"], _norm(layer["norm_1"], x))
    q, k, v = qkv.reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    return q, k, v


def _attention(q: Array, k: Array, v: Array, mask: Any) -> Array:
    """Returns softmax(q k) v of all heads, joined: [batch, length, width]."""
    scores = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / math.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1).astype(q.dtype)
    batch, heads, length, width = q.shape
    return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def _rest_of_layer(layer: Params, x: Array, attended: Array) -> Array:
    x = x + _dense(layer["attention"]["out"], attended)
    hidden = jax.nn.gelu(_dense(layer["mlp"]["up"], _norm(layer["norm_2"], x)))
    return x + _dense(layer["mlp"]["down"], hidden)


def _scores(params: Params, x: Array) -> Array:
    return jnp.einsum("blw,vw->blv", _norm(params["norm"], x), params["tokens"]).astype(jnp.float32)


def _dense(params: Params, x: Array) -> Array:
    return x @ params["kernel"] + params["bias"]


def _norm(params: Params, x: Array) -> Array:
    """Layer norm over the last dimension, in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)
    return normal.astype(x.dtype) * params["scale"] + params["bias"]
