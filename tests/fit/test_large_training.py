"""Training steps that are known to fit on one IPU fit on its model, too."""

import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
from support import bert

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from models import resnet

HEADS = 16


def in_half(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float16), tree)


def estimated(step, *arguments):
    return jax_ipu.estimate(step, *arguments, target="ipu2", donate_argnums=0)


@pytest.mark.nightly
@pytest.mark.parametrize(("batch", "recomputed"), [(14, False), (16, False), (16, True)])
def test_resnet_50(batch, recomputed, monkeypatch) -> None:
    """In float16 as it is, and with each block's activations recomputed, a usual measure for this model on an IPU."""
    if recomputed:
        block = functools.partial(jax.checkpoint, static_argnums=(2, 3))(resnet.block)
        monkeypatch.setattr(resnet, "block", block)
    images = jax.ShapeDtypeStruct((batch, 224, 224, 3), jnp.float16)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)

    def step(params, images, labels):  # JAX keeps what it traced of a function
        return resnet.training_step(params, images, labels)

    estimate = estimated(step, in_half(resnet.init(0)), images, labels)
    assert estimate.fits, estimate.reason


@pytest.mark.nightly
@pytest.mark.parametrize(("length", "batch"), [(128, 8), (128, 16), (128, 32), (384, 16)])
def test_a_layer_of_bert_large(length, batch) -> None:
    """SGD on one encoder layer in float16, and the gradient for the layer before; its softmax is in float32."""
    config = bert.Config(vocabulary=8, width=1024, layers=1, heads=HEADS)
    params = in_half(bert.init(0, config)["layers"][0])
    x = jax.ShapeDtypeStruct((batch, length, config.width), jnp.float16)

    def step(params, x):
        def loss(params, x):
            return jnp.mean(bert._layer(params, x, HEADS).astype(jnp.float32) ** 2)

        value, (gradient, previous) = jax.value_and_grad(loss, argnums=(0, 1))(params, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value, previous

    estimate = estimated(step, params, x)
    assert estimate.fits, estimate.reason
