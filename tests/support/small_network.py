"""A network of two layers as a function and its weights."""

import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(0)
W1 = RNG.normal(size=(64, 128)).astype(np.float32) / 8
W2 = RNG.normal(size=(128, 10)).astype(np.float32) / 11
X = RNG.normal(size=(32, 64)).astype(np.float32)


def apply(params, x):
    """The outputs of the network."""
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


PARAMS = {"w1": W1, "w2": W2}
EXPECTED = np.tanh(X @ W1) @ W2
LABELS = RNG.integers(0, 10, 32).astype(np.int32)
