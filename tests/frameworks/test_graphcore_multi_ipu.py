"""GraphCoreManager over several IPUs: distribution of the batch or of the weights, residency, plans, training."""

import base64
import functools
import os
import subprocess
import sys

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
    """Returns the bytes that each device receives while `run` runs."""
    before = [jax_ipu.counters(d).h2d_bytes for d in devices]
    run()
    return [jax_ipu.counters(d).h2d_bytes - b for d, b in zip(devices, before, strict=True)]


def test_a_batch_that_divides_is_distributed():
    devices = jax.devices("ipu")[:4]
    with GraphCoreManager(num_ipus=4) as manager:
        compiled = manager.compile_model((apply, PARAMS), X)
        assert compiled.plan.distribution == "batch" and compiled.plan.num_ipus == 4
        np.testing.assert_allclose(manager.execute_model(compiled, X), expected(X), rtol=1e-4, atol=1e-5)
        # Each IPU receives its rows; the weights are already there.
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
    """600 MB of weights, and as much for their squares."""
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
            # Each row of the batch is sent to one of the IPUs.
            assert sum(moved(devices, run)) == X.nbytes + labels.nbytes
            losses[num_ipus].append(run())
            assert step.weights()["w1"].shape == W1.shape
    np.testing.assert_allclose(losses[4], losses[1], rtol=1e-4 if precision == "float32" else 1e-2)


def outputs_of_two_kinds(params, x):
    """A sharded output, a replicated output, and an integer."""
    y = apply(params, x)
    return {"y": y, "mean": y.mean(0), "best": y.argmax(-1)}


@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(("x", "distribution"), [(X, "batch"), (ODD, "weights")], ids=["batch", "weights"])
def test_a_model_compiled_without_devices_runs_elsewhere(tmp_path, x, distribution, precision):
    path, again = tmp_path / "model.ipu", tmp_path / "again.ipu"
    with GraphCoreManager(4, precision, compile_only=True) as compiler:
        compiled = compiler.compile_model((outputs_of_two_kinds, PARAMS), x)
        assert compiled.plan.distribution == distribution and compiled.plan.num_ipus == 4
        with pytest.raises(RuntimeError, match="save it"):
            compiled(x)
        compiled.save(path)
    with GraphCoreManager(4, precision) as manager:
        here = manager.compile_model((outputs_of_two_kinds, PARAMS), x)
        wanted = here(x)
        devices = jax.devices("ipu")[:4]
        steady = moved(devices, lambda: here(x))
        loaded = manager.load(path)
        assert (loaded.plan, loaded.cost, loaded.precision) == (here.plan, here.cost, precision)
        assert loaded.cost == compiled.cost
        assert loaded.distribution == here.distribution
        for _ in range(2):
            jax.tree.map(np.testing.assert_array_equal, manager.execute_model(loaded, x), wanted)
        # The weights are already there; only the inputs are sent.
        assert moved(devices, lambda: loaded(x)) == steady
        for model in (loaded, here):
            model.save(again)
            jax.tree.map(np.testing.assert_array_equal, manager.load(again)(x), wanted)


COMPILE = """
import sys, jax.numpy as jnp, numpy as np
from jax_ipu import GraphCoreManager
with GraphCoreManager(num_ipus=4, compile_only=True) as compiler:
    assert compiler.get_ipu_count() == 1
    w = np.arange(64 * 12, dtype=np.float32).reshape(64, 12) / 64
    compiler.compile_model(lambda x: jnp.tanh(x @ w), np.ones((32, 64), np.float32)).save(sys.argv[1])
"""


def test_a_machine_with_one_ipu_compiles_for_four(tmp_path):
    path = tmp_path / "model.ipu"
    environment = {**os.environ, "JAX_IPU_DEVICE_COUNT": "1"}
    result = subprocess.run(
        [sys.executable, "-P", "-c", COMPILE, path], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    weights = np.arange(64 * 12, dtype=np.float32).reshape(64, 12) / 64
    with GraphCoreManager(4) as manager:
        np.testing.assert_allclose(manager.load(path)(X), np.tanh(X @ weights), rtol=1e-4, atol=1e-5)


def test_optimized_for_several_ipus_without_devices(tmp_path):
    with GraphCoreManager(4, compile_only=True) as compiler:
        best = compiler.optimize_model((apply, PARAMS), X)
        best.save(tmp_path / "model.ipu")
    with GraphCoreManager(4) as manager:
        assert manager.optimize_model((apply, PARAMS), X).plan == best.plan
        np.testing.assert_allclose(manager.load(tmp_path / "model.ipu")(X), expected(X), rtol=1e-4, atol=1e-5)


def test_files_for_several_ipus_that_cannot_be_loaded(tmp_path, monkeypatch):
    path = tmp_path / "model.ipu"
    compiler = GraphCoreManager(4, compile_only=True)
    compiled = compiler.compile_model((apply, PARAMS), X)
    compiled.save(path)
    for fewer in (GraphCoreManager(2), GraphCoreManager(), GraphCoreManager(3, compile_only=True)):
        with fewer, pytest.raises(ValueError, match=rf"compiled for 4 IPUs, but this .* has {fewer.num_ipus}: .*=4"):
            fewer.load(path)
    with GraphCoreManager(5) as more:
        np.testing.assert_allclose(more.load(path)(X), expected(X), rtol=1e-4, atol=1e-5)
        data = path.read_bytes()
        for place in (len(data) // 2, len(data) - 1):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(ValueError, match="is damaged"):
                more.load(path)
        with monkeypatch.context() as patch:
            patch.setattr("jax_ipu.version.__version__", "0.0.1")
            compiled.save(path)
        with pytest.raises(ValueError, match=r"saved by jax_ipu 0\.0\.1"):
            more.load(path)
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "_target", "ipu1:1216")
            compiled.save(path)
        with pytest.raises(ValueError, match=r"compiled for ipu1:1216, but this is ipu2:1472"):
            more.load(path)


def test_an_executable_takes_the_place_of_a_program_for_as_many_ipus_only():
    """PJRT checks the compiler option with which a loaded model is compiled."""

    def executable(count):
        mesh = jax.sharding.AbstractMesh((count,), ("d",))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
        lowered = jax.jit(lambda x: x * 2, in_shardings=rows).trace(X).lower(lowering_platforms=("ipu",))
        text = str(lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True))
        return jax_ipu.compiler.compile(text.encode(), "mlir", b"", "ipu2")

    mesh = jax.sharding.Mesh(np.array(jax.devices("ipu")[:4]), ("d",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    for count, x, error in (
        (4, X, None),
        (2, X, "compiled for 2 IPUs, the program is for 4"),
        (4, X[:16], r"the executable takes .*\(8, 64\).* the program takes .*\(4, 64\)"),
    ):
        options = {"ipu_executable": base64.b64encode(executable(count).serialize()).decode()}
        run = jax.jit(lambda x: x + 1, in_shardings=place, out_shardings=place, compiler_options=options)
        if error is None:
            np.testing.assert_array_equal(run(x), 2 * x)
        else:
            with pytest.raises(jax.errors.JaxRuntimeError, match=error):
                run(x)
