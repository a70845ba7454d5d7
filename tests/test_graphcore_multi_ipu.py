"""GraphCoreManager over several IPUs: distribution of the batch or of the weights, residency, plans, training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu import GraphCoreManager

RNG = np.random.default_rng(1)
W1 = RNG.normal(size=(64, 128)).astype(np.float32) / 8
W2 = RNG.normal(size=(128, 12)).astype(np.float32) / 11
PARAMS = {"w1": W1, "w2": W2, "b": np.ones(12, np.float32)}
X = RNG.normal(size=(32, 64)).astype(np.float32)
ODD = X[:7]


def apply(params, x):
    return jnp.tanh(x @ params["w1"]) @ params["w2"] + params["b"]


def expected(x):
    return np.tanh(x @ W1) @ W2 + 1


def moved(devices, run):
    """Bytes that each device receives while `run` runs."""
    before = [jax_ipu.counters(d).h2d_bytes for d in devices]
    run()
    return [jax_ipu.counters(d).h2d_bytes - b for d, b in zip(devices, before, strict=True)]


def test_a_batch_that_divides_is_distributed():
    devices = jax.devices("ipu")[:4]
    with GraphCoreManager(num_ipus=4) as manager:
        compiled = manager.compile_model((apply, PARAMS), X)
        assert compiled.plan.distribution == "batch" and compiled.plan.num_ipus == 4
        np.testing.assert_allclose(manager.execute_model(compiled, X), expected(X), rtol=1e-4, atol=1e-5)
        # Each IPU gets its rows; the weights are there.
        assert moved(devices, lambda: compiled(X)) == [X.nbytes // 4] * 4
        models = [info["models"] for info in manager.get_ipu_info()[:4]]
        assert models[1] == ["(apply_fn, params): replica 1: batch 8 to 15"]
        assert [info["used"] for info in manager.get_ipu_info()][:5] == [True] * 4 + [False]


def test_results_that_couple_the_rows_are_right():
    with GraphCoreManager(num_ipus=4) as manager:
        compiled = manager.compile_model(lambda x: (x - x.mean(0), x.sum(), x[::-1]), X)
        centred, total, reversed_rows = compiled(X)
    np.testing.assert_allclose(centred, X - X.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, X.sum(), rtol=1e-4)
    np.testing.assert_array_equal(reversed_rows, X[::-1])


def test_a_batch_that_does_not_divide_cuts_the_weights():
    devices = jax.devices("ipu")[:4]
    with GraphCoreManager(num_ipus=4) as manager:
        compiled = manager.compile_model((apply, PARAMS), ODD)
        assert compiled.plan.distribution == "weights"
        first = moved(devices, lambda: compiled(ODD))
        assert first == [(W1.nbytes + W2.nbytes) // 4 + PARAMS["b"].nbytes + ODD.nbytes] * 4
        np.testing.assert_allclose(compiled(ODD), expected(ODD), rtol=1e-4, atol=1e-5)
        assert moved(devices, lambda: compiled(ODD)) == [ODD.nbytes] * 4
        assert manager.get_ipu_info()[3]["models"] == ["(apply_fn, params): shard 3 of 4 of the weights"]


def test_a_model_that_does_not_fit_one_ipu_is_cut():
    """600 MB of weights and as much for their squares."""
    w = np.zeros((24, 2560, 2560), np.float32)
    w[0] = np.eye(2560)
    x = RNG.normal(size=(4, 2560)).astype(np.float32)

    def model(w, x):
        return x @ w.sum(0) + (w * w).sum()

    with GraphCoreManager() as manager, pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        manager.compile_model((model, w), x)
    with GraphCoreManager(num_ipus=4) as manager:
        compiled = manager.compile_model((model, w), x)
        assert compiled.plan.distribution == "weights"
        np.testing.assert_allclose(compiled(x), x + 2560, rtol=1e-4)


def test_optimize_model_compares_numbers_of_ipus():
    with GraphCoreManager(num_ipus=4) as manager:
        best = manager.optimize_model((apply, PARAMS), X)
        assert "over 4 IPUs" in best.report and best.report.count("tried:") == 15
        np.testing.assert_allclose(best(X), expected(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_training_over_several_ipus(precision):
    labels = RNG.integers(0, 12, 32).astype(np.int32)
    losses = {}
    for num_ipus in (1, 4):
        with GraphCoreManager(num_ipus, precision) as manager:
            step = manager.compile_training_step((apply, PARAMS), "cross_entropy", "sgd", (X, labels), 2)
            devices, run = jax.devices("ipu")[:num_ipus], functools.partial(step, X, labels)
            losses[num_ipus] = [run()]
            # Each row of the batch goes to one of the IPUs.
            assert sum(moved(devices, run)) == X.nbytes + labels.nbytes
            losses[num_ipus].append(run())
            assert step.weights()["w1"].shape == W1.shape
    np.testing.assert_allclose(losses[4], losses[1], rtol=1e-4 if precision == "float32" else 1e-2)


def test_a_model_over_several_ipus_cannot_be_saved(tmp_path):
    with GraphCoreManager(num_ipus=2) as manager:
        compiled = manager.compile_model((apply, PARAMS), X)
        with pytest.raises(ValueError, match="num_ipus=1"):
            compiled.save(tmp_path / "model.ipu")
    with pytest.raises(ValueError, match="compile_only"):
        GraphCoreManager(num_ipus=2, compile_only=True)
