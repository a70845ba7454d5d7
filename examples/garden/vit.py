"""ViT-B/16 on images of 224 x 224: training with AdamW or gradient descent, and inference.

    python examples/garden/vit.py [--task training|inference] [--batch N] [--ipus N] [--small] [--estimate]

An image is 196 patches of 16 x 16 and a token for its class. The backward pass computes the values inside the layers
again. In float16 the weights learn by gradient descent with momentum, in float32 by AdamW, and several IPUs share the
state. Images and labels are random.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options


class Config(NamedTuple):
    """Sizes; the defaults are those of ViT-B/16, which has 86 million parameters."""

    side: int = 224
    patch: int = 16
    width: int = 768
    layers: int = 12
    heads: int = 12
    classes: int = 1000


SMALL = Config(32, 8, 32, 1, 4, 10)


def init(config: Config, dtype: Any) -> Any:
    """Returns random weights."""
    rng, width = np.random.default_rng(0), config.width
    tokens = (config.side // config.patch) ** 2 + 1

    def dense(n_in: int, n_out: int) -> Any:
        return layers.dense_init(rng, n_in, n_out, dtype, 0.02)

    return {
        "patches": dense(3 * config.patch**2, width),
        "class": np.zeros((1, 1, width), dtype),
        "positions": (0.02 * rng.standard_normal((tokens, width), np.float32)).astype(dtype),
        "layers": [
            {
                "norm_1": layers.norm_init(width, dtype),
                "qkv": dense(width, 3 * width),
                "out": dense(width, width),
                "norm_2": layers.norm_init(width, dtype),
                "up": dense(width, 4 * width),
                "down": dense(4 * width, width),
            }
            for _ in range(config.layers)
        ],
        "norm": layers.norm_init(width, dtype),
        "head": dense(width, config.classes),
    }


def scores(params: Any, images: Array, config: Config, recompute: bool = False) -> Array:
    """Returns the scores [batch, class]."""
    batch, count, side = images.shape[0], config.side // config.patch, config.patch
    patches = images.reshape(batch, count, side, count, side, 3).swapaxes(2, 3).reshape(batch, count * count, -1)
    x = layers.dense(params["patches"], patches)
    first = jnp.broadcast_to(params["class"], (batch, 1, config.width))
    x = jnp.concatenate([first, x], axis=1) + params["positions"]
    layer = jax.checkpoint(_layer, static_argnums=2) if recompute else _layer
    for weights in params["layers"]:
        x = layer(weights, x, config.heads)
    return layers.dense(params["head"], layers.layer_norm(params["norm"], x[:, 0]))


def _layer(params: Any, x: Array, heads: int) -> Array:
    batch, length, width = x.shape
    qkv = layers.dense(params["qkv"], layers.layer_norm(params["norm_1"], x))
    q, k, v = qkv.reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    weights = jax.nn.softmax((q @ k.swapaxes(-1, -2)).astype(jnp.float32) / math.sqrt(width // heads))
    attended = (weights.astype(x.dtype) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + layers.dense(params["out"], attended)
    hidden = jax.nn.gelu(layers.dense(params["up"], layers.layer_norm(params["norm_2"], x)))
    return x + layers.dense(params["down"], hidden)


def training(options: Options) -> Job:
    """A training step."""
    config, half = SMALL if options.small else Config(), options.precision == "float16"
    optimizer = optax.sgd(0.01, momentum=0.9) if half else optax.adamw(1e-3)

    def loss(params: Any, batch: tuple[Array, Array]) -> Array:
        images, labels = batch
        return layers.cross_entropy(scores(params, images, config, recompute=True), labels)

    def state() -> Any:
        params = init(config, np.dtype(options.precision))
        return params, layers.moments(optimizer, params)

    step = layers.training_step(loss, optimizer, 128.0 if half else 1.0)
    split = garden.split_longest(options.ipus)
    return Job(step, state, lambda number: _batch(options, config, number), options.batch, split)


def inference(options: Options) -> Job:
    """The scores of a batch."""
    config = SMALL if options.small else Config()

    def step(params: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        return params, scores(params, batch[0], config)

    dtype = np.dtype(options.precision)
    return Job(step, lambda: init(config, dtype), lambda number: _batch(options, config, number), options.batch)


def _batch(options: Options, config: Config, number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(number)
    images = rng.standard_normal((options.batch, config.side, config.side, 3), np.float32).astype(options.precision)
    return images, rng.integers(0, config.classes, options.batch).astype(np.int32)


PROGRAM = garden.Program(
    "ViT-B/16", {"training": training, "inference": inference}, "images", 4, 2, ("float16", "float32")
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
