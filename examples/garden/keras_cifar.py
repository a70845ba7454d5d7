"""The Keras CNN of Graphcore's workshop, for images of the size of CIFAR-10: SGD at 0.016.

    python examples/garden/keras_cifar.py [--batch N] [--steps N] [--ipus N] [--small] [--estimate]

Nothing is downloaded: the images are scikit-learn's digits in three random colours, enlarged to 32 x 32. The layers
are the workshop's, with dropout, and run on the IPU because Keras runs on JAX.
Needs keras: pip install 'jax_ipu[garden]'.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import garden
import keras_training
from garden import Job, Options


def network(side: int, width: int, hidden: int) -> Any:
    """Returns the model; `width` is that of the first convolutions."""
    import keras
    from keras.layers import Activation, Conv2D, Dense, Dropout, Flatten, MaxPooling2D

    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((side, side, 3)),
            Conv2D(width, 3, padding="same"),
            Activation("relu"),
            Conv2D(width, 3),
            Activation("relu"),
            MaxPooling2D(2),
            Dropout(0.25),
            Conv2D(2 * width, 3, padding="same"),
            Activation("relu"),
            Conv2D(width, 3),
            Activation("relu"),
            MaxPooling2D(2),
            Dropout(0.25),
            Flatten(),
            Dense(hidden),
            Activation("relu"),
            Dropout(0.5),
            Dense(10),
            Activation("softmax"),
        ]
    )


def training(options: Options) -> Job:
    """A training step with SGD."""
    import keras

    side, width, hidden = (16, 4, 16) if options.small else (32, 32, 512)

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        images, labels = keras_training.digits()
        rng = np.random.default_rng(number)
        chosen = rng.integers(0, len(images), options.batch)
        large = images[chosen].repeat(side // 8, 1).repeat(side // 8, 2)[..., None]
        return large * rng.uniform(0.3, 1, (options.batch, 1, 1, 3)).astype(np.float32), labels[chosen]

    return keras_training.job(network(side, width, hidden), keras.optimizers.SGD(0.016), batch, options)


PROGRAM = garden.Program(
    "Keras CNN for CIFAR-10", {"training": training}, "images", 64, 4, packages=("keras", "sklearn")
)

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
