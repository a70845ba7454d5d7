"""Training of ONNX models: which weights are one, and what is not trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.onnx_models import (
    FLOAT,
    INT64,
    helper,
    onnx,
    recurrent_model,
)

RNG = np.random.default_rng(0)


IDS, LABELS = np.arange(11), np.roll(np.arange(11), 1).astype(np.int32)


def test_a_recurrent_layer_is_trained(manager):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.LSTM(3, 4, bidirectional=True)
    model = recurrent_model("LSTM", module, np.zeros((5, 2, 3), np.float32))
    x, lengths, target = torch.randn(5, 2, 3), torch.tensor([5, 3], dtype=torch.int32), torch.randn(5, 2, 2, 4)
    batch = ((x.numpy(), lengths.numpy()), target.numpy())
    step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=5.0)
    losses = [step(*batch) for _ in range(4)]
    optimizer, expected = torch.optim.SGD(module.parameters(), 5.0), []
    for _ in range(4):
        packed = module(torch.nn.utils.rnn.pack_padded_sequence(x, lengths.long()))[0]
        outputs = torch.nn.utils.rnn.pad_packed_sequence(packed)[0].reshape(5, 2, 2, 4).swapaxes(1, 2)
        loss = ((outputs - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert expected[-1] < 0.95 * expected[0]
    # ONNX has one bias for the inputs and one for the state, as PyTorch, so that the steps are the same.
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


TABLE, SCALE = RNG.normal(size=(11, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)


def tied(form):
    """Logits from a table that is also used for lookups: used directly, transposed by a node, or stored twice."""
    node = helper.make_node
    weights = {"table": TABLE, "norm": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32), "scale": SCALE}
    if form == "written twice":
        weights["again"] = TABLE.copy()
    last = {
        "one initialiser": [node("Gemm", ["h", "table"], ["y"], transB=1)],
        "transposed": [node("Transpose", ["table"], ["turned"], perm=[1, 0]), node("MatMul", ["h", "turned"], ["y"])],
        "written twice": [node("Gemm", ["h", "again"], ["y"], transB=1)],
    }[form]
    nodes = [
        node("Gather", ["table", "ids"], ["x"]),
        # Equal values are stored once: scale and variance, bias and mean.
        node("BatchNormalization", ["x", "norm", "zeros", "zeros", "norm"], ["n"], epsilon=0.0),
        node("Mul", ["n", "scale"], ["h"]),
        *last,
    ]
    graph = helper.make_graph(
        nodes,
        "tied",
        [helper.make_tensor_value_info("ids", INT64, [11])],
        [helper.make_tensor_value_info("y", FLOAT, [11, 11])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def losses_of_jax(steps, rate, *, independent=False):
    def loss(p):
        last = p["again" if independent else "table"]
        logits = (p["table"] * p["norm"] + p["zeros"]) * p["scale"] @ last.T
        return -jnp.mean(jax.nn.log_softmax(logits)[IDS, LABELS])

    with jax.default_device(jax.devices("cpu")[0]):
        params = {"table": TABLE, "norm": jnp.ones(4), "zeros": jnp.zeros(4), "scale": SCALE}
        params |= {"again": TABLE} if independent else {}
        losses = []
        for _ in range(steps):
            value, gradients = jax.value_and_grad(loss)(params)
            losses.append(float(value))
            params = jax.tree.map(lambda p, g: p - rate * g, params, gradients)
        return losses, params


def check_training(manager, model, losses, params):
    step = manager.compile_training_step(model, "cross_entropy", "sgd", (IDS, LABELS), learning_rate=0.3)
    np.testing.assert_allclose([step(IDS, LABELS) for _ in range(5)], losses, rtol=1e-4)
    weights = step.weights()
    assert weights.keys() == params.keys()
    for name, value in params.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", ["one initialiser", "transposed"])
def test_a_shared_initialiser_is_trained_once(manager, form):
    check_training(manager, tied(form), *losses_of_jax(5, 0.3))


def test_equal_initialisers_are_separate_weights(manager):
    with pytest.warns(UserWarning, match="trained as separate weights: table and again"):
        check_training(manager, tied("written twice"), *losses_of_jax(5, 0.3, independent=True))


def test_one_place_in_a_file_is_one_weight(manager, tmp_path):
    path = tmp_path / "tied.onnx"
    onnx.save(tied("written twice"), path, save_as_external_data=True, location="data", size_threshold=0)
    proto = onnx.load(path, load_external_data=False)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    del tensors["again"].external_data[:]
    tensors["again"].external_data.extend(tensors["table"].external_data)
    onnx.save(proto, path)
    losses, params = losses_of_jax(5, 0.3)
    check_training(manager, path, losses, {**params, "again": params["table"]})


def test_constants_are_not_trained(manager):
    node = helper.make_node
    mask = np.where(np.tri(4, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)
    constants = {"w": RNG.normal(size=(4, 4)).astype(np.float32), "mask": mask, "half": np.array(0.5, np.float32)}
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "mask"], ["b"]),
        node("Softmax", ["b"], ["c"]),
        node("Mul", ["c", "half"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(name, FLOAT, [4, 4]) for name in "xy"]
    initialisers = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    batch = (RNG.normal(size=(4, 4)).astype(np.float32), np.zeros((4, 4), np.float32))
    step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=0.1)
    step(*batch)
    assert list(step.weights()) == ["w"]
