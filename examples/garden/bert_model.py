"""BERT with its masked language model as plain functions over a pytree of parameters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]
# Labels of tokens that are not masked.
IGNORED = -100


class Config(NamedTuple):
    """The defaults are those of BERT-base, which has 110 million parameters."""

    vocabulary: int = 30522
    positions: int = 512
    width: int = 768
    layers: int = 12
    heads: int = 12


def init(seed: int, config: Config, dtype: Any = np.float32) -> Params:
    """Returns random parameters as NumPy arrays. The token embedding is also the output layer."""
    rng = np.random.default_rng(seed)
    width = config.width

    def normal(*shape: int) -> np.ndarray:
        return (0.02 * rng.standard_normal(shape, np.float32)).astype(dtype)

    def norm() -> Params:
        return {"scale": np.ones(width, dtype), "bias": np.zeros(width, dtype)}

    def dense(n_in: int, n_out: int) -> Params:
        return {"kernel": normal(n_in, n_out), "bias": np.zeros(n_out, dtype)}

    return {
        "embeddings": {
            "tokens": normal(config.vocabulary, width),
            "positions": normal(config.positions, width),
            "segments": normal(2, width),
            "norm": norm(),
        },
        "layers": [
            {
                "query": dense(width, width),
                "key": dense(width, width),
                "value": dense(width, width),
                "attention": dense(width, width),
                "norm_1": norm(),
                "up": dense(width, 4 * width),
                "down": dense(4 * width, width),
                "norm_2": norm(),
            }
            for _ in range(config.layers)
        ],
        "head": {"dense": dense(width, width), "norm": norm(), "bias": np.zeros(config.vocabulary, dtype)},
    }


def loss(params: Params, tokens: Any, segments: Any, labels: Any, config: Config, recompute: bool = False) -> Any:
    """Returns the mean cross entropy of the masked tokens, a float32 scalar.

    All arguments are int[batch, length]; labels of tokens that are not masked are IGNORED. With `recompute`, the
    activations of a layer are recomputed in the backward pass.
    """
    x = encode(params, tokens, segments, config, recompute)
    return masked_loss(params["head"], params["embeddings"]["tokens"], x, labels)


def masked_loss(head: Params, tokens: Any, x: Any, labels: Any) -> Any:
    """Returns the loss from the last layer's result [batch, length, width] and the token embedding."""
    scores = _scores(head, tokens, x)
    masked = labels != IGNORED
    chosen = jnp.take_along_axis(scores, jnp.where(masked, labels, 0)[..., None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(scores, axis=-1) - chosen
    return jnp.sum(jnp.where(masked, losses, 0)) / jnp.maximum(jnp.sum(masked), 1)


def encode(params: Params, tokens: Any, segments: Any, config: Config, recompute: bool = False) -> Any:
    """Returns the last layer's result, [batch, length, width]; arguments as of `loss`."""
    x = embed(params["embeddings"], tokens, segments)
    return encoder(params["layers"], x, config.heads, recompute)


def embed(table: Params, tokens: Any, segments: Any) -> Any:
    """Returns what the first layer is given, [batch, length, width]."""
    x = table["tokens"][tokens] + table["positions"][: tokens.shape[1]] + table["segments"][segments]
    return _norm(table["norm"], x)


def encoder(layers: list[Params], x: Any, heads: int, recompute: bool = False) -> Any:
    """Returns the result of some layers, [batch, length, width]."""
    layer = jax.checkpoint(_layer, static_argnums=2) if recompute else _layer
    for weights in layers:
        x = layer(weights, x, heads)
    return x


def batch(seed: int, size: int, length: int, config: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns random tokens, segments and labels; 15 % of the tokens are masked."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, config.vocabulary, (size, length)).astype(np.int32)
    segments = (np.arange(length) >= length // 2).astype(np.int32) * np.ones((size, 1), np.int32)
    masked = rng.random((size, length)) < 0.15
    masked[:, 0] = True
    return np.where(masked, 4, tokens), segments, np.where(masked, tokens, IGNORED)


def _scores(params: Params, tokens: Any, x: Any) -> Any:
    x = _norm(params["norm"], jax.nn.gelu(_dense(params["dense"], x), approximate=False))
    return (jnp.einsum("blw,vw->blv", x, tokens) + params["bias"]).astype(jnp.float32)


def _layer(params: Params, x: Any, heads: int) -> Any:
    size, length, width = x.shape
    q, k, v = (
        _dense(params[name], x).reshape(size, length, heads, width // heads).swapaxes(1, 2)
        for name in ("query", "key", "value")
    )
    scores = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / math.sqrt(width // heads)
    attended = jax.nn.softmax(scores, axis=-1).astype(x.dtype) @ v
    x = _norm(params["norm_1"], x + _dense(params["attention"], attended.swapaxes(1, 2).reshape(x.shape)))
    hidden = jax.nn.gelu(_dense(params["up"], x), approximate=False)
    return _norm(params["norm_2"], x + _dense(params["down"], hidden))


def _dense(params: Params, x: Any) -> Any:
    return x @ params["kernel"] + params["bias"]


def _norm(params: Params, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-12)
    return normal.astype(x.dtype) * params["scale"] + params["bias"]
