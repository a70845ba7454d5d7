"""Keras' own training loop on the IPU as the default device: values, and how often programs are loaded and run."""

import os

import jax
import numpy as np
import pytest

import jax_ipu

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8 * 32, 20)).astype(np.float32), RNG.integers(0, 5, 8 * 32)


@pytest.fixture(scope="module")
def keras():
    os.environ["KERAS_BACKEND"] = "jax"
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("Keras was imported with another backend before")
    return keras


def compiled_model(keras, steps):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(16, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Dense(5),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=steps)
    return model


def on(platform):
    return jax.default_device(jax.devices(platform)[0])


def train(keras, platform, steps, samples=256, **options):
    """Returns the losses and accuracies of three epochs, an evaluation, the predictions, and counters of each epoch."""
    epochs = []
    counters = jax_ipu.counters()
    with on(platform):
        model = compiled_model(keras, steps)

        class Count(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                nonlocal counters
                jax.block_until_ready([v.value for v in model.variables])
                now = jax_ipu.counters()
                epochs.append(type(now)(*(b - a for a, b in zip(counters, now, strict=True))))
                counters = now

        x, y = X[:samples], Y[:samples]
        history = model.fit(
            x, y, batch_size=32, epochs=3, verbose=0, shuffle=False, callbacks=[Count()], **options
        ).history
        evaluation = model.evaluate(x, y, batch_size=32, verbose=0)
        prediction = model.predict(x, batch_size=32, verbose=0)
    return history, evaluation, prediction, epochs[1:]


@pytest.mark.parametrize(("steps", "samples"), [(1, 256), (8, 256), (3, 250), (4, 96)])
def test_fit_is_as_on_the_cpu(keras, steps, samples):
    # 96 samples are fewer batches than one execution processes; 250 samples leave a smaller last batch.
    history, evaluation, prediction, epochs = train(keras, "ipu", steps, samples)
    expected = train(keras, "cpu", 1, samples)
    for name, values in expected[0].items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(evaluation, expected[1], rtol=1e-4)
    np.testing.assert_allclose(prediction, expected[2], rtol=1e-3, atol=1e-4)
    assert prediction.shape == (samples, 5)
    batches = -(-samples // 32)
    rest = 1 if samples % 32 and steps > 1 else 0
    for counters in epochs:
        # The reset of the metrics is another program, and so is a smaller last batch.
        assert counters.engine_loads <= 2 + rest
        executions = -(-(batches - rest) // steps) + rest
        assert counters.runs <= executions + 4
        # Between executions, no weights or metrics return to the host: only logs and, once per epoch, the state.
        state = 4 * 3 * (20 * 16 + 16 + 2 * 16 + 16 * 5 + 5) + 4 * 2 * 16 + 400
        assert counters.d2h_bytes <= state * (1 + rest) + 16 * executions


def test_step_functions_of_the_user_keep_their_logs(keras):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = keras.layers.Dense(1)

        def call(self, x):
            return self.layer(x)

        def train_step(self, state, data):
            logs, state = super().train_step(state, data)
            return {**logs, "twice": 2 * logs["loss"]}, state

    with on("ipu"):
        model = Own()
        model.compile("sgd", "mse", steps_per_execution=2)
        history = model.fit(X, X[:, :1], batch_size=64, epochs=2, verbose=0).history
    np.testing.assert_allclose(history["twice"], 2 * np.array(history["loss"]), rtol=1e-5)


def test_validation_and_callbacks_see_the_state(keras):
    seen = []
    with on("ipu"):
        model = compiled_model(keras, 4)

        class Look(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                model.jax_state_sync()
                seen.append((batch, float(np.asarray(model.optimizer.iterations)), float(logs["loss"])))

        history = model.fit(
            X, Y, batch_size=32, epochs=1, verbose=0, validation_data=(X[:64], Y[:64]), callbacks=[Look()]
        ).history
    assert [(batch, steps) for batch, steps, _ in seen] == [(3, 4.0), (7, 8.0)]
    assert np.isfinite(history["val_loss"][0])
