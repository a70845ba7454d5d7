"""ResNet-50 (He et al. 2016) over images [batch, height, width, 3], with batch norms in training or inference mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Params = Any
# Blocks and width of each stage; a block has four times as many channels outside.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


def init(seed: int, classes: int = 1000) -> Params:
    """Returns random parameters and the norms' statistics as NumPy arrays."""
    rng = np.random.default_rng(seed)
    stages, channels = [], 64
    for index, (blocks, width) in enumerate(STAGES):
        stage = []
        for number in range(blocks):
            stage.append(init_block(rng, channels, width, 4 * width, 2 if index and not number else 1))
            channels = 4 * width
        stages.append(stage)
    dense = (rng.standard_normal((channels, classes), np.float32) * np.float32(0.01), np.zeros(classes, np.float32))
    return {"stem": _init_convolution(rng, 7, 3, 64), "stages": stages, "dense": dense}


def init_block(rng: np.random.Generator, channels: int, width: int, out: int, stride: int) -> Params:
    """Returns the parameters of a bottleneck block: 1x1, 3x3, 1x1, and a projection if the shape changes."""
    params = {
        "reduce": _init_convolution(rng, 1, channels, width),
        "spatial": _init_convolution(rng, 3, width, width),
        "expand": _init_convolution(rng, 1, width, out),
    }
    if channels != out or stride != 1:
        params["project"] = _init_convolution(rng, 1, channels, out)
    return params


def block(params: Params, x: Any, stride: int, training: bool) -> tuple[Any, Params]:
    """Returns the result of a block and its parameters with the norms' new statistics."""
    new = dict(params)
    y, new["reduce"] = _convolution(params["reduce"], x, 1, training)
    y, new["spatial"] = _convolution(params["spatial"], jax.nn.relu(y), stride, training)
    y, new["expand"] = _convolution(params["expand"], jax.nn.relu(y), 1, training)
    if "project" in params:
        x, new["project"] = _convolution(params["project"], x, stride, training)
    return jax.nn.relu(x + y), new


def logits(params: Params, images: Any, training: bool = False) -> tuple[Any, Params]:
    """Returns the scores, [batch, classes], and the parameters with the norms' new statistics."""
    new = dict(params)
    x, new["stem"] = _convolution(params["stem"], images, 2, training)
    x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    new["stages"] = []
    for index, stage in enumerate(params["stages"]):
        new["stages"].append([])
        for number, weights in enumerate(stage):
            x, weights = block(weights, x, 2 if index and not number else 1, training)
            new["stages"][-1].append(weights)
    kernel, bias = params["dense"]
    return x.mean((1, 2)) @ kernel + bias, new


def training_step(params: Params, images: Any, labels: Any) -> tuple[Params, Any]:
    """One step of SGD on the cross entropy with integer labels: new parameters and the loss."""

    def loss(params: Params) -> tuple[Any, Params]:
        scores, new = logits(params, images, training=True)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1)), new

    (value, new), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    # The statistics of the norms have no gradient.
    return jax.tree.map(lambda p, g: p - 0.01 * g, new, gradient), value


def _init_convolution(rng: np.random.Generator, size: int, channels: int, out: int) -> Params:
    scale = np.float32((2 / (size * size * channels)) ** 0.5)
    return {
        "kernel": rng.standard_normal((size, size, channels, out), np.float32) * scale,
        "scale": np.ones(out, np.float32),
        "shift": np.zeros(out, np.float32),
        "mean": np.zeros(out, np.float32),
        "variance": np.ones(out, np.float32),
    }


def _convolution(params: Params, x: Any, stride: int, training: bool) -> tuple[Any, Params]:
    """A convolution and its batch norm."""
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, params["kernel"], (stride, stride), "SAME", dimension_numbers=numbers)
    mean, variance, new = params["mean"], params["variance"], params
    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        new = {
            **params,
            "mean": lax.stop_gradient(0.9 * params["mean"] + 0.1 * mean),
            "variance": lax.stop_gradient(0.9 * params["variance"] + 0.1 * variance),
        }
    return (x - mean) * (lax.rsqrt(variance + 1e-5) * params["scale"]) + params["shift"], new
