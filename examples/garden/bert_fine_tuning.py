"""Fine-tuning of a small BERT: which of four topics of Python's help a sentence is from.

    python examples/garden/bert_fine_tuning.py [--batch N] [--steps N] [--ipus N] [--small] [--estimate]

The sentences are those of pydoc_data.topics, which is part of the standard library. A word is its place in the list of
the most frequent ones. The first token of a sentence is read by a dense layer. The encoder begins at random weights,
as nothing is downloaded; it is the size of BERT-mini.
"""

from __future__ import annotations

import collections
import functools
import pydoc_data.topics
import re
from typing import Any

import numpy as np
import optax
from jax import Array

import bert_model
import garden
import layers
from garden import Job, Options

TOPICS = ("calls", "exceptions", "class", "strings")
FULL = bert_model.Config(1000, 32, 256, 4, 4)
SMALL = bert_model.Config(200, 16, 32, 1, 4)
# Numbers of tokens that are no words.
PADDING, UNKNOWN, FIRST = 0, 1, 2


@functools.cache
def sentences(vocabulary: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int32[sentences, length] and the topic of each."""
    texts = [
        (number, re.findall(r"[a-z_]+", sentence.lower()))
        for number, topic in enumerate(TOPICS)
        for sentence in re.split(r"[.:]\s", pydoc_data.topics.topics[topic])
    ]
    texts = [(number, words) for number, words in texts if len(words) > 3]
    frequent = collections.Counter(word for _, words in texts for word in words).most_common(vocabulary - 3)
    numbers = {word: number for number, (word, _) in enumerate(frequent, start=3)}
    tokens = np.full((len(texts), length), PADDING, np.int32)
    for row, (_, words) in zip(tokens, texts, strict=True):
        found = [FIRST, *[numbers.get(word, UNKNOWN) for word in words]][:length]
        row[: len(found)] = found
    return tokens, np.array([number for number, _ in texts], np.int32)


def training(options: Options) -> Job:
    """A training step with AdamW."""
    config = SMALL if options.small else FULL
    optimizer = optax.adamw(5e-4)
    tokens, topics = sentences(config.vocabulary, config.positions)

    def loss(params: Any, batch: tuple[Array, Array, Array]) -> Array:
        tokens, segments, topics = batch
        first = bert_model.encode(params, tokens, segments, config)[:, 0]
        return layers.cross_entropy(layers.dense(params["topic"], first), topics)

    def state() -> Any:
        params = bert_model.init(0, config)
        del params["head"]
        params |= {"topic": layers.dense_init(np.random.default_rng(0), config.width, len(TOPICS), np.float32, 0.02)}
        return params, layers.moments(optimizer, params)

    def batch(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        chosen = np.random.default_rng(number).integers(0, len(tokens), options.batch)
        return tokens[chosen], np.zeros_like(tokens[chosen]), topics[chosen]

    return Job(layers.training_step(loss, optimizer), state, batch, options.batch)


PROGRAM = garden.Program("BERT-mini, fine-tuning", {"training": training}, "sentences", 32, 4)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
