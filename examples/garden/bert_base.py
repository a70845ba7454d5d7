"""BERT-base: pre-training as a masked language model, and the answers of a question-answering model.

    python examples/garden/bert_base.py [--task training|inference] [--batch N] [--ipus N] [--small] [--estimate]

"training" takes sequences of 128 tokens, 15 % of them masked; in float16 it learns by gradient descent and fits one
IPU, in float32 by AdamW, with weights and moments split over the IPUs. "inference" scores where in 384 tokens an
answer begins and ends. Tokens are random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
from jax import Array

import bert_model
import garden
import layers
from garden import Job, Options

SMALL = bert_model.Config(97, 32, 32, 1, 4)


def training(options: Options) -> Job:
    """A step of pre-training."""
    config, half = SMALL if options.small else bert_model.Config(), options.precision == "float16"
    length = 16 if options.small else 128
    optimizer = optax.sgd(0.05) if half else optax.adamw(1e-3, eps=1e-5)

    def loss(params: Any, batch: tuple[Array, Array, Array]) -> Array:
        return bert_model.loss(params, *batch, config, recompute=True)

    def state() -> Any:
        params = bert_model.init(0, config, np.dtype(options.precision))
        return params, layers.moments(optimizer, params)

    return Job(
        layers.training_step(loss, optimizer, 1024.0 if half else 1.0),
        state,
        lambda number: bert_model.batch(number, options.batch, length, config),
        options.batch,
        garden.split_longest(options.ipus),
    )


def inference(options: Options) -> Job:
    """The scores of each token as the beginning and the end of an answer: [batch, length, 2]."""
    config, length = (SMALL, 16) if options.small else (bert_model.Config(), 384)
    dtype = np.dtype(options.precision)

    def state() -> Any:
        params = bert_model.init(0, config, dtype)
        del params["head"]
        return params | {"answer": layers.dense_init(np.random.default_rng(0), config.width, 2, dtype, 0.02)}

    def step(params: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        return params, layers.dense(params["answer"], bert_model.encode(params, *batch, config))

    return Job(step, state, lambda number: bert_model.batch(number, options.batch, length, config)[:2], options.batch)


PROGRAM = garden.Program(
    "BERT-base", {"training": training, "inference": inference}, "sequences", 4, 2, ("float16", "float32")
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
