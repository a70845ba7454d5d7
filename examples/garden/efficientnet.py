"""EfficientNet-B0 on images of 224 x 224, with group normalisation: training, and inference.

    python examples/garden/efficientnet.py [--task training|inference] [--batch N] [--ipus N] [--small] [--estimate]

A group normalisation needs nothing of other images, so it is the same with any batch and on any number of IPUs. The
backward pass computes the values inside the blocks again. Images and labels are random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options

GROUPS, CLASSES, LOSS_SCALE = 4, 1000, 128.0


class Block(NamedTuple):
    """Consecutive inverted bottlenecks that are equal; the first of them has the stride."""

    number: int
    expand: int
    size: int
    stride: int
    channels: int


B0 = (
    Block(1, 1, 3, 1, 16),
    Block(2, 6, 3, 2, 24),
    Block(2, 6, 5, 2, 40),
    Block(3, 6, 3, 2, 80),
    Block(3, 6, 5, 1, 112),
    Block(4, 6, 5, 2, 192),
    Block(1, 6, 3, 1, 320),
)
SMALL = (Block(1, 1, 3, 1, 8), Block(2, 4, 5, 2, 8))


def init(blocks: tuple[Block, ...], stem: int, top: int, classes: int, dtype: Any) -> Any:
    """Returns random weights."""
    rng = np.random.default_rng(0)

    def unit(size: int, n_in: int, n_out: int) -> Any:
        return {
            "kernel": layers.convolution_init(rng, size, n_in, n_out, dtype),
            "norm": layers.norm_init(n_out, dtype),
        }

    n_in, bottlenecks = stem, []
    for block in blocks:
        for _ in range(block.number):
            inner, squeezed = n_in * block.expand, max(1, n_in // 4)
            weights = {
                "depthwise": unit(block.size, 1, inner),
                "squeeze": layers.dense_init(rng, inner, squeezed, dtype),
                "excite": layers.dense_init(rng, squeezed, inner, dtype, 0.02),
                "project": unit(1, inner, block.channels),
            }
            bottlenecks.append(weights | ({"expand": unit(1, n_in, inner)} if block.expand > 1 else {}))
            n_in = block.channels
    return {
        "stem": unit(3, 3, stem),
        "blocks": bottlenecks,
        "top": unit(1, n_in, top),
        "head": layers.dense_init(rng, top, classes, dtype, 0.02),
    }


def scores(params: Any, images: Array, blocks: tuple[Block, ...], recompute: bool = False) -> Array:
    """Returns the scores [batch, class]."""
    x = jax.nn.silu(_unit(params["stem"], images, 2))
    bottleneck = jax.checkpoint(_bottleneck, static_argnums=2) if recompute else _bottleneck
    strides = [block.stride if first == 0 else 1 for block in blocks for first in range(block.number)]
    for weights, stride in zip(params["blocks"], strides, strict=True):
        x = bottleneck(weights, x, stride)
    return layers.dense(params["head"], jax.nn.silu(_unit(params["top"], x)).mean((1, 2)))


def _unit(weights: Any, x: Array, stride: int = 1, groups: int = 1) -> Array:
    return layers.group_norm(weights["norm"], layers.convolution(weights["kernel"], x, stride, groups), GROUPS)


def _bottleneck(weights: Any, x: Array, stride: int) -> Array:
    y = jax.nn.silu(_unit(weights["expand"], x)) if "expand" in weights else x
    y = jax.nn.silu(_unit(weights["depthwise"], y, stride, y.shape[-1]))
    gate = layers.dense(weights["excite"], jax.nn.silu(layers.dense(weights["squeeze"], y.mean((1, 2)))))
    y = _unit(weights["project"], y * jax.nn.sigmoid(gate)[:, None, None])
    return x + y if x.shape == y.shape else y


def _sizes(options: Options) -> tuple[tuple[Block, ...], int, int, int]:
    return (SMALL, 8, 16, 10) if options.small else (B0, 32, 1280, CLASSES)


def training(options: Options) -> Job:
    """A step of gradient descent with momentum in float16, of RMSProp in float32."""
    blocks, *sizes = _sizes(options)
    half = options.precision == "float16"
    optimizer = optax.sgd(0.01, momentum=0.9) if half else optax.rmsprop(1e-3, decay=0.9, momentum=0.9, eps=1e-3)

    def loss(params: Any, batch: tuple[Array, Array]) -> Array:
        images, labels = batch
        return layers.cross_entropy(scores(params, images, blocks, recompute=True), labels)

    def state() -> Any:
        params = init(blocks, *sizes, np.dtype(options.precision))
        return params, layers.moments(optimizer, params)

    step = layers.training_step(loss, optimizer, LOSS_SCALE if half else 1.0)
    return Job(step, state, lambda number: _batch(options, number), options.batch)


def inference(options: Options) -> Job:
    """The scores of a batch."""
    blocks, *sizes = _sizes(options)

    def step(params: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        return params, scores(params, batch[0], blocks)

    dtype = np.dtype(options.precision)
    return Job(step, lambda: init(blocks, *sizes, dtype), lambda number: _batch(options, number), options.batch)


def _batch(options: Options, number: int) -> tuple[np.ndarray, np.ndarray]:
    side, classes = (16, 10) if options.small else (224, CLASSES)
    rng = np.random.default_rng(number)
    images = rng.standard_normal((options.batch, side, side, 3), np.float32).astype(options.precision)
    return images, rng.integers(0, classes, options.batch).astype(np.int32)


PROGRAM = garden.Program(
    "EfficientNet-B0", {"training": training, "inference": inference}, "images", 8, 2, ("float16", "float32")
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
