"""ResNet-50 v1.5 on images of 224 x 224: training with momentum, and inference.

    python examples/garden/resnet50.py [--task training|inference] [--batch N] [--ipus N] [--small] [--estimate]

Weights and activations are float16; batch normalisation computes in float32, over the images of all IPUs. The
backward pass computes the values inside the blocks again. Images and labels are random.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import garden
import layers
from garden import Job, Options

# Bottleneck blocks of each stage; the width of the first one doubles from stage to stage.
BLOCKS, WIDTH, CLASSES = (3, 4, 6, 3), 64, 1000
LOSS_SCALE = 128.0


def init(blocks: tuple[int, ...], width: int, classes: int, dtype: Any) -> tuple[Any, Any]:
    """Returns the weights, and in the same structure the mean and the variance that every normalisation has seen."""
    rng = np.random.default_rng(0)

    def units(*sizes: tuple[int, int, int]) -> tuple[list[Any], list[Any]]:
        kernels = [layers.convolution_init(rng, *size, dtype) for size in sizes]
        weights = [{"kernel": kernel, "norm": layers.norm_init(kernel.shape[-1], dtype)} for kernel in kernels]
        return weights, [
            (np.zeros(kernel.shape[-1], np.float32), np.ones(kernel.shape[-1], np.float32)) for kernel in kernels
        ]

    stem, n_in, found = units((7, 3, width)), width, []
    for stage, number in enumerate(blocks):
        inner = width * 2**stage
        for _ in range(number):
            project = [(1, n_in, 4 * inner)] if n_in != 4 * inner else []
            found.append(units((1, n_in, inner), (3, inner, inner), (1, inner, 4 * inner), *project))
            n_in = 4 * inner
    head = layers.dense_init(rng, n_in, classes, dtype)
    weights = {"stem": stem[0], "blocks": [block[0] for block in found], "head": head}
    return weights, {"stem": stem[1], "blocks": [block[1] for block in found]}


def network(params: Any, seen: Any, images: Array, strides: list[int], train: bool) -> tuple[Array, Any]:
    """Returns the scores [batch, class], and what the normalisations have seen after this batch."""
    x = layers.convolution(params["stem"][0]["kernel"], images, 2)
    x, stem = batch_norm(params["stem"][0]["norm"], seen["stem"][0], x, train)
    x = jax.lax.reduce_window(
        jax.nn.relu(x), np.array(-np.inf, x.dtype), jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )
    # The backward pass computes the values inside a block again.
    block = jax.checkpoint(bottleneck, static_argnums=(3, 4))
    blocks = []
    for weights, old, stride in zip(params["blocks"], seen["blocks"], strides, strict=True):
        x, new = block(weights, old, x, stride, train)
        blocks.append(new)
    return layers.dense(params["head"], x.mean((1, 2))), {"stem": [stem], "blocks": blocks}


def bottleneck(weights: list[Any], seen: list[Any], x: Array, stride: int, train: bool) -> tuple[Array, list[Any]]:
    """Returns the result of a block, and what its normalisations have seen."""
    found: list[Any] = []

    def unit(number: int, x: Array, stride: int = 1) -> Array:
        y = layers.convolution(weights[number]["kernel"], x, stride)
        y, new = batch_norm(weights[number]["norm"], seen[number], y, train)
        found.append(new)
        return y

    y = unit(2, jax.nn.relu(unit(1, jax.nn.relu(unit(0, x)), stride)))
    return jax.nn.relu(y + (unit(3, x, stride) if len(weights) > 3 else x)), found


def batch_norm(weights: Any, seen: tuple[Array, Array], x: Array, train: bool) -> tuple[Array, tuple[Array, Array]]:
    """Normalises each channel, by the statistics of the batch in training, and otherwise by those that it has seen."""
    mean, variance = seen
    if train:
        wide = x.astype(jnp.float32)
        mean = wide.mean((0, 1, 2))
        variance = ((wide - mean) ** 2).mean((0, 1, 2))
        seen = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, seen, (mean, variance))
    factor = jax.lax.rsqrt(variance + 1e-5) * weights["scale"]
    return x * factor.astype(x.dtype) + (weights["bias"] - mean * factor).astype(x.dtype), seen


def training(options: Options) -> Job:
    """A step of gradient descent with momentum."""
    optimizer, strides = optax.sgd(0.01, momentum=0.9), _strides(options)

    def loss(params: Any, seen: Any, batch: tuple[Array, Array]) -> tuple[Array, Any]:
        images, labels = batch
        scores, seen = network(params, seen, images, strides, True)
        return LOSS_SCALE * layers.cross_entropy(scores, labels), seen

    def step(state: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        params, seen, moments = state
        (value, seen), gradients = jax.value_and_grad(loss, has_aux=True)(params, seen, batch)
        gradients = jax.tree.map(lambda g: g / jnp.asarray(LOSS_SCALE, g.dtype), gradients)
        changes, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(params, changes), seen, moments), value / LOSS_SCALE

    def state() -> Any:
        params, seen = _init(options)
        return params, seen, layers.moments(optimizer, params)

    return Job(step, state, lambda number: _batch(options, number), options.batch)


def inference(options: Options) -> Job:
    """The scores of a batch."""

    def step(state: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        params, seen = state
        return state, network(params, seen, batch[0], _strides(options), False)[0]

    return Job(step, lambda: _init(options), lambda number: _batch(options, number), options.batch)


def _strides(options: Options) -> list[int]:
    blocks = (1, 1) if options.small else BLOCKS
    return [2 if stage > 0 and place == 0 else 1 for stage, count in enumerate(blocks) for place in range(count)]


def _init(options: Options) -> Any:
    sizes = ((1, 1), 8, 10) if options.small else (BLOCKS, WIDTH, CLASSES)
    return init(*sizes, np.dtype(options.precision))


def _batch(options: Options, number: int) -> tuple[np.ndarray, np.ndarray]:
    side, classes = (16, 10) if options.small else (224, CLASSES)
    rng = np.random.default_rng(number)
    images = rng.standard_normal((options.batch, side, side, 3), np.float32).astype(options.precision)
    return images, rng.integers(0, classes, options.batch).astype(np.int32)


PROGRAM = garden.Program(
    "ResNet-50", {"training": training, "inference": inference}, "images", 16, 4, ("float16", "float32")
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
