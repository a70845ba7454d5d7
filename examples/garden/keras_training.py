"""A training step of a Keras model as a function, by Keras' stateless interface; Keras runs on JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from garden import Job, Options

os.environ.setdefault("KERAS_BACKEND", "jax")


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Returns scikit-learn's 1,797 digits, float32[1797, 8, 8] between 0 and 1, and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images.astype(np.float32) / 16, found.target.astype(np.int32)


def job(model: Any, optimizer: Any, batch: Callable[[int], Any], options: Options) -> Job:
    """The job of a model whose last layer is a softmax; a batch is (images, labels)."""
    import jax
    import keras

    of_scores = keras.losses.SparseCategoricalCrossentropy()
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    first = jax.tree.map(lambda variable: np.array(variable.value), variables)

    def loss(trained: Any, other: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        scores, other = model.stateless_call(trained, other, images, training=True)
        return of_scores(labels, scores), other

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        trained, other, moments = state
        (value, other), gradients = jax.value_and_grad(loss, has_aux=True)(trained, other, *batch)
        trained, moments = optimizer.stateless_apply(moments, gradients, trained)
        return (trained, other, moments), value

    return Job(step, lambda: jax.tree.map(jax.numpy.asarray, first), batch, options.batch)
