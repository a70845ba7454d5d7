"""ONNX models for tests, and what ONNX's own evaluator says of them. Skips the tests where onnx is not installed."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def reference(model, *inputs):
    names = [i.name for i in model.graph.input]
    return onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))[0]


def model_of(nodes, inputs, constants=(), outputs=("y",), opset=20):
    """A model of nodes with inputs given as arrays by name, initialisers by name, and outputs of any shape."""
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, types[name], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def subgraph(nodes, inputs, outputs):
    """The body of a loop; its inputs and outputs have no declared types."""
    infos = [[helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in x] for x in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *infos)


def check_against_reference(manager, model, inputs, **tolerance):
    expected = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    actual = manager.compile_model(model, inputs)(inputs)
    for a, e in zip(actual if isinstance(actual, tuple) else (actual,), expected, strict=True):
        assert a.shape == np.shape(e)
        np.testing.assert_allclose(a, e, **({"rtol": 1e-4, "atol": 1e-5} | tolerance))


def recurrent_model(layer, module, x):
    """The bidirectional layer with sequence lengths; ONNX has its gates in another order than PyTorch."""
    order = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}[layer]

    def gates_of(name):
        parts = [np.split(getattr(module, name + end).detach().numpy(), len(order)) for end in ("", "_reverse")]
        return np.stack([np.concatenate([part[i] for i in order]) for part in parts])

    constants = {"w": gates_of("weight_ih_l0"), "r": gates_of("weight_hh_l0")}
    constants["b"] = np.concatenate([gates_of("bias_ih_l0"), gates_of("bias_hh_l0")], 1)
    settings = {"linear_before_reset": 1} if layer == "GRU" else {}
    node = helper.make_node(
        layer, ["x", "w", "r", "b", "lengths"], ["y"], hidden_size=4, direction="bidirectional", **settings
    )
    return model_of([node], {"x": x, "lengths": np.zeros(2, np.int32)}, constants)
