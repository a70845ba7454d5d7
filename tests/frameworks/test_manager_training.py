"""Training steps of GraphCoreManager against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu import GraphCoreManager
from support.small_network import EXPECTED, LABELS, PARAMS, X, apply


def reference_steps(count, learning_rate):
    params, losses = jax.tree.map(jnp.asarray, PARAMS), []

    def loss(params):
        logits = apply(params, X)
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(32), LABELS])

    for _ in range(count):
        value, gradient = jax.value_and_grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - learning_rate * g, params, gradient)
        losses.append(float(value))
    return losses, params


@pytest.mark.parametrize("precision", ["float32", "float16", "mixed"])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_training_step(precision, accumulation):
    losses, params = reference_steps(4, 0.5)
    with GraphCoreManager(precision=precision) as manager:
        step = manager.compile_training_step(
            (apply, PARAMS), "cross_entropy", "sgd", (X, LABELS), accumulation, learning_rate=0.5
        )
        actual = [step(X, LABELS)]
        before = jax_ipu.counters()
        actual += [step((X, LABELS)) for _ in range(3)]
        # Each step receives the batch and returns the loss; the state stays.
        assert jax_ipu.counters().h2d_bytes - before.h2d_bytes == 3 * (X.nbytes + LABELS.nbytes)
        assert jax_ipu.counters().d2h_bytes - before.d2h_bytes == 3 * 4
        weights = step.weights()
    tolerance = 1e-4 if precision == "float32" else 1e-2
    np.testing.assert_allclose(actual, losses, rtol=tolerance)
    for name in PARAMS:
        np.testing.assert_allclose(weights[name], params[name], atol=tolerance)


def test_optimisers_of_optax(manager):
    optax = pytest.importorskip("optax")
    for optimizer in ("adam", "momentum", optax.adamw(0.01)):
        step = manager.compile_training_step((apply, PARAMS), "cross_entropy", optimizer, (X, LABELS))
        losses = [step(X, LABELS) for _ in range(8)]
        assert losses[-1] < losses[0]


def test_training_takes_a_loss_and_an_optimiser_of_ones_own(manager):
    class Signs:
        def init(self, params):
            return jnp.zeros((), jnp.int32)

        def update(self, gradients, state, params=None):
            return jax.tree.map(lambda g: -1e-3 * jnp.sign(g), gradients), state + 1

    step = manager.compile_training_step(
        (apply, PARAMS), lambda y, t: jnp.mean((y - t) ** 2), Signs(), (X, EXPECTED * 0)
    )
    losses = [step(X, EXPECTED * 0) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_training_recomputes_what_does_not_fit():
    def deep(params, x):
        for _ in range(12):
            for _ in range(8):
                x = jnp.sin(x) + jnp.cos(x) * 0.1
            x = x @ params
        return x

    w = np.eye(512, dtype=np.float32)
    batch = (np.ones((3072, 512), np.float32), np.zeros((3072, 512), np.float32))
    with GraphCoreManager() as manager:
        step = manager.compile_training_step((deep, w), "mean_squared_error", "sgd", batch)
        assert step.plan.recompute == "all but products"
        assert np.isfinite(step(batch))


def test_training_step_with_the_fastest_plan(manager):
    step = manager.compile_training_step((apply, PARAMS), "cross_entropy", "sgd", (X, LABELS), optimize=True)
    assert "chosen:" in step.report and "recomputation of everything" in step.report
    plain = manager.compile_training_step((apply, PARAMS), "cross_entropy", "sgd", (X, LABELS))
    assert step.cost.cycles <= plain.cost.cycles
    np.testing.assert_allclose(step(X, LABELS), plain(X, LABELS), rtol=1e-5)


def test_training_errors(manager):
    with pytest.raises(ValueError, match="no weights that can be trained"):
        manager.compile_training_step(lambda x: x, "cross_entropy", "sgd", (X, LABELS))
    with pytest.raises(ValueError, match="gradient_accumulation=5 does not divide"):
        manager.compile_training_step((apply, PARAMS), "cross_entropy", "sgd", (X, LABELS), 5)
    with pytest.raises(ValueError, match='no loss "hinge"'):
        manager.compile_training_step((apply, PARAMS), "hinge", "sgd", (X, LABELS))
    with pytest.raises(TypeError, match="init and update"):
        manager.compile_training_step((apply, PARAMS), "cross_entropy", 3, (X, LABELS))
    with pytest.raises(ValueError, match="pair"):
        manager.compile_training_step((apply, PARAMS), "cross_entropy", "sgd", X)
    with pytest.raises(RuntimeError, match="compile_only"):
        GraphCoreManager(compile_only=True).compile_training_step((apply, PARAMS), "cross_entropy", "sgd", (X, LABELS))
