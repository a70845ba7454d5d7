"""The program of the screenshots: a training step of a small convolutional network."""

from functools import partial

import jax
import jax.numpy as jnp

NHWC = ("NHWC", "HWIO", "NHWC")
convolution = partial(jax.lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=NHWC)


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def network(params, images):
    x = jax.nn.relu(convolution(images, params["first"]))
    x = pool(jax.nn.relu(convolution(x, params["second"])))
    x = pool(jax.nn.relu(convolution(x, params["third"])))
    x = jax.nn.relu(x.mean((1, 2)) @ params["hidden"])
    return x @ params["output"]


def loss(params, images, labels):
    logits = network(params, images)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 10), axis=1))


def train_step(params, images, labels):
    value, gradients = jax.value_and_grad(loss)(params, images, labels)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value


def arguments(dtype, batch=64):
    """Shapes of the arguments of `train_step`."""

    def shape(*sizes):
        return jax.ShapeDtypeStruct(sizes, dtype)

    params = {
        "first": shape(3, 3, 3, 32),
        "second": shape(3, 3, 32, 64),
        "third": shape(3, 3, 64, 128),
        "hidden": shape(128, 256),
        "output": shape(256, 10),
    }
    return params, shape(batch, 32, 32, 3), jax.ShapeDtypeStruct((batch,), jnp.int32)
