"""Large models: programs of seconds on XLA:CPU, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import model as gpt
from models import lstm, resnet, unet
from support import bert

from .operations import chain
from .program import MakeProgram, Program, array, indices, key
from .randomness import monte_carlo
from .signals import pipeline, response
from .simulation import STENCILS, n_body


class Large(NamedTuple):
    """A program and the number of its IPUs, which replicate the first argument and split the others."""

    make: MakeProgram
    ipus: int = 1


def resnet_inference() -> Program:
    """ResNet-50, four images of 224x224."""
    return Program(
        lambda params, x: resnet.logits(params, x)[0], (resnet.init(0), array(4, 224, 224, 3)), tolerance=1e-2
    )


def _resnet_training(batch: int) -> MakeProgram:
    def make() -> Program:
        arguments = (resnet.init(0), array(batch, 224, 224, 3), indices(batch, 1000))
        return Program(resnet.training_step, arguments, True, tolerance=1e-2)

    return make


def bert_forward() -> Program:
    """The encoder of BERT-base, a sequence of 128 tokens."""
    config = bert.Config()
    tokens, segments, _ = bert.batch(0, 1, 128, config)
    params = {name: part for name, part in bert.init(0, config).items() if name != "head"}
    return Program(lambda p, t, s: bert.encode(p, t, s, config), (params, tokens, segments), tolerance=1e-2)


def _gpt_decode(dtype: Any, tolerance: float) -> MakeProgram:
    """GPT-2 small, one token with a cache of 1,024 positions."""
    config = gpt.Config()

    def step(cache: Any, params: Any, token: Any, position: Any) -> Any:
        scores, cache = gpt.decode(params, cache, token, position, config)
        return cache, scores

    def make() -> Program:
        cache = jax.tree.map(
            lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(lambda: gpt.empty_cache(1, config, dtype))
        )
        arguments = (cache, gpt.init(0, config, dtype), np.array([11], np.int32), np.int32(500))
        return Program(step, arguments, True, tolerance=tolerance)

    return make


def gpt_decoding() -> Program:
    """The network of examples/gpt with 4 layers of width 256 and 1,000 tokens: 64 steps of greedy decoding, f32."""
    config = gpt.Config(vocabulary=1000, positions=64, width=256, layers=4, heads=4)

    def decode(params: Any, token: Any) -> Any:
        def step(carry: Any, position: Any) -> Any:
            cache, token = carry
            scores, cache = gpt.decode(params, cache, token, position, config)
            token = jnp.argmax(scores, -1).astype(jnp.int32)
            return (cache, token), token

        return jax.lax.scan(step, (gpt.empty_cache(1, config), token), jnp.arange(64))[1]

    return Program(decode, (gpt.init(0, config), np.array([1], np.int32)))


def _unet_training() -> Program:
    labels = indices((2, 128, 128), 2)
    return Program(unet.training_step, (unet.init(0), array(2, 128, 128, 3), labels), True, tolerance=1e-2)


def _lstm_training() -> Program:
    """Three layers of 512 features over 64 steps, batch 16."""

    def loss(params: Any, x: Any) -> Any:
        for layer in params:
            x = lstm.layer(layer, x)
        return jnp.mean(x**2)

    def step(params: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), value

    return Program(step, ([lstm.init_layer(i, 512, 512) for i in range(3)], array(64, 16, 512)), True)


def _stencil(update: Callable[[Any, int], Any]) -> MakeProgram:
    return lambda: Program(lambda u: update(u, 1000), (array(1024, 1024),))


LARGE: dict[str, Large] = {
    "ResNet-50 inference b4": Large(resnet_inference),
    "ResNet-50 training b1": Large(_resnet_training(1)),
    "ResNet-50 training b4, 4 IPUs": Large(_resnet_training(4), 4),
    "BERT-base forward b1 s128": Large(bert_forward),
    "GPT-2 small decode f32": Large(_gpt_decode(np.float32, 1e-2)),
    "GPT-2 small decode f16": Large(_gpt_decode(np.float16, 5e-2)),
    "U-Net training b2 128x128": Large(_unet_training),
    "LSTM 3x512 training T=64": Large(_lstm_training),
    **{f"stencil {name} 1024x1024 x 1000": Large(_stencil(f)) for name, f in STENCILS.items()},
    "N-body 4096": Large(lambda: Program(n_body, (array(4096, 3), array(4096, 3), abs(array(4096))))),
    "Monte Carlo 1M x 16": Large(lambda: Program(lambda k: monte_carlo(k, 1 << 20, 16), (key(),))),
    "FFT pipeline 256x4096": Large(lambda: Program(pipeline, (array(256, 4096), response(4096)))),
    "chain of 8 products 2048, tanh": Large(chain(2048, 9)),
}
