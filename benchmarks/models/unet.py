"""U-Net (Ronneberger et al. 2015) with padded convolutions over images [batch, height, width, 3]."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Params = Any


def init(seed: int, width: int = 32, levels: int = 4, classes: int = 2) -> Params:
    """Returns random parameters as NumPy arrays; the width doubles with every level."""
    rng = np.random.default_rng(seed)

    def convolution(size: int, channels: int, out: int) -> Params:
        scale = np.float32((2 / (size * size * channels)) ** 0.5)
        return rng.standard_normal((size, size, channels, out), np.float32) * scale, np.zeros(out, np.float32)

    def pair(channels: int, out: int) -> Params:
        return [convolution(3, channels, out), convolution(3, out, out)]

    widths = [width << level for level in range(levels + 1)]
    return {
        "down": [pair(channels, out) for channels, out in zip([3, *widths], widths, strict=False)],
        "up": [(convolution(2, 2 * w, w), pair(2 * w, w)) for w in reversed(widths[:-1])],
        "out": convolution(1, width, classes),
    }


def scores(params: Params, images: Any) -> Any:
    """Returns the scores of each pixel's classes: [batch, height, width, classes]."""
    skipped = []
    x = images
    for level, weights in enumerate(params["down"]):
        if level:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = _pair(weights, x)
        skipped.append(x)
    for ((kernel, bias), weights), left in zip(params["up"], reversed(skipped[:-1]), strict=True):
        x = lax.conv_transpose(x, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
        x = _pair(weights, jnp.concatenate([left, x], -1))
    return _convolution(params["out"], x)


def training_step(params: Params, images: Any, labels: Any) -> tuple[Params, Any]:
    """One step of SGD on the cross entropy with int[batch, height, width] labels: new parameters and the loss."""

    def loss(params: Params) -> Any:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores(params, images)), labels[..., None], -1))

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value


def _pair(weights: Params, x: Any) -> Any:
    for layer in weights:
        x = jax.nn.relu(_convolution(layer, x))
    return x


def _convolution(layer: Params, x: Any) -> Any:
    kernel, bias = layer
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
