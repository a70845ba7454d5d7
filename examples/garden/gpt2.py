"""GPT-2 small: training, and decoding with a cache of keys and values that stays in SRAM.

    python examples/garden/gpt2.py [--task training|decoding] [--batch N] [--ipus N] [--small] [--estimate]

The model is that of examples/gpt. In float16 it learns by gradient descent and fits one IPU; in float32 by AdamW.
"training 1024" is the same with the full context. Several IPUs hold a part of the weights and moments and some of the
sequences each; in float16 the weights of a layer are gathered where it is computed. Tokens are random.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import PartitionSpec as P

import garden
import layers
from garden import Job, Options

sys.path.insert(0, str(Path(__file__).parents[1] / "gpt"))
import model

SMALL = model.Config(97, 16, 32, 1, 4)


def training(options: Options, length: int) -> Job:
    """A training step on sequences of `length` tokens, at most; the values inside the layers are computed again."""
    config, half = SMALL if options.small else model.Config(), options.precision == "float16"
    length = min(length, config.positions)
    optimizer = optax.sgd(0.05) if half else optax.adamw(1e-3)

    def state() -> Any:
        params = model.init(0, config, np.dtype(options.precision))
        return params, layers.moments(optimizer, params)

    def batch(number: int) -> np.ndarray:
        rng = np.random.default_rng(number)
        return rng.integers(0, config.vocabulary, (options.batch, length + 1)).astype(np.int32)

    def loss(params: Any, tokens: Array) -> Array:
        # All tokens' weights in float32 do not fit beside what they are used for: those stay split.
        placement = model.Placement(*garden.gathered(options)) if half and options.ipus > 1 else None
        return model.loss(params, tokens, config, recompute=True, placement=placement)

    step = layers.training_step(loss, optimizer, 1024.0 if half else 1.0)
    return Job(step, state, batch, options.batch, garden.split_longest(options.ipus))


def decoding(options: Options) -> Job:
    """The next token of every sequence, the likeliest one; the cache has room for 1,024, and is split by sequences."""
    config = SMALL if options.small else model.Config()
    dtype = np.dtype(options.precision)

    def state() -> Any:
        params = model.init(0, config, dtype)
        first = jnp.zeros(options.batch, jnp.int32)
        return params, model.empty_cache(options.batch, config, dtype), first, jnp.int32(0)

    def step(state: Any, _: None) -> tuple[Any, Array]:
        params, cache, token, position = state
        scores, cache = model.decode(params, cache, token, position, config)
        token = jnp.argmax(scores, axis=-1).astype(jnp.int32)
        return (params, cache, token, position + 1), scores

    cache = (config.layers, options.batch, config.heads, config.positions, config.width // config.heads)

    def split(leaf: Any) -> P:
        if leaf.shape == cache:
            return P(None, garden.AXIS)
        return P(garden.AXIS) if leaf.shape == (options.batch,) else P()

    return Job(step, state, lambda number: None, options.batch, split)


PROGRAM = garden.Program(
    "GPT-2 small",
    {"training": partial(training, length=128), "training 1024": partial(training, length=1024), "decoding": decoding},
    "sequences",
    1,
    2,
    ("float16", "float32"),
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
