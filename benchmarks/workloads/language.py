"""Sequences and graphs: transformers, recurrent networks, embeddings, message passing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from models import adam, lstm

from .program import MakeProgram, Program, array, indices, program, weights


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Layer norm over the last dimension."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def attention(q: Any, k: Any, v: Any) -> Any:
    """softmax(q k) v of [batch, heads, length, width]."""
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v


def transformer_layer(params: Any, x: Any) -> Any:
    """x: [batch, length, features]; four heads; the norms precede the blocks."""
    batch, length, features = x.shape
    y = layer_norm(x, *params["norm1"])
    q, k, v = jnp.moveaxis((y @ params["qkv"]).reshape(batch, length, 3, 4, features // 4), (2, 3), (0, 2))
    x = x + jnp.moveaxis(attention(q, k, v), 1, 2).reshape(x.shape) @ params["out"]
    y = layer_norm(x, *params["norm2"])
    return x + jax.nn.gelu(y @ params["up"]) @ params["down"]


def transformer_parameters(features: int, seed: int = 0) -> Any:
    """Returns random parameters of one layer."""
    norm = (np.ones(features, np.float32), np.zeros(features, np.float32))
    shapes = {
        "qkv": (features, 3 * features),
        "out": (features, features),
        "up": (features, 4 * features),
        "down": (4 * features, features),
    }
    matrices = {name: weights(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}
    return {"norm1": norm, "norm2": norm, **matrices}


def transformer_adam_step() -> Program:
    """Trains a language model of two layers: 1,000 tokens, width 128, batch 8, length 64; Adam."""
    params = {
        "tokens": weights(1000, 128),
        "positions": 0.01 * array(64, 128),
        "layers": [transformer_parameters(128, 10 * i) for i in range(2)],
        "out": weights(128, 1000),
    }
    tokens = indices((8, 65), 1000)

    def loss(params: Any, tokens: Any) -> Any:
        x = params["tokens"][tokens[:, :-1]] + params["positions"]
        for layer in params["layers"]:
            x = transformer_layer(layer, x)
        scores = jax.nn.log_softmax(x @ params["out"])
        return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None], -1))

    def step(state: adam.State, tokens: Any) -> tuple[adam.State, Any]:
        value, gradient = jax.value_and_grad(loss)(state.params, tokens)
        return adam.update(state, gradient), value

    # As after 100 steps. The first step divides the gradient by its own size, so an element whose gradient is nearly
    # zero would get an update of any size and either sign.
    squares = jax.tree.map(lambda p: np.full_like(p, 1e-6), params)
    state = adam.init(params)._replace(second=squares, count=np.int32(100))
    return Program(step, (state, tokens), True)


def lstm_training_step() -> Program:
    """Gradient through 64 steps of an LSTM with 128 features, batch 16, and SGD."""

    def step(params: Any, inputs: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda p: jnp.mean(lstm.layer(p, inputs) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value

    return Program(step, (lstm.init_layer(0, 128, 128), array(64, 16, 128)), True)


def _embedding_gradient(table: Any, tokens: Any, matrix: Any) -> Any:
    return jax.grad(lambda table: jnp.sum(jnp.tanh(table[tokens] @ matrix)))(table)


def gnn_step() -> Program:
    """Two layers of message passing over 2,000 nodes and 20,000 edges with 64 features, and SGD."""
    nodes, edges, features = 2000, 20_000, 64
    params = [(weights(features, features, seed=i), weights(features, features, seed=i + 9)) for i in range(2)]

    def loss(params: Any, x: Any, senders: Any, receivers: Any) -> Any:
        for own, neighbours in params:
            messages = jax.ops.segment_sum((x @ neighbours)[senders], receivers, nodes)
            x = jax.nn.relu(x @ own + messages / 10)
        return jnp.mean(x**2)

    def step(params: Any, *graph: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, *graph)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value

    graph = (array(nodes, features), indices(edges, nodes), indices(edges, nodes, seed=2))
    return Program(step, (params, *graph), True)


def _rotary(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary positions of pairs of neighbours, x: [batch, position, head, feature]."""
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(x.shape)


PROGRAMS: dict[str, MakeProgram] = {
    "transformer layer 4x128x256": program(transformer_layer, transformer_parameters(256), array(4, 128, 256)),
    "transformer + Adam step": transformer_adam_step,
    "attention 4x8x256x64": program(attention, *(array(4, 8, 256, 64, seed=i) for i in range(3))),
    "LSTM scan, 64 steps": program(lstm.layer, lstm.init_layer(0, 128, 128), array(64, 16, 128)),
    "LSTM training step": lstm_training_step,
    "embedding gradient 10000x128": program(
        _embedding_gradient, array(10_000, 128), indices((32, 128), 10_000), weights(128, 64)
    ),
    "gnn step": gnn_step,
    "rotary positions 8x512x8x64": program(_rotary, array(8, 512, 8, 64), array(512, 1, 32), array(512, 1, 32, seed=1)),
    "logits 128x768x16384": program(lambda x, w: x @ w.T, array(128, 768), array(16384, 768)),
}
