"""Recurrent layers, loops and quantised networks of ONNX."""

import numpy as np
import pytest

from support.onnx_models import (
    FLOAT,
    check_against_reference,
    helper,
    model_of,
    recurrent_model,
    reference,
    subgraph,
)

RNG = np.random.default_rng(0)


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
        inputs = (x, lengths.int())  # the type that ONNX has for them
        found = manager.compile_model(model, inputs)(*inputs)  # [time, directions, batch, hidden]
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
