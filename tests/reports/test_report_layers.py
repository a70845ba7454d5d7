"""The layers of reports: what name scopes, modules, functions and lines of the user cost and hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu.reports.layers import layers_of
from support import report_programs
from support.report_programs import mnist_arguments, mnist_step, shape
from support.torch_models import torch_or_skip

TILES = 32
TARGET = f"ipu2:{TILES}"


def test_layers_of_a_gradient():
    fun, args, donated = mnist_step, mnist_arguments(), (0,)
    data = jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated).as_dict()
    layers = {node["id"]: node for node in data["layers"]}

    def path(number):
        above = layers[number]["parent"]
        return [*(path(above) if above is not None else []), layers[number]["name"]]

    products = [row for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
    assert all(path(row["layer"]) == ["mnist_step", "gradient"] for row in products)
    assert [row["backward"] for row in products].count(False) == 2
    assert {"f32[32,64]", "f32[784,64]"} <= {row["shape"] for row in products}
    assert ["mnist_step", "gradient", "log_softmax"] in [path(i) for i in layers]
    [loss] = [node for node in data["functions"] if ".loss (" in node["name"]]
    assert loss["cycles"] == layers[1]["cycles"]
    # The innermost call comes first.
    first = [data["frames"][i] for i in products[0]["stack"]]
    assert [frame["function"] for frame in first][:2] == ["mnist_step.<locals>.loss", "mnist_step"]
    assert first[0]["path"] == report_programs.__file__ and first[0]["line"] == products[0]["line"]
    assert not any(frame["path"].startswith("jax_ipu/") for frame in data["frames"])
    held = [v for v in data["variables"] if v["layer"] is not None and v["role"] == "variable"]
    assert held and layers[0]["variable_bytes"] == sum(v["bytes"] for v in held)


def test_arguments_are_in_the_layer_that_reads_them():
    def step(p, x, scanned):
        def loss(p):
            with jax.named_scope("hidden"):
                h = jnp.maximum(x @ p["w1"] + p["b1"], 0)
            with jax.named_scope("head"):
                y = h @ p["w2"]
            with jax.named_scope("blocks"):
                y, _ = lax.scan(lambda c, w: (jnp.tanh(c @ w), None), y, scanned)
            return (y**2).mean()

        gradient = jax.grad(loss)(p)
        with jax.named_scope("update"):
            return jax.tree.map(lambda p, g: p - 0.1 * g, p, gradient)

    def layers_of_arguments(target, width):
        p = {"w1": shape(784, width), "b1": shape(width), "w2": shape(width, 16)}
        report = jax_ipu.report(step, p, shape(32, 784), shape(4, 16, 16), target=target, donate_argnums=0)
        data = report.as_dict()
        nodes, found = data["layers"], {}
        for v in data["variables"]:
            if v["argument"] and v["role"] == "variable":
                at, path = v["layer"], []
                while at is not None:
                    at, path = nodes[at]["parent"], [nodes[at]["name"], *path]
                found[v["argument"]] = path[1]  # below the function itself
        return report.fits, found

    wanted = {"p['w1']": "hidden", "p['b1']": "hidden", "p['w2']": "head", "x": "hidden", "scanned": "blocks"}
    # A donated argument is written by the update, in its place; it is a weight of its layer all the same.
    assert layers_of_arguments(TARGET, 64) == (True, wanted)
    assert layers_of_arguments("ipu2:11", 1024) == (False, wanted)


def test_layers_of_a_loop_are_told_apart():
    def tower(weights, x):
        for i, w in enumerate(weights):
            with jax.named_scope(f"block_{i}"), jax.named_scope("dense"):
                x = jnp.tanh(x @ w)
        return x

    data = jax_ipu.report(tower, [jnp.ones((8, 8))] * 3, jnp.ones((4, 8)), target="ipu2:4").as_dict()
    titles = [row["title"] for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
    assert [title.partition(" in ")[2] for title in titles] == [f"block_{i}/dense" for i in range(3)]


def test_calls_from_several_lines_are_told_apart():
    def block(x):
        return lax.conv_general_dilated(
            x, jnp.ones((3, 3, 4, 4)), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def net(x):
        x = block(x)
        x = block(x)
        x = jnp.tanh(block(x))
        return block(x[:, ::2])

    data = jax_ipu.report(net, shape(1, 8, 8, 4), target=TARGET).as_dict()
    titles = [row["title"] for row in data["operations"] if row["kind"] == "poplin::convolution"]
    assert len(titles) == 4 == len(set(titles))
    assert sum("f32[1,4,8,4]" in title for title in titles) == 1
    line = net.__code__.co_firstlineno
    assert [f"from test_report_layers.py:{line + i}" in title for i, title in enumerate(titles[:3], 1)] == [True] * 3


def test_modules_of_one_class_are_told_apart_by_their_weights():
    nn = pytest.importorskip("equinox.nn")
    keys = jax.random.split(jax.random.key(0), 3)
    layers = [nn.Linear(16, 16, key=key) for key in keys]

    def network(layers, x):
        for layer in layers:
            x = jnp.tanh(jax.vmap(layer)(x))
        return x

    data = jax_ipu.report(network, layers, shape(8, 16), target=TARGET).as_dict()
    titles = [row["title"] for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
    assert [title.partition(" in ")[2] for title in titles] == [f"layers[{i}]" for i in range(3)]


def test_instances_of_an_equinox_class_are_layers():
    equinox = pytest.importorskip("equinox")

    class Block(equinox.Module):
        linear: equinox.nn.Linear

        def __call__(self, x):
            return jnp.tanh(jax.vmap(self.linear)(x))

    class Net(equinox.Module):
        first: Block
        second: Block

        def __call__(self, x):
            return self.second(self.first(x))

    keys = jax.random.split(jax.random.key(0))
    net = Net(*(Block(equinox.nn.Linear(16, 16, key=key)) for key in keys))
    # The batch comes first: it does not hide the weights.
    data = jax_ipu.report(lambda x, net: net(x), shape(8, 16), net, target=TARGET).as_dict()
    nodes = data["layers"]
    instances = {node["name"]: node for node in nodes if node["name"].startswith("net.")}
    assert set(instances) == {"net.first.linear", "net.second.linear"}
    for name, node in instances.items():
        assert nodes[node["parent"]]["name"] == "eqx.nn.Linear"
        products = [row for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
        [product] = [row for row in products if row["layer"] == node["id"]]
        assert node["cycles"] >= product["cycles"]
        held = {v["argument"] for v in data["variables"] if v["layer"] == node["id"] and v["argument"]}
        assert f"{name}.weight" in held


@pytest.mark.parametrize(
    "path, layers",
    [
        ("jit(step)/transpose(jvp(MLP))/Dense_0/mul", ("step", "MLP", "Dense_0")),  # flax
        ("jit(f)/vmap(eqx.nn.MLP)/vmap()/jit(relu)/max", ("f", "eqx.nn.MLP", "relu")),  # equinox
        ("jit(f)/jvp(mlp/linear_0)/add", ("f", "mlp", "linear_0")),  # haiku
        ("jit(f)/while/body/closed_call/layer/dot_general", ("f", "layer")),
        ("jit(f)/cond/branch_1_fun/checkpoint/rematted_computation/sin", ("f",)),
        ("sin", ()),
        ("", ()),
    ],
)
def test_layers_in_a_name_stack(path, layers):
    assert layers_of(path) == layers


def flax_report():
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(4)(linen.relu(linen.Dense(32)(x)))

    x = jnp.ones((8, 16))
    variables = Net().init(jax.random.key(0), x)
    return jax_ipu.report(jax.grad(lambda v: Net().apply(v, x).sum()), variables, target=TARGET)


def equinox_report():
    nn = pytest.importorskip("equinox.nn")
    model = nn.MLP(16, 4, 32, 1, key=jax.random.key(0))
    return jax_ipu.report(jax.vmap(model), shape(8, 16), target=TARGET)


def torch_report():
    nn = torch_or_skip().nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
            self.out = nn.Linear(32, 4)

        def forward(self, x):
            return self.out(self.layers(x))

    with jax_ipu.GraphCoreManager(compile_only=True) as manager:
        return manager.report(Net().eval(), np.ones((8, 16), np.float32))


@pytest.mark.parametrize(
    "report, paths",
    [
        (flax_report, {("Net", "Dense_0"), ("Net", "Dense_1")}),
        (equinox_report, {("eqx.nn.MLP", "eqx.nn.Linear")}),
        (torch_report, {("PyTorch", "Net", "layers", "0"), ("PyTorch", "Net", "out")}),
    ],
)
def test_modules_are_layers(report, paths):
    data = report().as_dict()
    nodes = data["layers"]

    def path(number):
        above = nodes[number]["parent"]
        return (*(path(above) if above is not None else ()), nodes[number]["name"])

    products = [row for row in data["operations"] if row["kind"] == "poplin::matMulGrouped"]
    assert paths == {path(row["layer"]) for row in products}
