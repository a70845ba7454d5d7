"""Layers that several programs share: functions over pytrees of weights. Images are [batch, y, x, channel]."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

Params = dict[str, Any]


def moments(optimizer: optax.GradientTransformation, params: Any) -> Any:
    """Returns the optimizer's state for these weights."""
    return jax.jit(optimizer.init)(params)


def dense_init(rng: np.random.Generator, n_in: int, n_out: int, dtype: Any, scale: float | None = None) -> Params:
    """Returns a matrix [n_in, n_out] of normal numbers, by default as He initialises it, and a bias of zeros."""
    kernel = rng.standard_normal((n_in, n_out), np.float32) * (math.sqrt(2 / n_in) if scale is None else scale)
    return {"kernel": kernel.astype(dtype), "bias": np.zeros(n_out, dtype)}


def dense(params: Params, x: Array) -> Array:
    """Returns x W + b over the last dimension."""
    return x @ params["kernel"] + params["bias"]


def convolution_init(rng: np.random.Generator, size: int, n_in: int, n_out: int, dtype: Any) -> np.ndarray:
    """Returns a kernel [size, size, n_in, n_out] as He initialises it; `n_in` are the channels of one group."""
    kernel = rng.standard_normal((size, size, n_in, n_out), np.float32) * math.sqrt(2 / (size * size * n_in))
    return kernel.astype(dtype)


def convolution(kernel: Array, x: Array, stride: int = 1, groups: int = 1) -> Array:
    """Returns the convolution with zeros around the image."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=layout, feature_group_count=groups
    )


def norm_init(width: int, dtype: Any) -> Params:
    """Returns the scale and the offset of a normalisation."""
    return {"scale": np.ones(width, dtype), "bias": np.zeros(width, dtype)}


def layer_norm(params: Params, x: Array, epsilon: float = 1e-6) -> Array:
    """Normalises over the last dimension, in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + epsilon)
    return normal.astype(x.dtype) * params["scale"] + params["bias"]


def group_norm(params: Params, x: Array, groups: int, epsilon: float = 1e-3) -> Array:
    """Normalises every group of channels of every image, in float32."""
    batch, height, width, channels = x.shape
    parts = x.astype(jnp.float32).reshape(batch, height, width, groups, channels // groups)
    mean = parts.mean((1, 2, 4), keepdims=True)
    variance = ((parts - mean) ** 2).mean((1, 2, 4), keepdims=True)
    normal = (parts - mean) * jax.lax.rsqrt(variance + epsilon)
    return normal.reshape(x.shape).astype(x.dtype) * params["scale"] + params["bias"]


def cross_entropy(scores: Array, labels: Array) -> Array:
    """Returns the mean over all labels of int[...] for scores [..., classes], in float32."""
    wide = scores.astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels).mean()


def training_step(
    loss: Callable[[Any, Any], Array], optimizer: optax.GradientTransformation, scale: float = 1.0
) -> Callable[[Any, Any], tuple[Any, Array]]:
    """Returns a step ((params, moments), batch) -> ((params, moments), loss).

    `scale`: a factor of the loss, without which small gradients of float16 become zero; gradients are divided by it.
    """

    def step(state: Any, batch: Any) -> tuple[Any, Array]:
        params, moments = state
        value, gradients = jax.value_and_grad(lambda p: scale * loss(p, batch))(params)
        gradients = jax.tree.map(lambda g: g / jnp.asarray(scale, g.dtype), gradients)
        changes, moments = optimizer.update(gradients, moments, params)
        return (optax.apply_updates(params, changes), moments), value / scale

    return step
