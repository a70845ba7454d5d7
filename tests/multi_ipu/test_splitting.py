"""A loss is cut into stages: values, gradients and weights of the whole, balance, and what cannot be cut."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jax_ipu
from support import processes
from support.modes import on_cpu

IPUS = jax.devices("ipu")
WIDTH, ROWS, BATCHES = 16, 8, 2


def array(seed, *shape):
    return (np.random.default_rng(seed).normal(size=shape) / 4).astype(np.float32)


def layers(seed, count):
    return [{"up": array(seed + i, WIDTH, 32), "down": array(10 * seed + i, 32, WIDTH)} for i in range(count)]


def residual(w, x):
    return x + jnp.tanh(x @ w["up"]) @ w["down"]


def multilayer(params, x, y):
    for w in params:
        x = residual(w, x)
    return jnp.mean((x - y) ** 2)


def recomputed(params, x, y):
    for w in params:
        x = jax.checkpoint(residual)(w, x)
    return jnp.mean((x - y) ** 2)


@jax.jit
def with_a_mask(params, tokens, labels):
    """Whole numbers in, and a mask of booleans that every layer reads."""
    x = params["table"][tokens]
    mask = (tokens != 0)[:, :, None]
    for w in params["layers"]:
        x = jnp.where(mask, jax.jit(residual)(w, x), x)
    scores = jax.nn.log_softmax(x.mean(1) @ params["head"])
    return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(labels, 3), -1))


def with_shortcuts(params, x, y):
    """The first layer's result goes past others to the last; a weight nobody reads."""
    first = jnp.tanh(x @ params["a"])
    z = jnp.tanh(first @ params["b"])
    z = jnp.tanh(z @ params["c"].T) * jnp.arange(WIDTH)
    return jnp.mean(((first + z) @ params["d"] - y) ** 2)


TOKENS = np.arange(ROWS * 4).reshape(ROWS, 4).astype(np.int32) % 5
SQUARES = {name: array(i, WIDTH, WIDTH) for i, name in enumerate("abcd")}
ROWS_OF_FLOATS = (array(1, ROWS, WIDTH), array(2, ROWS, WIDTH))
CASES = {
    "layers": (multilayer, layers(3, 4), ROWS_OF_FLOATS, 4),
    "recomputed": (recomputed, layers(3, 3), ROWS_OF_FLOATS, 3),
    "mask": (
        with_a_mask,
        {"table": array(1, 5, WIDTH), "layers": layers(4, 3), "head": array(2, WIDTH, 3)},
        (TOKENS, np.arange(ROWS, dtype=np.int32) % 3),
        3,
    ),
    "shortcuts": (with_shortcuts, {**SQUARES, "unread": array(7, 3)}, ROWS_OF_FLOATS, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_stages_are_the_whole(name) -> None:
    loss, params, batch, count = CASES[name]
    micro = [a[: ROWS // BATCHES] for a in batch]
    stages = jax_ipu.split_into_stages(loss, params, *micro, count=count)
    assert len(stages.functions) == len(stages.weights) == count == len(stages.sent) + 1
    assert jax.tree.structure(stages.join(stages.weights)) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, stages.join(stages.weights), params)
    pipe = jax_ipu.pipeline(stages.functions, devices=IPUS[:count], gradient_accumulation=BATCHES)
    value, gradients = pipe.value_and_grad(stages.weights, *batch)
    expected, of_params = on_cpu(jax.value_and_grad(loss), (params, *batch))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=2e-5, atol=1e-6), stages.join(gradients), of_params)


def test_equal_layers_are_shared_evenly() -> None:
    stages = jax_ipu.split_into_stages(multilayer, layers(3, 6), *ROWS_OF_FLOATS, count=3)
    assert [len(weights) for weights in stages.weights] == [4, 4, 4]
    assert max(stages.cycles) < 1.5 * min(stages.cycles)
    assert stages.sent == [ROWS * WIDTH * 4] * 2
    assert str(stages).startswith("stage 0: ")


@pytest.mark.parametrize(
    ("cycles", "held", "sent", "count", "cuts"),
    [
        ([10, 10, 10, 10], [1, 1, 1, 1], [8, 8, 8, 8], 2, [2]),
        ([40, 10, 10, 10], [1, 1, 1, 1], [8, 8, 8, 8], 2, [1]),
        ([10, 10, 10, 10], [60, 60, 1, 1], [8, 8, 8, 8], 2, [1]),  # does not fit otherwise
        ([40, 10, 10, 10, 1], [1, 1, 1, 1, 1], [8, 8, 4, 8, 8], 3, [1, 3]),  # the dearest is alone: fewer bytes
    ],
)
def test_memory_decides_before_cycles_and_cycles_before_bytes(cycles, held, sent, count, cuts) -> None:
    from jax_ipu.pipelines import splitting

    assert splitting._balanced(cycles, held, [0] * len(cycles), sent, count, 100) == cuts


def tied(params, tokens, labels):
    x = params["table"][tokens].mean(1)
    for w in params["layers"]:
        x = residual(w, x)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(x @ params["table"].T, labels))


def calls_back(params, x):
    jax.debug.print("{}", x[0, 0])
    return jnp.mean(x @ params)


@pytest.mark.parametrize(
    ("loss", "params", "batch", "count", "text"),
    [
        (
            tied,
            {"table": array(1, 5, WIDTH), "layers": layers(3, 3)},
            (TOKENS, TOKENS[:, 0]),
            4,
            r"\['table'\] is read",
        ),
        (multilayer, layers(3, 1), ROWS_OF_FLOATS, 30, "cannot be cut into 30 stages, but into"),
        (multilayer, layers(3, 1), ROWS_OF_FLOATS, 0, "count=0 is not valid"),
        (lambda w, x: x @ w, array(1, WIDTH, 2), ROWS_OF_FLOATS[:1], 2, "a scalar of floats"),
        (calls_back, array(1, WIDTH, 2), ROWS_OF_FLOATS[:1], 2, "has effects"),
        (lambda w, x: jnp.mean(w), array(1, WIDTH, 2), ROWS_OF_FLOATS[:1], 2, "does not depend on the batch"),
        (lambda w, x: jnp.mean(x), [], ROWS_OF_FLOATS[:1], 2, "no parameters"),
    ],
)
def test_what_cannot_be_cut_is_said(loss, params, batch, count, text) -> None:
    with pytest.raises(ValueError, match=text):
        jax_ipu.split_into_stages(loss, params, *batch, count=count)


def test_a_piece_that_does_not_fit_is_named() -> None:
    shapes = [jax.ShapeDtypeStruct((20_000, 20_000), np.float32), jax.ShapeDtypeStruct((4, 20_000), np.float32)]
    with pytest.raises(ValueError, match=r"does not fit on an IPU by itself, between float32\[4, 20000\] and float32"):
        jax_ipu.split_into_stages(lambda w, x: jnp.mean(jnp.tanh(x @ w)), *shapes, count=1)


STEP = """
    import jax, jax.numpy as jnp, numpy as np, optax
    from jax_ipu import GraphCoreManager

    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(255, 255)) / 20).astype(np.float32) for _ in range(8)]
    x, y = rng.normal(size=(2, 32, 255)).astype(np.float32)

    def apply(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return x

    def loss(params):
        return jnp.mean((apply(params, x) - y) ** 2)

    with GraphCoreManager(num_ipus=4) as ipu:
        step = ipu.compile_training_step(
            (apply, params), "mean_squared_error", "adam", (x, y), gradient_accumulation=4
        )
        losses = [step((x, y)) for _ in range(3)]
        print(step.plan.distribution, len(step.distribution), step.cost.cycles > 0, "idle" in step.report)
        weights = step.weights()
        try:
            step.save("step.ipu")
        except ValueError as error:
            print(error)
        step.release()
        print(step.distribution)
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    optimizer = optax.adam(0.01)
    state = optimizer.init(params)
    for found in losses:
        value, gradients = jax.jit(jax.value_and_grad(loss))(params)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        changes, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, changes)
    for a, e in zip(weights, params):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-3)
"""


def test_a_manager_trains_in_stages_what_does_not_fit_one_ipu(tmp_path) -> None:
    printed = processes.output(
        STEP, tmp_path, JAX_PLATFORMS="ipu,cpu", JAX_IPU_DEVICE_COUNT="4", JAX_IPU_MODEL_NUM_TILES="8"
    )
    first, *error, last = printed.splitlines()
    assert (first, last) == ("stages 4 True True", "[]")
    assert error == [
        "a model in 4 stages cannot be saved as an executable: save its weights(), and compile it again with them"
    ]


@functools.cache
def trainer(apply, params, frozen=(), train=None):
    from jax_ipu.models.model import Model
    from jax_ipu.models.optimizers import optimizer_of
    from jax_ipu.models.training import Trainer

    model = Model("test", apply, list(params), list(frozen), train=train)
    batch = (np.ones((4, 2), np.float32), np.ones((4, 2), np.float32))
    return Trainer(model, "mean_squared_error", optimizer_of("sgd", 0.1), batch, 1, "float32", 0)


def random(trainable, frozen, key, x):
    return x * trainable[0] + jax.random.normal(key, x.shape), frozen


def counting(trainable, frozen, key, x):
    return x * trainable[0], [frozen[0] + 1]


def plain(trainable, frozen, key, x):
    return x * trainable[0] + frozen[0], frozen


def test_only_a_loss_of_weights_and_batch_is_trained_in_stages() -> None:
    weight, other = (np.float32(2),), (np.float32(3),)
    for train, text in ((random, "random numbers"), (counting, "arrays of its own")):
        with pytest.raises(ValueError, match=text):
            trainer(None, weight, other, train).as_loss()
    loss = trainer(None, weight, other, plain).as_loss()
    assert float(loss([np.float32(2)], (np.ones((4, 2), np.float32),), np.ones((4, 2), np.float32))) == 16
