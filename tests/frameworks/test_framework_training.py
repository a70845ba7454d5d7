"""Training steps of flax, equinox and Keras models, as on the CPU: shared layers, running statistics, noise."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

RNG = np.random.default_rng(0)
WORDS = np.arange(12)
LABELS = np.roll(WORDS, 1).astype(np.int32)
X = RNG.normal(size=(12, 6)).astype(np.float32)
RATE, STEPS = 0.5, 5


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def descend(loss, params):
    """Returns the losses of plain gradient descent on the CPU, and the weights after it."""
    with jax.default_device(jax.devices("cpu")[0]):
        losses = []
        for _ in range(STEPS):
            value, gradients = jax.value_and_grad(loss)(params)
            params = jax.tree.map(lambda p, g: p - RATE * g, params, gradients)
            losses.append(float(value))
        return losses, params


def ipu_losses(manager, model, inputs=WORDS):
    batch = (inputs, LABELS)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batch, learning_rate=RATE)
    return [step(*batch) for _ in range(STEPS)], step.weights()


def check(actual, expected):
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


# Shared layers --------------------------------------------------------------------------------------------------------


def test_flax_linen_shared_module(manager):
    nn = pytest.importorskip("flax.linen")

    class Tied(nn.Module):
        def setup(self):
            self.embed = nn.Embed(12, 6)
            self.layer = nn.Dense(6)

        def __call__(self, ids):
            x = self.layer(jnp.tanh(self.layer(self.embed(ids))))
            return self.embed.attend(x)

    variables = Tied().init(jax.random.key(0), WORDS)
    losses, params = descend(lambda p: cross_entropy(Tied().apply({"params": p}, WORDS), LABELS), variables["params"])
    actual, weights = ipu_losses(manager, (Tied(), variables))
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    check(weights, {"params": params})


def test_flax_nnx_shared_variable(manager):
    nnx = pytest.importorskip("flax.nnx")

    class Tied(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(12, 6, rngs=rngs)
            self.first = nnx.Linear(6, 6, rngs=rngs)
            self.second = self.first
            self.table = self.embed.embedding

        def __call__(self, ids):
            return self.second(jnp.tanh(self.first(self.embed(ids)))) @ self.table[...].T

    model = Tied(nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    losses, params = descend(lambda p: cross_entropy(nnx.merge(graph, p, rest)(WORDS), LABELS), params)
    actual, weights = ipu_losses(manager, model)
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    nnx.update(model, weights)
    # Under all names.
    np.testing.assert_array_equal(model.table[...], model.embed.embedding[...])
    np.testing.assert_array_equal(model.first.kernel[...], model.second.kernel[...])
    check(nnx.state(model, nnx.Param), params)


def test_equinox_shared_layer(manager):
    eqx = pytest.importorskip("equinox")

    class Tied(eqx.Module):
        shared: eqx.nn.Shared

        def __init__(self, key):
            one, two = jax.random.split(key)
            embedding, head = eqx.nn.Embedding(12, 6, key=one), eqx.nn.Linear(6, 12, use_bias=False, key=two)
            self.shared = eqx.nn.Shared((embedding, head), lambda pair: pair[1].weight, lambda pair: pair[0].weight)

        def __call__(self, ids):
            embedding, head = self.shared()
            return jax.vmap(lambda i: head(jnp.tanh(embedding(i))))(ids)

    model = Tied(jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    assert len(jax.tree.leaves(params)) == 1
    losses, params = descend(lambda p: cross_entropy(eqx.combine(p, static)(WORDS), LABELS), params)
    actual, weights = ipu_losses(manager, model)
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    check(weights, params)
    embedding, head = eqx.combine(weights, static).shared()
    np.testing.assert_array_equal(embedding.weight, head.weight)


def test_equinox_repeated_leaf_is_two_weights_as_in_equinox(manager):
    eqx = pytest.importorskip("equinox")

    class Twice(eqx.Module):
        first: jax.Array
        second: jax.Array

        def __call__(self, x):
            return x @ self.first @ self.second

    w = jnp.asarray(RNG.normal(size=(6, 6)), jnp.float32)
    model = Twice(w, w)
    losses, params = descend(lambda m: cross_entropy(m(X), LABELS % 6), model)
    batch = (X, LABELS % 6)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batch, learning_rate=RATE)
    np.testing.assert_allclose([step(*batch) for _ in range(STEPS)], losses, rtol=1e-4)
    check(step.weights(), params)


@pytest.fixture
def keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("Keras was imported with another backend before")
    return keras


def keras_losses(keras, model, inputs):
    """The same steps by Keras' own loop, on the CPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(RATE), loss)
        return [float(model.train_on_batch(inputs, LABELS)) for _ in range(STEPS)]


def tied_keras_model(keras):
    layers = keras.layers
    keras.utils.set_random_seed(0)
    ids = keras.Input((), dtype="int32")
    embed, dense = layers.ReversibleEmbedding(12, 6), layers.Dense(6, activation="tanh")
    return keras.Model(ids, embed(dense(dense(embed(ids))), reverse=True))


def normalised_keras_model(keras):
    layers = keras.layers
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.3), layers.Dense(12)]
    )


@pytest.mark.parametrize(
    ("build", "inputs"), [(tied_keras_model, WORDS), (normalised_keras_model, X)], ids=["shared", "statistics"]
)
def test_keras_trains_as_its_own_loop(manager, keras, build, inputs):
    with jax.default_device(jax.devices("cpu")[0]):
        model, reference = build(keras), build(keras)
        reference.set_weights(model.get_weights())
    losses = keras_losses(keras, reference, inputs)
    actual, weights = ipu_losses(manager, model, inputs)
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    model.set_weights(weights)
    for one, other in zip(model.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


# Statistics and noise -------------------------------------------------------------------------------------------------


def test_flax_linen_keeps_running_statistics(manager):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.BatchNorm(use_running_average=False, momentum=0.9)(nn.Dense(8)(x))
            return nn.Dense(12)(nn.Dropout(0.0, deterministic=False)(x))

    variables = Net().init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, X)
    with jax.default_device(jax.devices("cpu")[0]):
        params, stats, losses = variables["params"], variables["batch_stats"], []
        for _ in range(STEPS):

            def loss(p, stats=stats):
                logits, changed = Net().apply(
                    {"params": p, "batch_stats": stats}, X, rngs={"dropout": jax.random.key(0)}, mutable="batch_stats"
                )
                return cross_entropy(logits, LABELS), changed["batch_stats"]

            (value, stats), gradients = jax.value_and_grad(loss, has_aux=True)(params)
            params = jax.tree.map(lambda p, g: p - RATE * g, params, gradients)
            losses.append(float(value))
    actual, weights = ipu_losses(manager, (Net(), variables), X)
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    check(weights["params"], params)
    check(weights["batch_stats"], stats)


def test_flax_nnx_statistics_and_dropout_go_on(manager):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.norm = nnx.Linear(6, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs)
            self.drop, self.last = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(8, 12, rngs=rngs)

        def __call__(self, x):
            return self.last(self.drop(self.norm(self.first(x))))

    model, reference = Net(nnx.Rngs(0)), Net(nnx.Rngs(0))
    losses = []
    with jax.default_device(jax.devices("cpu")[0]):
        for _ in range(STEPS):
            value, gradients = nnx.value_and_grad(lambda m: cross_entropy(m(X), LABELS))(reference)
            state = nnx.state(reference, nnx.Param)
            nnx.update(reference, jax.tree.map(lambda p, g: p - RATE * g, state, gradients))
            losses.append(float(value))
    actual, weights = ipu_losses(manager, model, X)
    # The noise comes from the module's own streams, with the same numbers.
    np.testing.assert_allclose(actual, losses, rtol=1e-4)
    nnx.update(model, weights)
    check(nnx.state(model, nnx.Param, nnx.BatchStat), nnx.state(reference, nnx.Param, nnx.BatchStat))
    assert int(model.drop.rngs.count[...]) == int(reference.drop.rngs.count[...]) > 0
