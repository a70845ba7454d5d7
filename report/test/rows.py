"""The programs whose reports show what reports can say: python report/test/rows.py FOLDER.

It uses what all versions of the package have, so that an earlier one can make the same reports.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import train
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu


def shape(*sizes, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=sharding)


def mlp_step(params, x, y):
    def loss(params):
        with jax.named_scope("hidden"):
            h = jnp.maximum(x @ params["w1"] + params["b1"], 0)
        with jax.named_scope("head"):
            z = h @ params["w2"]
        return ((z - y) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    with jax.named_scope("update"):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


def mlp_arguments(width=1024, batch=128):
    params = {"w1": shape(784, width), "b1": shape(width), "w2": shape(width, 10)}
    return params, shape(batch, 784), shape(batch, 10)


def loops(x):
    x = jax.lax.scan(lambda c, row: (jnp.tanh(c @ x.T @ x) + row, None), x[0], x)[0]
    return jax.lax.fori_loop(0, 12, lambda _, c: jnp.sin(c) + c.sum(), x)


def sharded(w, x):
    return w - x.mean(0)


def reports(folder: Path) -> None:
    """Writes the reports as pages."""
    ipus = NamedSharding(AbstractMesh((4,), ("ipus",), axis_types=(AxisType.Auto,)), P("ipus"))
    make = jax_ipu.report
    make(mlp_step, *mlp_arguments(), target="bow", donate_argnums=0, path=folder / "mlp.html")
    make(mlp_step, *mlp_arguments(), target="bow", donate_argnums=0, advice=True, path=folder / "advice.html")
    cnn = [
        make(train.train_step, *train.arguments(dtype), target="bow", donate_argnums=0)
        for dtype in ("float32", "float16")
    ]
    cnn[0].save(folder / "cnn.html")
    cnn[0].compare(cnn[1], folder / "compare.html")
    make(sharded, shape(256, 512), shape(16, 256, 512, sharding=ipus), target="ipu2:64", path=folder / "links.html")
    make(loops, shape(64, 64), target="ipu2:64", path=folder / "loops.html")
    make(jnp.dot, *[shape(1290, 1290)] * 2, target="ipu2:32", path=folder / "buffers.html")
    make(
        lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x)), shape(1500, 1000), target="ipu2:32", path=folder / "large.html"
    )


if __name__ == "__main__":
    reports(Path(sys.argv[1]))
