"""ONNX models on the IPU: operators against ONNX's own tests, exported networks, training, rejected models."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import GraphCoreManager
from jax_ipu.models.wide import types_kept

onnx = pytest.importorskip("onnx")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
RNG = np.random.default_rng(0)

# Inputs that are constants in files: shapes, axes and counts. For all reductions, it is the second input.
CONSTANT_INPUTS = {
    "CumSum": (1,),
    "Dropout": (1, 2),
    "Expand": (1,),
    "Loop": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
# Besides these types, which all operators have, the quantised ones have integers of 8 bits.
TYPES = (np.float32, np.float64, np.int32, np.int64, np.uint64, bool)
QUANTISED = ("ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear")
# ONNX's tests of unsupported features: shapes that depend on values, strings, sequences, training, random numbers.
REFUSED = (NotImplementedError, TypeError)


@pytest.fixture
def manager():
    with GraphCoreManager() as manager:
        yield manager


# Operators ------------------------------------------------------------------------------------------------------------


@functools.cache
def node_tests():
    """ONNX's own tests of single nodes: {operator: [(name, model, inputs, outputs, tolerance)]}."""
    cases = {}
    for case in importorskip_node_tests()(None):
        inputs, outputs = case.data_sets[0]
        arrays = [np.asarray(a) if np.isscalar(a) else a for a in (*inputs, *outputs)]
        operator = case.model.graph.node[0].op_type
        types = (*TYPES, np.int8, np.uint8) if operator in QUANTISED else TYPES
        if all(isinstance(a, np.ndarray) and a.dtype in types for a in arrays):
            inputs = arrays[: len(inputs)]
            cases.setdefault(operator, []).append((case.name, case.model, inputs, outputs, max(case.rtol, 1e-3)))
    return cases


def importorskip_node_tests():
    return pytest.importorskip("onnx.backend.test.case.node").collect_testcases


def is_constant(node, position):
    return position == 1 if node.op_type.startswith("Reduce") else position in CONSTANT_INPUTS.get(node.op_type, ())


def evaluate(model, inputs):
    from jax_ipu.models.frameworks.onnx_graph import Graph

    graph = model.graph
    constant = {n.input[i] for n in graph.node for i in range(len(n.input)) if is_constant(n, i)}
    given = dict(zip([i.name for i in graph.input], inputs, strict=True))
    known = {name: value for name, value in given.items() if name in constant}
    nodes = Graph(graph.node, {o.domain: o.version for o in model.opset_import}, {})

    def outputs(given):
        values = {**known, **given}
        nodes.evaluate(values)
        return [values[output.name] for output in graph.output]

    return outputs, {name: value for name, value in given.items() if name not in constant}


def check_node_tests(cases):
    """Compiles the cases as one program and compares every output. Returns the number of rejected cases."""
    functions, arguments, expected, refused = [], [], [], 0
    for name, model, inputs, outputs, tolerance in cases:
        function, given = evaluate(model, inputs)
        try:
            with types_kept():
                shapes = jax.eval_shape(function, given)
        except REFUSED:
            refused += 1
            continue
        assert [s.dtype for s in shapes] == [o.dtype for o in outputs], name
        functions.append(function)
        arguments.append(given)
        expected.append((name, outputs, tolerance))
    with types_kept():
        results = jax.jit(lambda arguments: [f(a) for f, a in zip(functions, arguments, strict=True)])(arguments)
    for (name, outputs, tolerance), result in zip(expected, results, strict=True):
        for actual, output in zip(result, outputs, strict=True):
            np.testing.assert_allclose(actual, output, rtol=tolerance, atol=1e-5, err_msg=name)
    return refused


def operators(first, last):
    from jax_ipu.models.frameworks.onnx_graph import CONTROL, OPERATORS

    return [name for name in sorted(node_tests()) if name in {**OPERATORS, **CONTROL} and first <= name[0] <= last]


@pytest.mark.parametrize("letters", ["AB", "CD", "EG", "HM", "NR", "SZ"])
def test_operators(letters):
    names = operators(*letters)
    assert len(names) > 8
    # The case with the longest name has the most attributes.
    assert check_node_tests([max(node_tests()[name], key=lambda case: len(case[0])) for name in names]) <= 2


@pytest.mark.nightly
@pytest.mark.parametrize("letters", ["AB", "CD", "EG", "HM", "NR", "SZ"])
def test_all_node_tests(letters):
    for name in operators(*letters):
        cases = node_tests()[name]
        assert check_node_tests(cases) < max(len(cases), 2), name


# Networks -------------------------------------------------------------------------------------------------------------


def network(opset=20, batch="batch"):
    """Layer normalisation, attention over a computed shape, HardSwish, GELU, and a table that is used twice."""
    width, words = 8, 12
    f = lambda *shape: RNG.normal(size=shape).astype(np.float32) / 2  # noqa: E731
    constants = {
        "table": f(words, width),
        "scale": f(width),
        "bias": f(width),
        "w": f(width, width),
        "tail": np.array([5, width], np.int64),
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "root": np.array(np.sqrt(width), np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "ids"], ["words"], name="lookup"),
        node("LayerNormalization", ["words", "scale", "bias"], ["normal"], axis=-1),
        node("Shape", ["ids"], ["shape"]),
        node("Slice", ["shape", "zero", "one"], ["batch"]),
        node("Concat", ["batch", "tail"], ["full"], axis=0),
        node("ConstantOfShape", ["full"], ["ones"], value=helper.make_tensor("v", FLOAT, [1], [1.0])),
        node("Add", ["normal", "ones"], ["x"]),
        node("MatMul", ["x", "w"], ["q"]),
        node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Div", ["scores", "root"], ["scaled"]),
        node("Softmax", ["scaled"], ["attention"]),
        node("MatMul", ["attention", "x"], ["mixed"]),
        node("HardSwish", ["mixed"], ["hard"]),
        node("Gelu", ["hard"], ["h"]) if opset >= 20 else node("Tanh", ["hard"], ["h"]),
        node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        node("MatMul", ["h", "turned"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("ids", INT64, [batch, 5])],
        [helper.make_tensor_value_info("logits", FLOAT, [batch, 5, words])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def reference(model, *inputs):
    names = [i.name for i in model.graph.input]
    return onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))[0]


@pytest.mark.parametrize("opset", [18, 20, 22])
def test_network(manager, opset):
    model = network(opset)
    for batch in (1, 3):
        ids = RNG.integers(0, 12, (batch, 5))
        logits = manager.compile_model(model, ids)(ids)
        np.testing.assert_allclose(logits, reference(model, ids), rtol=1e-4, atol=1e-5)


def test_weights_in_a_file_of_their_own(manager, tmp_path):
    model = network()
    expected = reference(model, ids := RNG.integers(0, 12, (2, 5)))
    path = tmp_path / "network.onnx"
    onnx.save(model, path, save_as_external_data=True, location="network.data", size_threshold=0)
    for inputs in (ids, {"ids": ids}):
        np.testing.assert_allclose(manager.compile_model(path, inputs)(inputs), expected, rtol=1e-4, atol=1e-5)


def test_a_model_own_function_and_a_branch(manager):
    node = helper.make_node
    double = helper.make_function(
        "own", "Scaled", ["x"], ["y"], [node("Constant", [], ["c"]), node("Mul", ["x", "c"], ["y"])],
        [helper.make_opsetid("", 20)], ["factor"],
    )  # fmt: skip
    constant = double.node[0].attribute.add()
    constant.name, constant.type, constant.ref_attr_name = "value_float", onnx.AttributeProto.FLOAT, "factor"

    def branch(name, operator):
        output = helper.make_tensor_value_info(name, FLOAT, [3])
        return helper.make_graph([node(operator, ["s"], [name])], name, [], [output])

    nodes = [
        node("Scaled", ["x"], ["s"], domain="own", factor=3.0),
        node("If", ["flag"], ["y"], then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg")),
    ]
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [3]),
        helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", FLOAT, [3])])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[double], ir_version=10)
    x = np.array([0.5, -1.0, 2.0], np.float32)
    compiled = manager.compile_model(model, (x, np.array(True)))
    np.testing.assert_allclose(compiled(x, np.array(True)), np.exp(3 * x), rtol=1e-5)
    np.testing.assert_allclose(compiled(x, np.array(False)), -3 * x, rtol=1e-5)


def exported(name):
    """A small network of PyTorch with its example inputs."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    image = torch.randn(2, 3, 32, 32)
    if name == "BERT":
        transformers = pytest.importorskip("transformers")

        class Bert(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = transformers.BertForMaskedLM(
                    transformers.BertConfig(
                        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
                    )
                )

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).logits

        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 8:] = 0
        return Bert().eval(), (torch.randint(0, 50, (2, 12)), mask)
    torchvision = pytest.importorskip("torchvision")
    if name == "ViT":
        model = torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
        torch.nn.init.normal_(model.heads.head.weight)
    elif name == "MobileNetV3":
        model = torchvision.models.mobilenet_v3_small(num_classes=10)
    else:
        model = torchvision.models.resnet18(num_classes=10)
    return model.eval(), (image,)


@pytest.mark.parametrize("name", ["BERT", "ViT", "MobileNetV3", "ResNet"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_exported_by_pytorch(manager, name, dynamic, tmp_path):
    model, inputs = exported(name)
    import torch

    shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs) if dynamic else None
    program = torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False)
    program.save(tmp_path / "model.onnx", external_data=dynamic)
    if dynamic:
        inputs = tuple(torch.cat([x, x[:1]]) for x in inputs)
    outputs = manager.compile_model(tmp_path / "model.onnx", inputs)(*inputs)
    torch.testing.assert_close(outputs, model(*inputs), rtol=1e-4, atol=1e-4)


# Recurrent layers, loops, quantised networks --------------------------------------------------------------------------


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


def test_types_of_64_bits_are_kept(manager):
    """Results have ONNX's types and values, also those of loops; positions and narrow types stay what they are."""
    node, big = helper.make_node, 1 << 40
    body = subgraph(
        [
            node("Identity", ["on"], ["still"]),
            node("Add", ["state", "step"], ["next"]),
            node("Mul", ["next", "step"], ["row"]),
        ],
        ["step", "on", "state"],
        ["still", "next", "row"],
    )
    nodes = [
        node("Mul", ["whole", "factor"], ["product"]),
        node("CumSum", ["whole", "zero"], ["sums"]),
        node("ReduceSum", ["whole"], ["total"], keepdims=0),
        node("Where", ["yes", "whole", "large"], ["chosen"]),
        node("Cast", ["double"], ["cast"], to=INT64),
        node("Cast", ["single"], ["widened"], to=INT64),
        node("Loop", ["count", "yes", "whole"], ["last", "rows"], body=body),
        node("MatMul", ["double", "matrix"], ["products"]),
        node("Exp", ["double"], ["powers"]),
        node("HardSigmoid", ["double"], ["limited"]),
        node("Softmax", ["double"], ["shares"]),
        node("ArgMax", ["single"], ["place"], keepdims=0),
        node("TopK", ["single", "count"], ["top", "places"], axis=0),
        node("Shape", ["single"], ["shape"]),
        node("Gather", ["single", "place"], ["read"]),
    ]
    random = np.random.default_rng(5)
    inputs = {
        "whole": random.integers(-big, big, (4, 3)),
        "double": random.normal(size=(4, 3)),
        "single": random.normal(size=(4, 3)).astype(np.float32),
    }
    constants = {"factor": np.array(3 << 20), "zero": np.array(0), "yes": np.array(True), "large": np.array(big),
                 "count": np.array([3]), "matrix": random.normal(size=(3, 2))}  # fmt: skip
    names = [name for n in nodes for name in n.output]
    model = model_of(nodes, inputs, constants, names)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    expected[names.index("rows")].shape = 3, 4, 3  # the reference joins the rows that ONNX stacks
    for name, found, wanted in zip(names, manager.compile_model(model, inputs)(inputs), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
        exact = {np.float64: 1e-13, np.float32: 1e-6}.get(wanted.dtype.type, 0)
        np.testing.assert_allclose(found, wanted, rtol=exact, atol=exact, err_msg=name)


def test_an_input_gets_the_type_that_the_graph_declares(manager):
    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], {"x": np.ones(2, np.float32)})
    assert manager.compile_model(model, np.ones(2))(np.ones(2)).dtype == np.float32
    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], {"x": np.ones(2, np.int64)})
    assert manager.compile_model(model, np.ones(2, np.int32))(np.ones(2, np.int32)).dtype == np.int64
    for other in (np.float32, np.uint64, np.complex64):
        with pytest.raises(ValueError, match=f"input x of the ONNX model is int64, not {np.dtype(other)}"):
            manager.compile_model(model, np.ones(2, other))


def test_the_sizes_of_images_are_no_weights(manager):
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    inputs = {"x": np.arange(16.0).reshape(1, 1, 4, 4)}
    model = model_of(nodes, inputs, {"scales": np.array([1, 1, 2, 1.5], np.float32)})
    check_against_reference(manager, model, inputs)


@pytest.mark.parametrize("layer", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("form", ["bidirectional", "lengths", "one layer of two", "initial state"])
def test_recurrent_layers_of_pytorch(manager, layer, form, tmp_path):
    """As torch.onnx.export writes them, and with lengths, which it does not write, as PyTorch's packed sequences."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    settings = {"bidirectional": form in ("bidirectional", "lengths"), "num_layers": 1 + (form == "one layer of two")}
    module = getattr(torch.nn, layer)(3, 4, batch_first=form == "one layer of two", **settings).eval()
    x = torch.randn(5, 2, 3)
    state = [torch.randn(module.num_layers, 2, 4) for _ in range(1 + (layer == "LSTM"))]
    if form == "lengths":
        lengths = torch.tensor([5, 3])
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        expected = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0])[0]
        model = recurrent_model(layer, module, x.numpy())
        found = manager.compile_model(model, (x, lengths))(x, lengths)  # [time, directions, batch, hidden]
        torch.testing.assert_close(found.permute(0, 2, 1, 3).reshape(5, 2, 8), expected.detach(), rtol=1e-4, atol=1e-5)
        return

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = module

        def forward(self, x, *state):
            given = state if len(state) > 1 else state[0] if state else None
            outputs, last = self.layer(x, given)
            return outputs, *(last if isinstance(last, tuple) else (last,))

    inputs = (x, *state) if form == "initial state" else (x,)
    torch.onnx.export(Net(), inputs, dynamo=True, verbose=False).save(tmp_path / "model.onnx")
    outputs = manager.compile_model(tmp_path / "model.onnx", inputs)(*inputs)
    torch.testing.assert_close(outputs, Net()(*inputs), rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize(
    ("layer", "attributes"),
    [
        ("LSTM", {"activations": ["HardSigmoid", "ScaledTanh", "Relu"], "activation_alpha": [0.3, 1.5],
                  "activation_beta": [0.4, 0.7], "clip": 0.5, "input_forget": 1}),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
        ("GRU", {"linear_before_reset": 0, "layout": 1}),
    ],
)  # fmt: skip
def test_settings_of_recurrent_layers(manager, layer, attributes):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[layer]
    weights = {"w": (1, 4 * gates, 3), "r": (1, 4 * gates, 4), "b": (1, 8 * gates)}
    constants = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    node = helper.make_node(layer, ["x", "w", "r", "b"], ["y", "last"], hidden_size=4, **attributes)
    x = RNG.normal(size=(2, 6, 3) if attributes.get("layout") else (6, 2, 3)).astype(np.float32)
    found = manager.compile_model(model_of([node], {"x": x}, constants, ("y", "last")), x)(x)
    if attributes.get("layout"):
        x = x.swapaxes(0, 1)
    expected = recurrent_reference(layer, attributes, x, **constants)
    actual = found[0][:, :, 0].swapaxes(0, 1) if attributes.get("layout") else found[0][:, 0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.reshape(found[1], (2, 4)), expected[-1], rtol=1e-4, atol=1e-5)


def recurrent_reference(layer, attributes, x, w, r, b):
    """The formulas of ONNX's documentation for the settings above, in float64."""
    w, r = (np.split(a[0].astype(np.float64), len(w[0]) // 4) for a in (w, r))
    wb, rb = (np.split(part.astype(np.float64), len(w)) for part in np.split(b[0], 2))
    h, c, rows = np.zeros((2, 4)), np.zeros((2, 4)), []
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    for step in x.astype(np.float64):
        part = lambda i, h=h, step=step: step @ w[i].T + h @ r[i].T + wb[i] + rb[i]  # noqa: E731
        if layer == "RNN":
            v = part(0)
            h = np.where(v < 0, 0.2 * v, v)
        elif layer == "GRU":
            z, reset = sigmoid(part(0)), sigmoid(part(1))
            h = (1 - z) * np.tanh(step @ w[2].T + (reset * h) @ r[2].T + rb[2] + wb[2]) + z * h
        else:
            f = lambda v: np.clip(0.3 * np.clip(v, -0.5, 0.5) + 0.4, 0, 1)  # noqa: E731
            g = lambda v: 1.5 * np.tanh(0.7 * np.clip(v, -0.5, 0.5))  # noqa: E731
            i = f(part(0))
            c = (1 - i) * c + i * g(part(3))
            h = f(part(1)) * np.maximum(np.clip(c, -0.5, 0.5), 0)
        rows.append(h)
    return np.array(rows)


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


def loop_model(kind):
    """(model, inputs): a loop that counts, one that ends by a value, one whose state grows, and a scan both ways."""
    node = helper.make_node
    x = RNG.normal(size=3).astype(np.float32)
    constants = {"n": np.array(4, np.int64), "yes": np.array(True), "limit": np.array(50, np.float32)}
    same = node("Identity", ["go"], ["on"])
    if kind == "counted":
        body = subgraph(
            [same, node("Cast", ["i"], ["f"], to=FLOAT), node("Mul", ["h", "x"], ["m"]), node("Add", ["m", "f"], ["o"]),
             node("Identity", ["o"], ["s"])], ["i", "go", "h"], ["on", "o", "s"],
        )  # fmt: skip
        nodes = [node("Loop", ["n", "yes", "x"], ["y", "all"], body=body)]
        return model_of(nodes, {"x": x}, constants, ("y", "all")), {"x": x}
    if kind == "until":
        body = subgraph(
            [node("Add", ["h", "h"], ["o"]), node("ReduceMax", ["o"], ["top"], keepdims=0),
             node("Less", ["top", "limit"], ["on"])], ["i", "go", "h"], ["on", "o"],
        )  # fmt: skip
        return model_of([node("Loop", ["", "yes", "x"], ["y"], body=body)], {"x": abs(x)}, constants), {"x": abs(x)}
    if kind == "growing":
        body = subgraph([same, node("Concat", ["h", "x"], ["o"], axis=0)], ["i", "go", "h"], ["on", "o"])
        return model_of([node("Loop", ["n", "yes", "x"], ["y"], body=body)], {"x": x}, constants), {"x": x}
    xs = RNG.normal(size=(3, 4)).astype(np.float32)
    nodes = [node("Add", ["h", "part"], ["o"]), node("Mul", ["o", "part"], ["s"])]
    body = subgraph(nodes, ["h", "part"], ["o", "s"])
    settings = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_input_directions": [1]}
    settings |= {"scan_output_axes": [1], "scan_output_directions": [1]}
    nodes = [node("Scan", ["x", "xs"], ["y", "all"], body=body, **settings)]
    return model_of(nodes, {"x": x, "xs": xs}, {}, ("y", "all")), {"x": x, "xs": xs}


@pytest.mark.parametrize("kind", ["counted", "until", "growing"])
def test_loops(manager, kind):
    check_against_reference(manager, *loop_model(kind))


def test_scan_backwards(manager):
    model, inputs = loop_model("scan")
    last, rows = manager.compile_model(model, inputs)(inputs)
    state, expected = inputs["x"], []
    for part in inputs["xs"].T[::-1]:
        state = state + part
        expected.insert(0, state * part)  # each result comes before the others
    np.testing.assert_allclose(last, state, rtol=1e-5)
    np.testing.assert_allclose(rows, np.array(expected).T, rtol=1e-5)


def test_a_loop_of_unknown_length_gives_no_rows(manager):
    node = helper.make_node
    body = subgraph(
        [node("ReduceSum", ["h"], ["t"], keepdims=0), node("Less", ["t", "x"], ["on"]), node("Add", ["h", "x"], ["o"]),
         node("Identity", ["o"], ["s"])], ["i", "go", "h"], ["on", "o", "s"],
    )  # fmt: skip
    x = np.array(2.0, np.float32)
    model = model_of([node("Loop", ["", "yes", "x"], ["y", "all"], name="while", body=body)], {"x": x},
                     {"yes": np.array(True)}, ("y", "all"))  # fmt: skip
    with pytest.raises(NotImplementedError, match=r"while \(Loop.*length of its result is known only when"):
        manager.compile_model(model, x)


@pytest.mark.parametrize("form", ["around float", "on integers"])
def test_quantised_networks(manager, form):
    """A convolution and a product with weights of 8 bits, for each channel a scale of its own."""
    node = helper.make_node
    x = RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)
    constants = {
        "xs": np.array(0.03, np.float32), "xz": np.array(120, np.uint8),
        "w": RNG.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8),
        "ws": RNG.uniform(0.01, 0.02, 4).astype(np.float32), "wz": np.zeros(4, np.int8),
        "ys": np.array(0.2, np.float32), "yz": np.array(128, np.uint8),
        "v": RNG.integers(-100, 100, (8, 5)).astype(np.int8), "vs": np.array(0.01, np.float32),
        "vz": np.array(3, np.int8), "zs": np.array(1.5, np.float32), "zz": np.array(100, np.uint8),
    }  # fmt: skip
    quantise = node("QuantizeLinear", ["x", "xs", "xz"], ["q"])
    if form == "on integers":
        nodes = [quantise, node("QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["c"], pads=[1] * 4),
                 node("QLinearMatMul", ["c", "ys", "yz", "v", "vs", "vz", "zs", "zz"], ["y"])]  # fmt: skip
    else:
        nodes = [quantise, node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
                 node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
                 node("Conv", ["d", "wd"], ["c"], pads=[1] * 4), node("DequantizeLinear", ["v", "vs", "vz"], ["vd"]),
                 node("MatMul", ["c", "vd"], ["y"])]  # fmt: skip
    model = model_of(nodes, {"x": x}, constants)
    found, expected = manager.compile_model(model, x)(x), reference(model, x)
    assert found.dtype == expected.dtype
    assert np.unique(expected).size > 20
    # The reference rounds in float32 between its steps, where integers are summed exactly here.
    np.testing.assert_allclose(found, expected, atol=1 if form == "on integers" else 1e-3)


def test_weights_of_8_bits_are_no_constants_of_the_program(manager):
    node = helper.make_node
    x = RNG.normal(size=(4, 256)).astype(np.float32)
    constants = {"w": RNG.integers(-9, 9, (256, 256)).astype(np.int8), "s": np.array(0.1, np.float32)}
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    compiled = manager.compile_model(model_of(nodes, {"x": x}, constants), x)
    np.testing.assert_allclose(compiled(x), 0.1 * x @ constants["w"], rtol=1e-4, atol=1e-3)
    assert [w.dtype.name for w in compiled._weights] == ["int8"]


# Training -------------------------------------------------------------------------------------------------------------

TABLE, SCALE = RNG.normal(size=(11, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
IDS, LABELS = np.arange(11), np.roll(np.arange(11), 1).astype(np.int32)


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


# What is refused ------------------------------------------------------------------------------------------------------


def one_node(operator, inputs, opset=20, outputs=("y",), **attributes):
    infos = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    node = helper.make_node(operator, list(inputs), list(outputs), name="first", **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            lambda: one_node("Det", {"x": [2, 2]}),
            NotImplementedError,
            r"node first \(Det, opset 20\) cannot be run: version 11 of the operator Det .*Give the model that",
        ),
        (
            lambda: one_node("NonZero", {"x": [3]}),
            NotImplementedError,
            r"node first \(NonZero, opset 20\) cannot be run.*depends on values",
        ),
        (
            lambda: one_node("Clip", {"x": [3]}, opset=1, min=0.0),
            NotImplementedError,
            r"node first \(Clip, opset 1\) cannot be run: version 1 .* only 6 and later ones.*export it again",
        ),
        (
            lambda: one_node("Tile", {"x": [3], "r": [1]}),
            TypeError,
            r"node first \(Tile, opset 20\) cannot be run: its repeats is computed from the values.*Shapes, axes",
        ),
        (
            lambda: one_node("Add", {"x": [3], "w": [2]}),
            ValueError,
            r"node first \(Add, opset 20\) does not accept its inputs",
        ),
    ],
    ids=["operator", "dynamic shape", "old version", "value needed", "shapes"],
)
def test_what_is_refused(manager, model, error, message):
    proto = model()
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input]
    with pytest.raises(error, match=message):
        manager.compile_model(proto, tuple(np.ones(shape, np.float32) for shape in shapes))


def test_inputs_are_named_when_they_do_not_fit(manager):
    with pytest.raises(ValueError, match="has the inputs ids, not words"):
        manager.compile_model(network(), {"words": IDS})
