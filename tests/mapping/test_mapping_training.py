"""The tile mapping of the training steps in examples/mnist on a whole IPU, against spreading every tensor linearly."""

import importlib
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from jax_ipu import _ipu
from jax_ipu.compiler.options import Options
from support import stages
from support.modes import check, each_mode

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "mnist"))
KEY = jax.random.PRNGKey(0)


def lowered(example, batch):
    """Returns the lowered update step of an example with donated state."""
    module = importlib.import_module(example)
    step = module.update_step
    init = module.init
    if example == "mnist_cnn":
        step = partial(step, 0)
        init = partial(init, image_shape=(28, 28, 1))
    images = jax.ShapeDtypeStruct((batch, 28, 28, 1), np.float32)
    labels = jax.ShapeDtypeStruct((batch, 10), np.float32)
    state = jax.eval_shape(init, KEY)
    return jax.jit(step, backend="ipu", donate_argnums=1).lower(0, state, (images, labels))


def built(example, batch, mode):
    text = str(lowered(example, batch).compiler_ir()).encode()
    program, graph = stages.lowered(text, Options(mode))
    return program.module, program.signature, graph


def update_of(module, value):
    """Returns the elementwise op that computes the new value of an argument."""
    (op,) = [u for u in value.users if u.name == "ipu.map" and u.results[0].shape == value.shape]
    return op


@pytest.fixture(scope="module")
def classifier():
    return built("mnist_classifier", 128, "demand")


def test_the_three_products_of_every_layer_have_their_roles(classifier):
    module, _, _ = classifier
    roles = [op.attrs["pass"] for op in module.main.block.ops if op.name == "dot_general"]
    assert sorted(roles) == sorted(["TRAINING_FWD", "TRAINING_WU"] * 3 + ["TRAINING_BWD"] * 2)
    assert roles[:3] == ["TRAINING_FWD"] * 3


def test_inference_has_no_training_roles():
    text = str(
        jax.jit(lambda w, x: jax.nn.relu(x @ w) @ w.T, backend="ipu")
        .lower(jax.ShapeDtypeStruct((64, 96), np.float32), jax.ShapeDtypeStruct((8, 64), np.float32))
        .compiler_ir()
    )
    module = stages.mapped(text).module
    dots = [op for op in module.main.block.ops if op.name == "dot_general"]
    assert len(dots) == 2
    assert not any("pass" in op.attrs for op in dots)


def test_weights_momentum_and_gradient_are_mapped_alike(classifier):
    module, signature, graph = classifier
    weights = [a.value for a in signature.arguments if a.resident and len(a.value.shape) == 2][:3]
    assert [w.shape for w in weights] == [(784, 1024), (1024, 1024), (1024, 10)]
    for value in weights:
        operands = [o for o in update_of(module, value).operands if o.shape == value.shape]
        (gradient,) = [o for o in operands if o.op is not None]
        assert gradient.op.attrs["pass"] == "TRAINING_WU"
        assert len(operands) == 3
        mappings = [graph.graph.get_tile_mapping(graph.tensors[o]) for o in operands]
        assert mappings[0] == mappings[1] == mappings[2]


@pytest.mark.parametrize("mode", ["demand", "linear"])
def test_updates_of_the_weights_exchange_nothing_in_the_default_mapping(mode):
    _, _, graph = built("mnist_classifier", 128, mode)
    report = _ipu.compile_graph(graph.graph, graph.programs, "step").report().operations
    weights = 784 * 1024 + 1024 * 1024 + 1024 * 10
    # In the main program, no copy is as large as the smallest of the weights.
    copies = [r for r in report if "copy" in r.kind.lower()]
    assert all(r.exchange_bytes < 1024 * 10 * 4 for r in copies)
    update_maps = [r for r in report if r.kind == "popops::map" and r.flops >= 4 * 1024 * 10]
    large = sorted(update_maps, key=lambda r: -r.flops)[:2]
    moved = sum(r.exchange_bytes for r in large)
    if mode == "demand":
        assert moved == 0
    else:
        # The gradients arrive from the tiles of the products that computed them.
        assert moved > weights


def costs(example, batch):
    program = lowered(example, batch)
    default = program.compile().cost_analysis()
    linear = program.compile(compiler_options={"ipu_mapping": "linear"}).cost_analysis()
    return default, linear


STEPS = [("mnist_classifier", batch) for batch in (16, 32, 64, 128, 256)] + [("mnist_cnn", 32)]


@pytest.mark.parametrize(("example", "batch"), STEPS)
def test_steps_exchange_less_and_take_less_time_than_linear(example, batch):
    program = lowered(example, batch)
    default = program.compile().cost_analysis()
    linear = program.compile(compiler_options={"ipu_mapping": "linear"}).cost_analysis()
    assert default["exchange bytes"] < linear["exchange bytes"]
    assert default["cycles"] < linear["cycles"]


def layer_costs(rows, depth, columns):
    """Returns the exchanged bytes and cycles of a layer's three products, planned jointly and separately."""
    costs = []
    for joint in (True, False):
        graph, program = _ipu.Graph(_ipu.Target("ipu2")), _ipu.Sequence("layer")
        options = [{"fullyConnectedPass": f"TRAINING_{p}"} if joint else {} for p in ("FWD", "BWD", "WU")]
        x, dy = (graph.add_variable("f32", (1, rows, n), "activations") for n in (depth, columns))
        shapes = (1, rows, depth), (1, depth, columns)
        weights = _ipu.create_mat_mul_grouped_input_rhs(graph, "f32", "f32", *shapes, "weights", options[0])
        for tensor in (x, dy) if joint else (x, dy, weights):
            graph.map_linearly(tensor)
        _ipu.mat_mul_grouped(graph, x, weights, "f32", program, "forward", options[0], None)
        _ipu.mat_mul_grouped(graph, dy, weights.dim_shuffle([0, 2, 1]), "f32", program, "backward", options[1], None)
        _ipu.mat_mul_grouped(graph, x.dim_shuffle([0, 2, 1]), dy, "f32", program, "update", options[2], weights)
        costs.append(_ipu.compile_graph(graph, [program], "layer").cost())
    return costs


# Includes extents that no grid over the tiles divides.
@pytest.mark.parametrize("shape", [(32, 784, 512), (32, 97, 61), (128, 1024, 1024), (256, 1024, 1024), (64, 1024, 10)])
def test_the_products_of_a_layer_cost_less_planned_jointly(shape):
    joint, separate = layer_costs(*shape)
    assert joint.exchange_bytes < separate.exchange_bytes
    # What the planner minimises in training: cycles, and bytes at a quarter of their exchange (matmul_plan.cc).
    assert joint.cycles + 0.25 * joint.exchange_cycles < separate.cycles + 0.25 * separate.exchange_cycles


@each_mode
def test_a_step_on_odd_extents_has_the_values_of_jax(mode):
    rng = np.random.default_rng(0)
    state = [rng.normal(size=s).astype(np.float32) / 8 for s in ((97, 61), (61,), (61, 13))]
    x, y = rng.normal(size=(33, 97)).astype(np.float32), rng.normal(size=(33, 13)).astype(np.float32)

    def loss(state, x, y):
        return ((jax.nn.relu(x @ state[0] + state[1]) @ state[2] - y) ** 2).mean()

    def step(state, x, y):
        return jax.tree.map(lambda w, g: w - 0.1 * g, state, jax.grad(loss)(state, x, y))

    check(step, state, x, y, mode=mode)
