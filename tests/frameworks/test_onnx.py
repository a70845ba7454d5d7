"""ONNX models on the IPU: operators against ONNX's own tests, exported networks, rejected models."""

import functools

import jax
import numpy as np
import pytest

from jax_ipu.models.wide import types_kept
from support.onnx_models import (
    FLOAT,
    INT64,
    check_against_reference,
    helper,
    model_of,
    onnx,
    reference,
    subgraph,
)

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


# Types and sizes ------------------------------------------------------------------------------------------------------


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
        manager.compile_model(network(), {"words": np.arange(11)})
