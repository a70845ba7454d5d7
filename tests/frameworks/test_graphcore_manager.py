"""GraphCoreManager on one IPU: kinds of models, residency, precision, plans, files, life cycle."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu import GraphCoreManager, get_graphcore_manager
from support.small_network import EXPECTED, PARAMS, RNG, W1, W2, X, apply
from support.torch_models import torch_or_skip

# Models and their data --------------------------------------------------------------------------------------------


def test_weights_go_to_the_ipu_once(manager):
    compiled = manager.compile_model((apply, PARAMS), X)
    before = jax_ipu.counters()
    first = manager.execute_model(compiled, X)
    loaded = jax_ipu.counters()
    assert loaded.h2d_bytes - before.h2d_bytes == W1.nbytes + W2.nbytes + X.nbytes
    for _ in range(3):
        np.testing.assert_array_equal(manager.execute_model(compiled, X), first)
    after = jax_ipu.counters()
    assert after.h2d_bytes - loaded.h2d_bytes == 3 * X.nbytes
    assert after.d2h_bytes - loaded.d2h_bytes == 3 * first.nbytes
    assert after.engine_loads == loaded.engine_loads
    np.testing.assert_allclose(first, EXPECTED, rtol=1e-4, atol=1e-5)


def test_what_a_function_closes_over_is_a_weight(manager):
    compiled = manager.compile_model(lambda x: apply(PARAMS, x), X)
    manager.execute_model(compiled, X)
    before = jax_ipu.counters()
    np.testing.assert_allclose(manager.execute_model(compiled, X), EXPECTED, rtol=1e-4, atol=1e-5)
    assert jax_ipu.counters().h2d_bytes - before.h2d_bytes == X.nbytes


def test_two_models_take_turns(manager):
    first = manager.compile_model((apply, PARAMS), X)
    second = manager.compile_model((apply, {"w1": -W1, "w2": W2}), X)
    for _ in range(2):
        np.testing.assert_allclose(first(X), EXPECTED, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second(X), -EXPECTED, rtol=1e-4, atol=1e-5)


def test_pytrees_are_kept(manager):
    def model(a, b):
        return {"sum": a["x"] + b[0], "rest": (b[1], None, [a["n"] * 2])}

    inputs = ({"x": X, "n": np.arange(3)}, [X, np.float32(2)])
    out = manager.execute_model(manager.compile_model(model, inputs), inputs)
    np.testing.assert_array_equal(out["sum"], 2 * X)
    assert isinstance(out["rest"], tuple) and out["rest"][0] == 2 and out["rest"][1] is None
    np.testing.assert_array_equal(out["rest"][2][0], [0, 2, 4])


def test_arrays_of_jax_in_and_out(manager):
    out = manager.execute_model(manager.compile_model((apply, PARAMS), X), jnp.asarray(X))
    assert isinstance(out, jax.Array)


def test_inputs_are_checked(manager):
    compiled = manager.compile_model((apply, PARAMS), X)
    with pytest.raises(ValueError, match=r"shape \(8, 64\).*\(32, 64\).*compile it again"):
        manager.execute_model(compiled, X[:8])
    with pytest.raises(ValueError, match="compiled for 1 input, and gets 2"):
        manager.execute_model(compiled, (X, X))
    with pytest.raises(ValueError, match="complex64"):
        manager.execute_model(compiled, X.astype(np.complex64))
    with pytest.raises(TypeError, match="execute_model takes what compile_model gives"):
        manager.execute_model(apply, X)


def test_models_without_inputs_run_on_the_ipu(manager):
    compiled = manager.compile_model(lambda: jnp.arange(3) + 1, ())
    np.testing.assert_array_equal(manager.execute_model(compiled, ()), [1, 2, 3])


NOT_TRACEABLE = {"numpy": np.tanh, "branch": lambda x: x if x.sum() > 0 else -x, "float": lambda x: x * float(x[0])}


@pytest.mark.parametrize("name", NOT_TRACEABLE)
def test_models_that_cannot_be_traced_say_what_to_do(manager, name):
    def model(x):
        return NOT_TRACEABLE[name](x)  # this line

    with pytest.raises(TypeError, match=r"(?s)test_graphcore_manager.py:\d+.*jax\.numpy.*jax\.lax\.cond"):
        manager.compile_model(model, np.ones(3, np.float32))


def test_inputs_that_are_no_numbers(manager):
    with pytest.raises(TypeError, match="'text' is not an array of numbers"):
        manager.compile_model(lambda x: x, "text")


def test_unknown_kinds_list_the_known_ones(manager):
    for model in (object(), 3, "no such file", (1, 2), b"bytes"):
        with pytest.raises(TypeError, match=r"(?s)A model may be:.*PyTorch.*StableHLO"):
            manager.compile_model(model, X)


def test_stablehlo_and_exports(manager, tmp_path):
    exported = jax.export.export(jax.jit(lambda x: (jnp.tanh(x @ W1), x.sum())))(X)
    text = jax.jit(lambda x: (jnp.tanh(x @ W1), x.sum())).lower(X).as_text()
    path = tmp_path / "model.mlir"
    path.write_text(text)
    for model in (exported, text, text.encode(), exported.mlir_module_serialized, path):
        hidden, total = manager.execute_model(manager.compile_model(model, X), X)
        np.testing.assert_allclose(hidden, np.tanh(X @ W1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, X.sum(), rtol=1e-4)
    with pytest.raises(ValueError, match="has its types already"):
        GraphCoreManager(precision="float16").compile_model(exported, X)


def test_flax_linen(manager):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.BatchNorm(use_running_average=True)(nn.Dense(32)(x))
            return nn.Dense(10)(nn.relu(x))

    module = Net()
    variables = module.init(jax.random.key(0), X)
    expected = np.asarray(module.apply(variables, X))
    for model in ((module, variables), module.bind(variables)):
        np.testing.assert_allclose(manager.execute_model(manager.compile_model(model, X), X), expected, atol=1e-4)
    with pytest.raises(TypeError, match="bind"):
        manager.compile_model(module, X)


def test_flax_nnx(manager):
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Sequential(nnx.Linear(64, 32, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(32, 10, rngs=nnx.Rngs(1)))
    compiled = manager.compile_model(model, X)
    np.testing.assert_allclose(manager.execute_model(compiled, X), np.asarray(model(X)), atol=1e-4)


def test_equinox(manager):
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(64, 10, 32, 2, key=jax.random.key(0))
    np.testing.assert_allclose(manager.compile_model(model, X[0])(X[0]), np.asarray(model(X[0])), atol=1e-4)
    batched = jax.vmap(model)
    np.testing.assert_allclose(manager.compile_model(batched, X)(X), np.asarray(batched(X)), atol=1e-4)


def test_keras(manager, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(32, "relu"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(10)]
    )
    expected = np.asarray(model(X))
    np.testing.assert_allclose(manager.execute_model(manager.compile_model(model, X), X), expected, atol=1e-4)


def torch_net(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    ).eval()


def test_torch(manager):
    torch = torch_or_skip()
    model = torch_net(torch)
    images = torch.randn(8, 1, 8, 8)
    compiled = manager.compile_model(model, images)
    out = manager.execute_model(compiled, images)
    assert isinstance(out, torch.Tensor) and out.dtype == torch.float32
    assert torch.allclose(out, model(images), atol=1e-4)
    assert isinstance(manager.execute_model(compiled, images.numpy()), np.ndarray)
    before = jax_ipu.counters()
    manager.execute_model(compiled, images)
    assert jax_ipu.counters().h2d_bytes - before.h2d_bytes == images.numpy().nbytes


def test_torch_training(manager):
    torch = torch_or_skip()
    model = torch_net(torch)
    images, labels = torch.randn(8, 1, 8, 8), torch.arange(8)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", (images, labels), learning_rate=0.2)
    losses = [step(images, labels) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    state = {name: torch.from_numpy(value) for name, value in step.weights().items()}
    model.load_state_dict(state, strict=False)
    assert float(torch.nn.functional.cross_entropy(model(images), labels)) < losses[-1]


def test_onnx(manager, tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, weights = onnx.helper, onnx.numpy_helper.from_array
    float_type = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w1"], ["h"]),
            helper.make_node("Tanh", ["h"], ["t"]),
            helper.make_node("Gemm", ["t", "w2"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", float_type, [32, 64])],
        [helper.make_tensor_value_info("y", float_type, [32, 10])],
        [weights(W1, "w1"), weights(W2, "w2")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    for model, inputs in ((proto, X), (path, X), (str(path), {"x": X})):
        out = manager.execute_model(manager.compile_model(model, inputs), inputs)
        np.testing.assert_allclose(out, EXPECTED, rtol=1e-4, atol=1e-5)


# Precision ------------------------------------------------------------------------------------------------------------


def test_precisions():
    def model(x):
        h = x @ W1
        h = (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
        return jax.nn.softmax(h @ W2), jnp.square(30 * (x @ W1)).sum()

    with GraphCoreManager() as manager:
        expected = manager.compile_model(model, X)(X)
    results, moved = {}, {}
    for precision in ("float16", "mixed"):
        with GraphCoreManager(precision=precision) as manager:
            compiled = manager.compile_model(model, X)
            before = jax_ipu.counters()
            actual = compiled(X)
            moved[precision] = jax_ipu.counters().h2d_bytes - before.h2d_bytes
        assert actual[0].dtype == np.float32
        results[precision] = actual
    assert moved["float16"] == moved["mixed"] == (W1.nbytes + W2.nbytes + X.nbytes) // 2
    for probabilities, _ in results.values():
        assert 0 < np.abs(probabilities - expected[0]).max() < 5e-3
    # The sum is larger than the largest half: "mixed" keeps sums in float32.
    assert np.isinf(results["float16"][1])
    np.testing.assert_allclose(results["mixed"][1], expected[1], rtol=1e-2)


def test_mixed_keeps_sensitive_operations_in_float32():
    from jax_ipu.models.precision import retyped

    def model(x, w):
        return jax.nn.softmax(jax.nn.relu(x @ w) @ w.T)

    closed = jax.make_jaxpr(model)(X, W1)
    halves = [v.astype(np.float16) for v in (X, W1)]
    text = str(jax.make_jaxpr(lambda *args: retyped(closed, "mixed")((), args))(*halves))
    assert "dot_general" in text and "preferred_element_type=float16" in text
    assert "preferred_element_type=float32" not in text
    for line in text.splitlines():
        for sensitive in (" exp ", " div ", " reduce_sum"):
            assert sensitive not in line or ":f32[" in line, line
    text = str(jax.make_jaxpr(lambda *args: retyped(closed, "float16")((), args))(*halves))
    assert "f32" not in text


@pytest.mark.parametrize("precision", ["float16", "mixed"])
def test_precision_inside_control_flow_and_gradients(precision):
    def loss(w, x):
        def layer(h, i):
            return jnp.tanh(h @ w), h.sum() + i

        h, sums = jax.lax.scan(jax.checkpoint(layer), x, jnp.arange(3.0))
        h = jax.lax.cond(h.sum() > 0, lambda h: h * 2, lambda h: h - 1, h)
        h = h.at[jnp.array([0, 2])].add(1.0)
        return jax.nn.relu(h).mean() + sums.mean() / 100

    def model(w, x):
        value, gradient = jax.value_and_grad(loss)(w, x)
        doubled = jax.lax.while_loop(lambda v: v < 10, lambda v: v * 2, jnp.abs(value) + 1)
        return value, gradient, doubled

    w = W1[:, :64]
    with GraphCoreManager(precision=precision) as manager:
        actual = manager.compile_model(model, (w, X))(w, X)
    for a, e in zip(actual, model(w, X), strict=True):
        np.testing.assert_allclose(a, e, rtol=3e-2, atol=3e-2)


def test_half_partials_and_memory_proportion_reach_the_planner():
    x, w = np.zeros((256, 2048), np.float16), np.zeros((2048, 2048), np.float16)
    cost = {}
    for half in (False, True):
        for proportion in (0.01, 0.6):
            with GraphCoreManager(1, "float16", proportion, half, compile_only=True) as manager:
                cost[half, proportion] = manager.compile_model((lambda w, x: x @ w, w), x).cost
    assert cost[True, 0.6].cycles < cost[False, 0.6].cycles
    assert cost[False, 0.01].cycles > cost[False, 0.6].cycles
    assert cost[False, 0.01].fullest_tile_bytes < cost[False, 0.6].fullest_tile_bytes


# Plans ----------------------------------------------------------------------------------------------------------------


def test_optimize_model_takes_the_cheapest_plan(manager):
    w = np.zeros((1024, 1024), np.float32)
    x = np.zeros((512, 1024), np.float32)
    model = (lambda w, x: x @ w, w)
    best = GraphCoreManager(memory_proportion=0.05).optimize_model(model, x)
    assert best.cost.cycles <= manager.compile_model(model, x).cost.cycles
    assert "chosen:" in best.report and "saves against memory_proportion 0.05" in best.report
    assert best.report.count("tried:") == 6


def test_optimize_model_keeps_the_setting_that_another_does_not_beat(manager):
    best = manager.optimize_model(lambda x: x + 1, np.ones((4, 3), np.float32))
    assert best.plan.memory_proportion == manager.memory_proportion


def test_optimize_model_slices_a_batch_that_does_not_fit(manager):
    """Sums along an outer product per row; all rows together exceed the memory of an IPU."""
    x = RNG.normal(size=(1024, 600)).astype(np.float32)

    def model(x):
        return jnp.max(jnp.cumsum(x[:, :, None] * x[:, None, :], 1), axis=(1, 2))

    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        manager.compile_model(model, x)
    compiled = manager.optimize_model(model, x)
    assert compiled.plan.batch_slices > 1
    assert "it fits" in compiled.report
    np.testing.assert_allclose(compiled(x)[:20], model(x[:20]), rtol=1e-4)


def test_rows_that_depend_on_each_other_are_not_sliced(manager):
    x = np.ones((1024, 600), np.float32)

    def model(x):
        sums = jnp.cumsum(x[:, :, None] * x[:, None, :], 1)
        return jnp.max(sums - sums.mean(0), axis=(1, 2))

    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        manager.optimize_model(model, x)


# Files ----------------------------------------------------------------------------------------------------------------


def test_save_and_load(manager, tmp_path):
    path = tmp_path / "model.ipu"
    with GraphCoreManager(precision="mixed") as other:
        compiled = other.compile_model((apply, PARAMS), {"x": X}["x"])
        expected = compiled(X)
        compiled.save(path)
    loaded = manager.load(path)
    before = jax_ipu.counters()
    np.testing.assert_array_equal(manager.execute_model(loaded, X), expected)
    np.testing.assert_array_equal(loaded(X), expected)
    assert jax_ipu.counters().h2d_bytes - before.h2d_bytes == (W1.nbytes + W2.nbytes) // 2 + X.nbytes
    assert loaded.cost == compiled.cost and loaded.precision == "mixed"
    assert [p.name for p in tmp_path.iterdir()] == ["model.ipu"]
    loaded.save(path)
    np.testing.assert_array_equal(manager.load(path)(X), expected)


def test_compile_only(manager, tmp_path):
    path = tmp_path / "model.ipu"
    with GraphCoreManager(compile_only=True) as compiler:
        compiled = compiler.compile_model((apply, PARAMS), X)
        assert compiler.get_ipu_info()[0]["memory_in_use"] == 0
        assert compiler.get_ipu_count() == manager.get_ipu_count()
        with pytest.raises(RuntimeError, match="save it"):
            compiler.execute_model(compiled, X)
        compiled.save(path)
    assert compiled.cost.cycles == manager.compile_model((apply, PARAMS), X).cost.cycles
    np.testing.assert_allclose(manager.load(path)(X), EXPECTED, rtol=1e-4, atol=1e-5)


def test_files_that_cannot_be_loaded(manager, tmp_path, monkeypatch):
    path = tmp_path / "model.ipu"
    compiled = manager.compile_model((apply, PARAMS), X)
    compiled.save(path)
    data = path.read_bytes()
    for damaged in (data[:-100], data[:500] + bytes([data[500] ^ 1]) + data[501:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            manager.load(path)
    for other in (b"", b"something else" * 10):
        path.write_bytes(other)
        with pytest.raises(ValueError, match="is not a model saved by jax_ipu"):
            manager.load(path)
    with monkeypatch.context() as patch:
        patch.setattr("jax_ipu.version.__version__", "0.0.1")
        compiled.save(path)
    with pytest.raises(ValueError, match=r"saved by jax_ipu 0\.0\.1"):
        manager.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_target", "ipu1:1216")
        compiled.save(path)
    with pytest.raises(ValueError, match=r"compiled for ipu1:1216, but this is ipu2:1472"):
        manager.load(path)
    with pytest.raises(FileNotFoundError):
        manager.load(tmp_path / "nothing")


# Life cycle -----------------------------------------------------------------------------------------------------------


def test_settings_are_checked():
    for setting, value in (
        ("num_ipus", 0),
        ("num_ipus", 1.5),
        ("precision", "int8"),
        ("memory_proportion", 0),
        ("memory_proportion", 1.1),
    ):
        with pytest.raises(ValueError, match=setting):
            GraphCoreManager(**{setting: value})


def test_life_cycle():
    manager = GraphCoreManager()
    for early in (manager.get_ipu_info, manager.get_ipu_count, lambda: manager.execute_model(None, X)):
        with pytest.raises(RuntimeError, match=r"call initialize\(\)"):
            early()
    manager.initialize()
    manager.initialize()
    compiled = manager.compile_model((apply, PARAMS), X)
    compiled(X)
    manager.finalize()
    manager.finalize()
    with pytest.raises(RuntimeError, match=r"released by finalize\(\)"):
        compiled(X)
    for late in (manager.get_ipu_info, lambda: manager.compile_model(apply, X), lambda: manager.load("x")):
        with pytest.raises(RuntimeError, match="was finalized"):
            late()
    manager.initialize()
    assert manager.execute_model(manager.compile_model((apply, PARAMS), X), X).shape == (32, 10)
    manager.finalize()


def test_more_ipus_than_there_are():
    with pytest.raises(RuntimeError, match="JAX_IPU_DEVICE_COUNT=512"):
        GraphCoreManager(num_ipus=512).initialize()


def test_information(manager):
    compiled = manager.compile_model((apply, PARAMS), X)
    compiled(X)
    first = manager.get_ipu_info()[0]
    assert first["architecture"] == "ipu2" and first["num_tiles"] == 1472 and first["device"] == "model"
    assert first["memory_total"] == 1472 * first["memory_per_tile"] and first["clock_frequency"] > 1e9
    assert first["id"] == 0 and first["used"]
    assert first["memory_in_use"] > W1.nbytes + W2.nbytes
    assert first["models"] == ["(apply_fn, params): the whole model"]
    assert manager.get_ipu_count() == len(jax.devices("ipu"))


def test_the_global_manager_is_one_for_all_threads():
    found, compiled = [], get_graphcore_manager().compile_model((apply, PARAMS), X)

    def run():
        manager = get_graphcore_manager()
        found.append((manager, manager.execute_model(compiled, X)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(manager) for manager, _ in found}) == 1
    for _, out in found:
        np.testing.assert_allclose(out, EXPECTED, rtol=1e-4, atol=1e-5)
    get_graphcore_manager().finalize()
    assert get_graphcore_manager().get_ipu_count() >= 1
