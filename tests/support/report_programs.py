"""Functions whose reports the tests make, their arguments as shapes, and the data in a page."""

import base64
import json
import re
import zlib

import jax
import jax.numpy as jnp


def shape(*sizes, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=sharding)


def mnist_step(params, images, labels):
    def loss(params):
        hidden = jnp.maximum(images @ params["w1"] + params["b1"], 0)
        logits = hidden @ params["w2"] + params["b2"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 10), axis=1))

    with jax.named_scope("gradient"):
        value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


def mnist_arguments(batch=32, hidden=64):
    params = {"w1": shape(784, hidden), "b1": shape(hidden), "w2": shape(hidden, 10), "b2": shape(10)}
    return params, shape(batch, 784), shape(batch, dtype=jnp.int32)


def cnn(kernels, x):
    for kernel in kernels:
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jnp.maximum(x, 0)
    return x.mean((1, 2))


def loops(x, n):
    x = jax.lax.while_loop(lambda c: c[1] > 0, lambda c: (jnp.sin(c[0]), c[1] - 1), (x, n))[0]
    x = jax.lax.scan(lambda c, row: (c + row, c.sum()), x[0], x)[0]
    return jax.lax.cond(n > 3, lambda y: y @ y.T @ y, jnp.cos, x.reshape(4, 8))


def stored(page, name="report-data"):
    """Returns the data that the text of a page holds."""
    found = re.search(f'<script type="application/octet-stream;base64" id="{name}">(.*?)</script>', page)
    return json.loads(zlib.decompress(base64.b64decode(found.group(1)), -15))
