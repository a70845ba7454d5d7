"""Images: the MNIST examples' networks, blocks of residual networks, patches of vision transformers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import mnist_classifier
import mnist_cnn
from models import resnet

from .program import MakeProgram, Program, array, indices, program, weights


def _one_hot(size: int) -> Any:
    return np.eye(10, dtype=np.float32)[indices(size, 10)]


def mlp_step() -> Program:
    """The training step of examples/mnist/mnist_classifier.py, batch 128."""
    state = jax.tree.map(np.asarray, jax.jit(mnist_classifier.init, backend="cpu")(jax.random.PRNGKey(0)))
    images = np.abs(array(128, 28, 28, 1))
    return Program(
        lambda state, batch: mnist_classifier.update_step(0, state, batch), (state, (images, _one_hot(128))), True
    )


def cnn_step() -> Program:
    """The training step of examples/mnist/mnist_cnn.py with dropout on images of CIFAR's size, batch 32."""
    shape = (32, 32, 3)
    init = jax.jit(lambda k: mnist_cnn.init(k, shape), backend="cpu")
    batch = (np.abs(array(32, *shape)), _one_hot(32))

    def step(params: Any, number: Any, batch: Any) -> Any:
        return mnist_cnn.update_step(0, number, params, batch)

    return Program(step, (jax.tree.map(np.asarray, init(jax.random.PRNGKey(0))), np.int32(0), batch), True)


def residual_block_step(batch: int = 8) -> Program:
    """Loss and gradient of a bottleneck block with batch norms in training mode: 256 channels, 28x28, and SGD."""
    params = resnet.init_block(np.random.default_rng(0), 256, 64, 256, 1)

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(resnet.block(params, x, 1, training=True)[0] ** 2)

    def step(params: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value

    return Program(step, (params, array(batch, 28, 28, 256)), True)


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def _batch_norm_gradient(x: Any, scale: Any, shift: Any) -> Any:
    return jax.grad(lambda *a: jnp.sum(jax.nn.relu(_batch_norm(*a)) ** 2), (0, 1, 2))(x, scale, shift)


def _patches(images: Any, kernel: Any, positions: Any) -> Any:
    """ViT: patches of 16x16 pixels, flattened, times a matrix."""
    batch, height, width, channels = images.shape
    x = images.reshape(batch, height // 16, 16, width // 16, 16, channels).swapaxes(2, 3)
    return x.reshape(batch, -1, 16 * 16 * channels) @ kernel + positions


def _max_pool_gradient(x: Any) -> Any:
    return jax.grad(lambda x: mnist_cnn.max_pool(x).sum())(x)


def _convolution(x: Any, w: Any, groups: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups)


PROGRAMS: dict[str, MakeProgram] = {
    "MLP step, batch 128": mlp_step,
    "CNN step, batch 32, 32x32x3": cnn_step,
    "resnet block step, batch 8": residual_block_step,
    "batch norm 32x28x28x64": program(_batch_norm, array(32, 28, 28, 64), array(64), array(64)),
    "batch norm gradient": program(_batch_norm_gradient, array(32, 28, 28, 64), array(64), array(64)),
    "ViT patches 8x224x224x3": program(_patches, array(8, 224, 224, 3), weights(768, 384), array(196, 384)),
    "max-pool gradient": program(_max_pool_gradient, array(32, 28, 28, 32)),
    "conv 3x3 64 channels": program(_convolution, array(32, 16, 16, 64), weights(3, 3, 64, 64)),
    "depthwise conv 3x3": program(lambda x, w: _convolution(x, w, 64), array(16, 32, 32, 64), weights(3, 3, 1, 64)),
}
