"""Functions whose reports the tests make, their arguments as shapes, and the data in a page."""

import base64
import json
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from support.supersteps import expanded


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


TILES = 32
TARGET = f"ipu2:{TILES}"


def replicated(x):
    return x - x.mean(0)


MESH = AbstractMesh((4,), ("ipus",), axis_types=(AxisType.Auto,))
# Function, arguments, donated arguments.
PROGRAMS = {
    "MNIST step": (mnist_step, mnist_arguments(), (0,)),
    "CNN": (cnn, ([shape(3, 3, 4, 8), shape(3, 3, 8, 16)], shape(2, 16, 16, 4)), ()),
    "loops and conditional": (loops, (shape(8, 32), shape(dtype=jnp.int32)), ()),
    "four IPUs": (replicated, (shape(64, 48, sharding=NamedSharding(MESH, P("ipus"))),), ()),
    "too large for its buffers": (jnp.dot, (shape(1290, 1290), shape(1290, 1290)), ()),
    "too large": (lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x)), (shape(1500, 1000),), ()),
    "much too large": (lambda x: x @ x.T, (shape(90000, 90000),), ()),
    "nothing": (lambda x: x, (shape(8),), ()),
}
LARGE = ("too large for its buffers", "too large", "much too large")
# Programs whose operations were not planned: their costs are unknown.
NOT_PLANNED = ("too large", "much too large")


def stored(page, name="report-data"):
    """Returns the data that the text of a page holds."""
    found = re.search(f'<script type="application/octet-stream;base64" id="{name}">(.*?)</script>', page)
    return json.loads(zlib.decompress(base64.b64decode(found.group(1)), -15))


def matrix(table):
    """Returns a table of the report, one row a step."""
    rows = []
    for row in table["data"]:
        rows.append(rows[row["same"]] if isinstance(row, dict) and "same" in row else expanded(row))
    result = np.array(rows, np.int64).reshape(table["rows"], table["columns"])
    assert len(rows) == table["rows"]
    return result


def tile_bytes(data):
    """Returns the bytes of each variable on each tile."""
    rows = []
    for variable in data["variables"]:
        row = variable["tile_bytes"]
        rows.append(rows[row["same"]] if "same" in row else expanded(row))
    return rows


def ranges(variable):
    """Returns the first and last steps in which the variable is live."""
    ends = variable.get("ranges") or [variable["first_step"], variable["last_step"]]
    return list(zip(ends[::2], ends[1::2], strict=True))


def error_text(error):
    """Returns a relative error as the manual's tables have it."""
    return "unknown" if error is None else f"{100 * error:.0f} %"
