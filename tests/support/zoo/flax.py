"""flax models."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.zoo.row import Case, Row


def _cnn() -> Case:
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Cnn(nnx.Module):
        def __init__(self, rngs: nnx.Rngs):
            self.first = nnx.Conv(1, 8, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.last = nnx.Linear(14 * 14 * 8, 10, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            x = nnx.avg_pool(nnx.relu(self.norm(self.first(x))), (2, 2), (2, 2))
            return self.last(x.reshape(x.shape[0], -1))

    rng = np.random.default_rng(0)
    images = rng.standard_normal((8, 28, 28, 1), np.float32)
    labels = rng.integers(0, 10, 8)

    def steps(platform: str) -> Any:
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            model = Cnn(nnx.Rngs(0))
            optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
            batch = jax.device_put((images, labels), device)

        @nnx.jit
        def train(model: Cnn, optimizer: Any, images: Any, labels: Any) -> Any:
            def loss(model: Cnn) -> Any:
                return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(model(images), labels))

            value, gradients = nnx.value_and_grad(loss)(model)
            optimizer.update(model, gradients)
            return value

        def step() -> Any:
            with jax.default_device(device):
                return train(model, optimizer, *batch)

        return step

    return Case(lambda: steps("ipu"), lambda: steps("cpu"))


ROWS = [Row("CNN 28x28 b8", "flax", "training", "float32", 1, 1e-4, _cnn, ("flax", "optax"), small=True)]
