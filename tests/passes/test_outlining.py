"""Repeated blocks as functions: the same values, less code on the tiles, programs that fit only with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.ir import Block, Op, Value, body_of
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.passes.cse import structure_key
from support.modes import MODES, close
from support.stages import lowered

LAYERS, WIDTH, ROWS = 12, 48, 24
CONSTANT = np.arange(3, dtype=np.float32)


def layer(weights, x):
    query, key, value, out, up, down = weights
    normal = x - x.mean(-1, keepdims=True)
    scores = jax.nn.softmax((normal @ query) @ (normal @ key).T / 8)
    x = x + scores @ (normal @ value) @ out
    return x + jax.nn.gelu(x @ up) @ down


def model(weights, x):
    for one in weights:
        x = layer(one, x)
    return x


def looping(weights, x):
    """Each layer has a loop, which reads what is computed before it, a weight of the layer, and a constant."""
    for query, key, _, _, _, _ in weights:
        scale = jnp.tanh(x @ query).mean(0)

        def body(i, s, key=key, scale=scale):
            return s * 0.5 + jnp.tanh(s @ key) * scale + jnp.asarray(CONSTANT)[i]

        x = x @ query + jax.lax.fori_loop(0, 3, body, x)
    return x


def train(weights, x):
    loss, gradient = jax.value_and_grad(lambda w: (model(w, x) ** 2).mean())(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), loss


def arguments(width=WIDTH, rows=ROWS, layers=LAYERS):
    rng = np.random.default_rng(0)
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    weights = [tuple(rng.normal(size=s).astype(np.float32) / 10 for s in shapes) for _ in range(layers)]
    return weights, rng.normal(size=(rows, width)).astype(np.float32)


def text_of(function, *args):
    traced = jax.jit(function, keep_unused=True).trace(*args)
    return str(traced.lower(lowering_platforms=("ipu",)).compiler_ir("stablehlo")).encode()


def options(**values):
    """A CompileOptionsProto with these compiler options."""
    serialized = b""
    for name, value in values.items():
        key, override = f"ipu_{name}".encode(), b"\x0a" + bytes([len(value)]) + value.encode()
        entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(override)]) + override
        serialized += b"\x3a" + bytes([len(entry)]) + entry
    return serialized


def compiled(function, *args, outline):
    settings = Options(outline=outline)
    mapped, program = lowered(text_of(function, *args), settings)
    return mapped.module, _ipu.compile_graph(program.graph, program.programs, "program")


def calls_of(module):
    return [op for op in module.main.block.ops if op.name == "ipu.call"]


@pytest.mark.parametrize(("function", "calls"), [(model, [LAYERS]), (looping, [LAYERS]), (train, [LAYERS - 1] * 2)])
def test_equal_layers_become_calls_of_one_function(function, calls):
    module, outlined = compiled(function, *arguments(), outline="always")
    functions = {id(op.attrs.get("of", op)) for op in calls_of(module)}
    assert len(functions) == len(calls) and len(calls_of(module)) == sum(calls)
    _, repeated = compiled(function, *arguments(), outline="never")
    # The memory that is always used on the tiles, and the number of operations to plan.
    assert code_bytes(outlined) < 0.75 * code_bytes(repeated)
    kinds = [[r.kind for r in c.report().operations] for c in (outlined, repeated)]
    products = [of_program.count("poplin::matMulGrouped") for of_program in kinds]
    assert products[0] < 0.5 * products[1]


def code_bytes(graph):
    memory = graph.memory()
    return memory.code_bytes + memory.vertex_bytes


def check_values(function, mode):
    """The program with functions has the values of the CPU."""
    execution, tiles = mode
    args = arguments(16, 6)
    executable = compiler.compile(text_of(function, *args), "mlir", options(outline="always"), f"ipu2:{tiles}")
    actual = _ipu.run(executable, [x.tobytes() for x in jax.tree.leaves(args)], execution)
    expected = jax.tree.leaves(jax.jit(function, backend="cpu")(*args))
    for a, e in zip(actual, map(np.asarray, expected), strict=True):
        close(np.frombuffer(a, np.float32).reshape(e.shape), e, rtol=1e-4)


@pytest.mark.parametrize("function", [model, looping, train])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: f"{mode[0]}{mode[1]}")
def test_values(function, mode):
    check_values(function, mode)


def two_checkpointed(weights, x):
    """Each block runs twice: forward, and once more for its gradient."""
    block = jax.checkpoint(layer)

    def loss(weights):
        return (block(weights[1], block(weights[0], x)) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights[:2])
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights[:2], gradient), value


jitted_layer = jax.jit(layer)


def two_apart(weights, x):
    """Something else is computed between the calls."""
    x = jitted_layer(weights[0], x)
    x = jnp.cumsum(x @ jnp.tanh(x.T @ x), 0)
    return jitted_layer(weights[1], x)


def two_written_out(weights, x):
    return layer(weights[1], layer(weights[0], x))


TWICE = [(two_checkpointed, 4), (two_apart, 2), (two_written_out, 2)]


@pytest.mark.parametrize(("function", "calls"), TWICE)
def test_what_runs_twice_becomes_calls(function, calls):
    """In a row or not; what a checkpoint computes again has the functions of the forward pass."""
    module, outlined = compiled(function, *arguments(layers=2), outline="always")
    _, repeated = compiled(function, *arguments(layers=2), outline="never")
    numbers = {}
    for call in calls_of(module):
        numbers[call.attrs.get("of", call)] = numbers.get(call.attrs.get("of", call), 0) + 1
    assert max(numbers.values()) == calls, numbers
    assert code_bytes(outlined) < 0.95 * code_bytes(repeated)
    # Operations of the function are planned once, and counted as often as they run.
    products = [
        [r.executions for r in c.report().operations if r.kind == "poplin::matMulGrouped"] for c in (outlined, repeated)
    ]
    assert sum(products[0]) == sum(products[1]) and len(products[0]) < 0.75 * len(products[1])


@pytest.mark.parametrize("function", [function for function, _ in TWICE])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: f"{mode[0]}{mode[1]}")
def test_values_of_what_runs_twice(function, mode):
    check_values(function, mode)


def test_an_executable_with_functions_that_run_twice_is_serialised():
    args = arguments(16, 6, layers=2)
    executable = compiler.compile(text_of(two_checkpointed, *args), "mlir", options(outline="always"), "ipu2:8")
    again = _ipu.Executable.deserialize(executable.serialize())
    inputs = [x.tobytes() for x in jax.tree.leaves(args)]
    assert _ipu.run(again, inputs, "fast") == _ipu.run(executable, inputs, "fast")
    assert again.cost.cycles == executable.cost.cycles


def test_a_threshold_for_what_a_function_is_worth():
    """PopART's measure: a product 1000, anything else 0.1. A layer has eight products."""

    def found(**values):
        settings = Options(outline="always", **values)
        return calls_of(lowered(text_of(model, *arguments()), settings)[0].module)

    assert Options().outline_threshold == 1.0
    assert len(found()) == len(found(outline_threshold=-1.0)) == len(found(outline_threshold=8000.0)) == LAYERS
    assert not found(outline_threshold=1e6)
    program = text_of(model, *arguments(16, 6, layers=3))
    for wrong in ("much", "nan", "inf"):
        with pytest.raises(compiler.CompileError, match=f"ipu_outline_threshold={wrong} is not valid; use a number"):
            compiler.compile(program, "mlir", options(outline_threshold=wrong), "ipu2:8")
    same = compiler.compile(program, "mlir", options(outline="always", outline_threshold="1e9"), "ipu2:8")
    never = compiler.compile(program, "mlir", options(outline="never"), "ipu2:8")
    assert same.memory.code_bytes >= never.memory.code_bytes * 0.95


def test_layers_whose_weights_are_gathered_become_calls():
    """Each collective has a channel of its own, in a function as little as elsewhere."""
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("x",))
    cut, batch = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("x", None, None))
    weights, x = arguments(layers=4)
    x = np.stack([x, 2 * x, 3 * x, 4 * x])

    def step(weights, x):
        loss, gradient = jax.value_and_grad(lambda w: (jax.vmap(model, (None, 0))(w, x) ** 2).mean())(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), loss

    jitted = jax.jit(step, in_shardings=(cut, batch), out_shardings=(cut, None))
    expected = jax.jit(step)(*jax.device_put((weights, x), jax.devices("cpu")[0]))
    code = {}
    for outline in ("always", "never"):
        program = jitted.lower(weights, x).compile({"ipu_outline": outline})
        actual = program(*jax.device_put((weights, x), (cut, batch)))
        for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            close(np.asarray(a), np.asarray(e), rtol=1e-3)
        code[outline] = program.memory_analysis().generated_code_size_in_bytes
    assert code["always"] < code["never"]


def test_loops_that_use_values_in_another_order():

    def different(weights, x):
        for i, (query, key, *_) in enumerate(weights):
            first, other = (query, key) if i % 2 else (key, query)
            x = jax.lax.fori_loop(0, 3, lambda _, s, a=first, b=other: jnp.tanh(s @ a) - s @ b, x @ query)
        return x

    check_values(different, ("tile", 8))


def test_loops_with_one_operand_twice_differ_from_those_with_two():
    """Both read two values, but not in as many places."""
    a, b = (Value((4,), "f32") for _ in range(2))

    def loop(*operands):
        args = [Value((4,), "f32", None, i) for i in range(2)]
        added = Op("add", [args[0], b], [((4,), "f32")])
        body = Block(args, [added, Op("return", [added.result, args[1]], [])])
        return Op("ipu.repeat", operands, [((4,), "f32")] * 2, {"count": 3}, (body,))

    assert structure_key(loop(a, a), captures=True) != structure_key(loop(a, b), captures=True)


def test_layers_that_differ_stay():
    def different(x):
        for i in range(6):
            x = jnp.tanh(x @ jnp.full((ROWS + i, ROWS + i + 1), 0.01))
        return x

    module, _ = compiled(different, np.ones((4, ROWS), np.float32), outline="always")
    assert not calls_of(module)


def test_broadcasts_are_no_results_of_functions():
    """A broadcast has no memory of its own; as a result it would lie on the few tiles of its operand."""

    def statistics(x, weights):
        kept = []
        for w, scale in weights:
            x = jnp.tanh(x @ w)
            mean, scales = (jnp.broadcast_to(v, x.shape) for v in (x.mean(0), scale))
            x = (x - mean) * scales
            kept += [mean, scales]
        return x, kept

    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), np.ones(WIDTH, np.float32)) for _ in range(LAYERS)]
    module, _ = compiled(statistics, np.ones((256, WIDTH), np.float32), weights, outline="always")
    calls = calls_of(module)
    assert len(calls) >= LAYERS - 1
    sources = [body_of(call).results for call in calls]
    assert not [v for results in sources for v in results if v.op is not None and v.op.name == "broadcast_in_dim"]


def test_programs_that_fit_only_with_functions_compile():
    program = text_of(model, *arguments(43, 4, layers=84))
    with pytest.raises(_ipu.Error, match="out of IPU memory"):
        compiler.compile(program, "mlir", options(outline="never"), "ipu2:16")
    compiler.compile(program, "mlir", b"", "ipu2:16")


def test_programs_that_fit_stay_as_they_are():
    step = jax.jit(model, backend="ipu").lower(*arguments())
    cycles = [step.compile(compiler_options=o).cost_analysis()["cycles"] for o in ({}, {"ipu_outline": "never"})]
    assert cycles[0] == cycles[1]
    assert step.compile(compiler_options={"ipu_outline": "always"}).cost_analysis()["cycles"] > cycles[0]
