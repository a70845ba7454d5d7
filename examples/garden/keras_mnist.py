"""A Keras classifier of handwritten digits: two dense layers and the scores.

    python examples/garden/keras_mnist.py [--batch N] [--steps N] [--ipus N] [--small] [--estimate]

Nothing is downloaded: the digits are scikit-learn's, enlarged from 8 x 8 to 28 x 28 pixels.
Needs keras: pip install 'jax_ipu[garden]'.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import garden
import keras_training
from garden import Job, Options


def network(side: int, widths: tuple[int, int]) -> Any:
    """Returns the model."""
    import keras
    from keras.layers import Dense, Flatten

    keras.utils.set_random_seed(0)
    hidden = [Dense(width, activation="relu") for width in widths]
    return keras.Sequential([keras.Input((side, side)), Flatten(), *hidden, Dense(10, activation="softmax")])


def training(options: Options) -> Job:
    """A training step with SGD."""
    import keras

    side, widths = (8, (16, 16)) if options.small else (28, (128, 256))

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        images, labels = keras_training.digits()
        chosen = np.random.default_rng(number).integers(0, len(images), options.batch)
        places = np.arange(side) * 8 // side
        return images[chosen][:, places[:, None], places], labels[chosen]

    return keras_training.job(network(side, widths), keras.optimizers.SGD(0.05), batch, options)


PROGRAM = garden.Program("Keras MNIST", {"training": training}, "images", 32, 4, packages=("keras", "sklearn"))

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
