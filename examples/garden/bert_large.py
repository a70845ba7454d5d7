"""BERT-Large: pre-training as a masked language model, with its layers on 4 or 16 IPUs as a pipeline.

    python examples/garden/bert_large.py [--ipus 4|16] [--batch N] [--small] [--estimate] [--report FILE.svg]

The first IPU has the embeddings, the last one the scores of the vocabulary, whose matrix is its own: weights are not
shared by two stages. A micro-batch has two sequences of 128 tokens; weights are float16, their gradients are summed in
float32, and they learn by gradient descent. Tokens are random.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from jax import Array

import bert_model
import garden
from garden import Options, PipelineJob

CONFIG = bert_model.Config(width=1024, layers=24, heads=16)
SMALL = bert_model.Config(97, 32, 32, 4, 4)
MICRO_BATCH, LENGTH = 2, 128
LOSS_SCALE = 128.0
# How many of the 24 layers are on each IPU; embeddings and scores take the room of some.
LAYERS = {4: (5, 7, 7, 5), 16: (0, *[2] * 10, *[1] * 4, 0)}


def training(options: Options) -> PipelineJob:
    """A step of pre-training; an IPU computes one micro-batch while its neighbours compute others."""
    config, length = (SMALL, 16) if options.small else (CONFIG, LENGTH)
    micro = 1 if options.small else MICRO_BATCH
    if options.batch % micro:
        raise ValueError(f"a batch of {options.batch} does not divide into micro-batches of {micro}")
    counts = (0, 2, 2, 0) if options.small else LAYERS[options.ipus]

    def first(params: Any, x: tuple[Array, Array]) -> Array:
        return bert_model.encoder(params["layers"], bert_model.embed(params["embeddings"], *x), config.heads, True)

    def middle(params: Any, x: Array) -> Array:
        return bert_model.encoder(params["layers"], x, config.heads, True)

    def last(params: Any, x: Array, labels: Array) -> Array:
        x = bert_model.encoder(params["layers"], x, config.heads, True)
        return LOSS_SCALE * bert_model.masked_loss(params["head"], params["tokens"], x, labels)

    def params() -> list[Any]:
        whole = bert_model.init(0, config, np.dtype(options.precision))
        ends = np.cumsum(counts)
        stages: list[Any] = [{"layers": whole["layers"][end - n : end]} for n, end in zip(counts, ends, strict=True)]
        stages[0]["embeddings"] = whole["embeddings"]
        stages[-1] |= {"head": whole["head"], "tokens": whole["embeddings"]["tokens"]}
        return jax.tree.map(jax.numpy.asarray, stages)

    def batch(number: int) -> Any:
        tokens, segments, labels = bert_model.batch(number, options.batch, length, config)
        return (tokens, segments), labels

    # The gradients are those of the scaled loss.
    optimizer = optax.chain(optax.scale(1 / LOSS_SCALE), optax.sgd(0.05))
    stages = [first, *[middle] * (len(counts) - 2), last]
    return PipelineJob(stages, params, optimizer, options.batch // micro, batch, options.batch, LOSS_SCALE)


PROGRAM = garden.Program(
    "BERT-Large", {"training": partial(training)}, "sequences", 256, 2, ("float16", "float32"), ipus=(4, 16)
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
