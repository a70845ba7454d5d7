"""Keras 3 models with the JAX backend, trained by Keras's own loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from support.zoo.row import Case, Row


def _keras() -> Any:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    return keras


def _case(build: Callable[[Any], Any], shape: tuple[int, ...], classes: int, *, training: bool, policy: str) -> Case:
    """`build(keras)` returns a classifier, which ends with a softmax for training and with logits otherwise.

    An untrained network's probabilities are nearly equal, so a comparison of them would prove nothing.
    """
    rng = np.random.default_rng(0)
    images = rng.random(shape, np.float32)
    labels = rng.integers(0, classes, shape[0])

    def steps(platform: str) -> Any:
        import jax

        keras = _keras()
        device = jax.devices(platform)[0]
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            with jax.default_device(device):
                keras.utils.set_random_seed(0)
                model = build(keras)
                model.compile(keras.optimizers.SGD(1e-3), "sparse_categorical_crossentropy")
        finally:
            keras.config.set_dtype_policy(before)

        def step() -> Any:
            with jax.default_device(device):
                if training:
                    return np.asarray(model.train_on_batch(images, labels))
                return np.asarray(model.predict_on_batch(images), np.float32)

        return step

    return Case(lambda: steps("ipu"), lambda: steps("cpu"))


def _cnn(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def _resnet50(keras: Any) -> Any:
    return keras.applications.ResNet50(weights=None)


def _resnet50_logits(keras: Any) -> Any:
    return keras.applications.ResNet50(weights=None, classifier_activation=None)


def _mobilenet_logits(keras: Any) -> Any:
    return keras.applications.MobileNetV3Small(weights=None, include_preprocessing=False, classifier_activation=None)


def _row(
    name: str,
    build: Callable[[Any], Any],
    shape: tuple[int, ...],
    classes: int,
    precision: str,
    tolerance: float,
    *,
    training: bool,
    small: bool = False,
) -> Row:
    policy = {"float32": "float32", "mixed": "mixed_float16"}[precision]
    task = "training" if training else "inference"

    def case() -> Case:
        return _case(build, shape, classes, training=training, policy=policy)

    return Row(name, "Keras", task, precision, 1, tolerance, case, ("keras",), small=small)


_IMAGES = (4, 224, 224, 3)
ROWS = [
    _row("CNN 28x28 b8", _cnn, (8, 28, 28, 1), 10, "float32", 1e-4, training=True, small=True),
    _row("CNN 28x28 b8", _cnn, (8, 28, 28, 1), 10, "mixed", 1e-2, training=True, small=True),
    _row("MobileNetV3 small b4", _mobilenet_logits, _IMAGES, 1000, "float32", 1e-3, training=False),
    _row("ResNet50 b4", _resnet50_logits, _IMAGES, 1000, "mixed", 3e-2, training=False),
    _row("ResNet50 b4", _resnet50, _IMAGES, 1000, "mixed", 3e-2, training=True),
]
