"""Pipelines of stages: values and gradients of the whole model, what stays in SRAM, and schedules."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu.pipelines.order import SCHEDULES, Work, most_in_flight, needs, order_of_all, order_of_stage
from jax_ipu.pipelines.timeline import timeline
from support.modes import on_cpu

IPUS = jax.devices("ipu")
WIDTH, ROWS, BATCHES = 16, 12, 6


def embed(w, tokens):
    return w["table"][tokens]


def block(w, x):
    return {"x": jnp.tanh(x["x"] @ w["up"]) @ w["down"] + x["x"]} if isinstance(x, dict) else {"x": x @ w["up"]}


def loss(w, x, y, weight):
    return jnp.mean(weight[:, None] * (x["x"] @ w["out"] - y) ** 2)


STAGES = [embed, block, block, loss]


def whole(params, x, y, weight):
    for stage, w in zip(STAGES[:-1], params[:-1], strict=True):
        x = stage(w, x)
    return loss(params[-1], x, y, weight)


def model():
    rng = np.random.default_rng(0)

    def array(*shape):
        return (rng.normal(size=shape) / 4).astype(np.float32)

    params = [
        {"table": array(20, WIDTH)},
        {"up": array(WIDTH, WIDTH)},
        {"up": array(WIDTH, 2 * WIDTH), "down": array(2 * WIDTH, WIDTH)},
        {"out": array(WIDTH, 3)},
    ]
    tokens = rng.integers(0, 20, ROWS).astype(np.int32)
    return params, (tokens, array(ROWS, 3), np.linspace(0.5, 1.5, ROWS, dtype=np.float32))


def close(actual, expected):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=2e-5, atol=1e-6), actual, expected)


@pytest.mark.parametrize("recompute", [True, False], ids=["recompute", "keep"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_values_gradients_and_training_are_those_of_the_model(schedule, recompute):
    params, batch = model()
    optimizer = optax.adam(0.01)
    pipe = jax_ipu.pipeline(
        STAGES, devices=IPUS[:4], optimizer=optimizer, gradient_accumulation=BATCHES, schedule=schedule,
        recompute=recompute,
    )  # fmt: skip
    value, gradients = pipe.value_and_grad(params, *batch)
    close((value, gradients), on_cpu(jax.value_and_grad(whole), (params, *batch)))
    close(pipe.loss(params, *batch), on_cpu(whole, (params, *batch)))

    def step(params, state, batch):
        value, gradients = jax.value_and_grad(whole)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    state, expected, expected_state = pipe.init(params), params, optimizer.init(params)
    for _ in range(3):
        state, value = pipe.step(state, *batch)
        expected, expected_state, expected_value = on_cpu(step, (expected, expected_state, batch))
        np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-3, atol=1e-4), state.params, expected)


def test_only_the_batch_crosses_the_host_link():
    params, batch = model()
    devices = IPUS[:4]
    pipe = jax_ipu.pipeline(STAGES, devices=devices, optimizer=optax.adam(0.01), gradient_accumulation=BATCHES)
    state = pipe.init(params)
    for _ in range(2):
        state, _ = pipe.step(state, *batch)
    before = [jax_ipu.counters(device) for device in devices]
    state, _ = pipe.step(state, *batch)
    moved = [(jax_ipu.counters(d), b) for d, b in zip(devices, before, strict=True)]
    assert [after.engine_loads - b.engine_loads for after, b in moved] == [0, 0, 0, 0]
    slots = 2 * 4 * BATCHES  # a number of four bytes, forward and backward
    tokens, *targets = (array.nbytes for array in batch)
    assert [after.h2d_bytes - b.h2d_bytes for after, b in moved] == [tokens + slots, slots, slots, sum(targets)]
    activations = ROWS * WIDTH * 4
    assert [after.link_bytes - b.link_bytes for after, b in moved] == [
        activations, 2 * activations, 2 * activations, activations
    ]  # fmt: skip


def test_one_stage_and_half_precision():
    params, (_, y, weight) = model()
    w = {"out": params[-1]["out"].astype(np.float16)}
    x = {"x": np.ones((ROWS, WIDTH), np.float16)}
    pipe = jax_ipu.pipeline([loss], devices=IPUS[:1], gradient_accumulation=3)
    value, (gradient,) = pipe.value_and_grad([w], x, y.astype(np.float16), weight.astype(np.float16))
    expected = on_cpu(jax.value_and_grad(loss), (w, x, y.astype(np.float16), weight.astype(np.float16)))
    assert gradient["out"].dtype == np.float32  # sums of f16 are in f32
    np.testing.assert_allclose(value, expected[0], rtol=1e-2)
    np.testing.assert_allclose(gradient["out"], expected[1]["out"], rtol=2e-2, atol=2e-3)


def test_a_stage_that_fails_leaves_the_state():
    params, batch = model()
    fails = [False]

    def check(x):
        if fails[0]:
            raise ValueError("the stage has failed")
        return x

    def guarded(w, x):
        value = jax.pure_callback(
            check, jax.ShapeDtypeStruct(x["x"].shape, x["x"].dtype), jax.lax.stop_gradient(x["x"])
        )
        return {"x": block(w, x)["x"] + 0 * value}

    stages = [embed, block, guarded, loss]
    pipe = jax_ipu.pipeline(stages, devices=IPUS[:4], optimizer=optax.sgd(0.1), gradient_accumulation=BATCHES)
    state, first = pipe.step(pipe.init(params), *batch)
    fails[0] = True
    with pytest.raises(Exception, match="the stage has failed"):
        pipe.step(state, *batch)
    fails[0] = False
    state, second = pipe.step(state, *batch)
    _, gradients = on_cpu(jax.value_and_grad(whole), (params, *batch))
    trained = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    np.testing.assert_allclose(first, on_cpu(whole, (params, *batch)), rtol=1e-5)
    np.testing.assert_allclose(second, on_cpu(whole, (trained, *batch)), rtol=1e-5)


class FailsAtTheLastStage:
    """Gradient descent that cannot be traced, as long as it should fail, for the weights of `loss`."""

    fails = True

    def init(self, params):
        return ()

    def update(self, gradients, state, params):
        if self.fails and "out" in params:
            raise ValueError("the update has failed")
        return jax.tree.map(lambda g: -0.1 * g, gradients), state


def test_an_update_that_fails_leaves_the_state_and_no_gradients():
    """What fails for one stage has changed no other, and no sums of its batch are added to those of the next."""
    params, batch = model()
    optimizer = FailsAtTheLastStage()
    pipe = jax_ipu.pipeline(STAGES, devices=IPUS[:4], optimizer=optimizer, gradient_accumulation=BATCHES)
    state = pipe.init(params)
    with pytest.raises(ValueError, match="the update has failed"):
        pipe.step(state, *batch)
    expected = on_cpu(jax.value_and_grad(whole), (params, *batch))
    close(pipe.value_and_grad(params, *batch), expected)
    close(state.params, params)
    optimizer.fails = False
    state, value = pipe.step(state, *batch)
    close(value, expected[0])
    close(state.params, jax.tree.map(lambda p, g: p - 0.1 * g, params, expected[1]))


class FailsWhileItRuns:
    """Gradient descent that asks the host for its rate, which fails for the weights of `loss`, as long as it should."""

    fails = False

    def init(self, params):
        return {"steps": jnp.zeros((), jnp.int32)}

    def update(self, gradients, state, params):
        def rate(steps):
            if self.fails and "out" in params:
                raise ValueError("the host has no rate")
            return np.float32(0.1)

        found = jax.pure_callback(rate, jax.ShapeDtypeStruct((), jnp.float32), state["steps"])
        return jax.tree.map(lambda g: -found * g, gradients), {"steps": state["steps"] + 1}


@pytest.mark.parametrize("schedule", ["grouped", "interleaved", "sequential"])
def test_an_update_that_fails_while_it_runs_leaves_the_state_of_all_stages(schedule):
    """The stages before it have been changed already; the same state is given to the next step."""
    params, batch = model()
    optimizer = FailsWhileItRuns()
    pipe = jax_ipu.pipeline(
        STAGES, devices=IPUS[:4], optimizer=optimizer, gradient_accumulation=BATCHES, schedule=schedule
    )
    state, _ = pipe.step(pipe.init(params), *batch)
    before = jax.tree.map(np.array, state)
    optimizer.fails = True
    with pytest.raises(Exception, match="the host has no rate"):
        pipe.step(state, *batch)
    assert jax.tree.all(jax.tree.map(np.array_equal, jax.tree.map(np.array, state), before))
    optimizer.fails = False
    old = jax.tree.leaves(state)
    state, value = pipe.step(state, *batch)
    assert all(array.is_deleted() for array in old)
    expected = on_cpu(jax.value_and_grad(whole), (before.params, *batch))
    close(value, expected[0])
    close(state.params, jax.tree.map(lambda p, g: p - 0.1 * g, before.params, expected[1]))
    assert [int(one["steps"]) for one in state.optimizer] == [2] * 4


MADE = {
    "no stages": (dict(stages=[], devices=[]), "at least one stage"),
    "devices": (dict(devices=IPUS[:3]), "a pipeline of 4 stages needs as many devices, not 3"),
    "a device twice": (dict(devices=[IPUS[0], *IPUS[:3]]), "is given for more than one stage"),
    "schedule": (dict(schedule="groupd"), "there is no schedule 'groupd'.*Did you mean grouped"),
    "batches": (dict(gradient_accumulation=0), "at least one micro-batch"),
    "a device of another platform": (
        dict(devices=[*IPUS[:3], jax.devices("cpu")[0]]),
        "are on IPUs, of jax.devices.'ipu'.; .*(Cpu|CPU).* is none",
    ),
    "numbers of devices": (dict(devices=range(4)), "are on IPUs, of jax.devices.'ipu'.; 0 is none"),
}


@pytest.mark.parametrize("name", MADE)
def test_pipelines_that_cannot_be(name):
    changes, message = MADE[name]
    with pytest.raises(ValueError, match=message):
        jax_ipu.pipeline(**{"stages": STAGES, "devices": IPUS[:4], **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(devices=IPUS[0]), "the devices of a pipeline are a list.*ipu"),
        (dict(stages=[embed, block, "block", loss]), "stage 2 of the pipeline is no function: 'block'"),
    ],
)
def test_what_is_no_list_or_function(changes, message):
    with pytest.raises(TypeError, match=message):
        jax_ipu.pipeline(**{"stages": STAGES, "devices": IPUS[:4], **changes})


def test_a_pipeline_of_names_is_only_estimated():
    params, batch = model()
    pipe = jax_ipu.pipeline(STAGES, devices=list("abcd"), gradient_accumulation=BATCHES)
    assert pipe.timeline(params, *batch).whole > 0
    with pytest.raises(ValueError, match="'a' is a name, for estimates alone"):
        pipe.value_and_grad(params, *batch)


def test_training_and_evaluation_in_turns():
    """And batches of two sizes: an engine has all programs of a stage, so none is loaded again."""
    params, batch = model()
    devices = IPUS[:4]
    pipe = jax_ipu.pipeline(STAGES, devices=devices, optimizer=optax.adam(0.01), gradient_accumulation=3)
    state = pipe.init(params)

    def turn(state):
        for rows in (ROWS, ROWS // 2):
            part = tuple(a[:rows] for a in batch)
            state, _ = pipe.step(state, *part)
            value = pipe.loss(state.params, *part)
            close(value, on_cpu(whole, (jax.tree.map(np.asarray, state.params), *part)))
        return state

    state = turn(turn(state))
    before = [jax_ipu.counters(device).engine_loads for device in devices]
    turn(state)
    assert [jax_ipu.counters(device).engine_loads for device in devices] == before


CALLED = {
    "whole numbers": (
        lambda p, b: ([*p[:3], {"out": np.ones((WIDTH, 3), np.int32)}], b),
        r"stage 3 has weights of int32\[16, 3\], which have no gradient",
    ),
    "rows": (lambda p, b: (p, tuple(a[:10] for a in b)), "a batch of 10 rows cannot be cut into 6 equal micro-batches"),
    "different rows": (
        lambda p, b: (p, (b[0], b[1][:6], b[2])),
        "have one first dimension, its rows; these have shapes",
    ),
    "weights": (lambda p, b: (p[:3], b), "weights of 3 stages were given to a pipeline of 4"),
    "chain": (
        lambda p, b: ([p[0], {"up": p[1]["up"][:4]}, *p[2:]], b),
        r"stage 1 does not take float32\[2, 16\]: TypeE",
    ),
    "loss": (lambda p, b: ([*p[:3], {"out": p[3]["out"][:, :2]}], b), "stage 3 does not take"),
}


def test_batches_that_are_only_estimated_are_checked_too():
    params, (tokens, y, weight) = model()
    pipe = jax_ipu.pipeline(STAGES, devices=list("abcd"), gradient_accumulation=BATCHES)
    for targets in ((y[:6], weight), (y, np.float32(1))):
        with pytest.raises(ValueError, match="have one first dimension, its rows; these have shapes"):
            pipe.timeline(params, tokens, *targets)


@pytest.mark.parametrize("name", CALLED)
def test_batches_and_weights_that_do_not_fit(name):
    change, message = CALLED[name]
    params, batch = change(*model())
    pipe = jax_ipu.pipeline(STAGES, devices=IPUS[:4], gradient_accumulation=BATCHES)
    with pytest.raises(ValueError, match=message):
        pipe.value_and_grad(params, *batch)


def test_what_stages_return_is_checked():
    params, batch = model()
    for stages, message in (
        ([lambda w, x: None, *STAGES[1:]], "stage 0 returns nothing: activations between stages are floats"),
        ([lambda w, x: x, *STAGES[1:]], r"stage 0 returns int32\[2\]: activations between stages are floats"),
        ([*STAGES[:3], lambda w, x, y, weight: y], "the last stage returns .* not a loss"),
    ):
        pipe = jax_ipu.pipeline(stages, devices=IPUS[:4], gradient_accumulation=BATCHES)
        with pytest.raises(ValueError, match=message):
            pipe.value_and_grad(params, *batch)
    with pytest.raises(ValueError, match="has no optimizer"):
        pipe.init(params)


@pytest.mark.parametrize("stages, batches", [(1, 3), (2, 1), (3, 5), (4, 2)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_orders(schedule, stages, batches):
    order = list(order_of_all(schedule, stages, batches))
    for stage in range(stages):
        own = order_of_stage(schedule, stage, stages, batches)
        assert [work for work in order if work.stage == stage] == own
        waiting = most = 0
        for work in own:
            waiting += -1 if work.backward else 1
            most = max(most, waiting)
        if stage < stages - 1:
            assert most == most_in_flight(schedule, stage, stages, batches)
            assert sorted(own) == sorted(Work(stage, b, k) for b in (False, True) for k in range(batches))
    for position, work in enumerate(order):
        assert all(need in order[:position] for need in needs(work, stages))


def test_time_of_equal_stages():
    """The stage before the last one is the busiest: all forward, then all backward, and then the flush."""
    stages, batches = 4, 8
    seconds = {(s, backward): 1.0 + backward for s in range(stages) for backward in (False, True)}
    send = dict.fromkeys(range(stages), 0.0)
    found = {schedule: timeline(schedule, stages, batches, seconds, send) for schedule in SCHEDULES}
    assert found["grouped"].whole == (stages - 2 + batches) * 1 + batches * 2 + (stages - 2) * 2
    assert found["sequential"].whole == batches * (3 * 1 + 2 + 3 * 2)
    assert found["grouped"].whole <= found["interleaved"].whole < found["sequential"].whole
    assert 0 < found["grouped"].idle < found["sequential"].idle < 1


def test_timeline_of_the_model():
    params, batch = model()
    pipe = jax_ipu.pipeline(STAGES, devices=IPUS[:4], gradient_accumulation=BATCHES, schedule="interleaved")
    found = pipe.timeline(params, *batch)
    assert len(found.starts) == (2 * 3 + 1) * BATCHES and found.whole > 0
    assert str(found).splitlines()[0].startswith("4 stages, ") and "IPU 3: 6 runs" in str(found)
    assert found.svg().count("micro-batch 5, backward") == 4


def test_timeline_refuses_a_stage_that_does_not_fit(monkeypatch):
    """Also where the estimate of the nearest attempt has a time."""

    def too_large(*args, **options):
        return replace(jax_ipu.estimate(*args, **options), fits=False, reason="out of IPU memory")

    monkeypatch.setattr("jax_ipu.pipelines.planned.estimate", too_large)
    params, batch = model()
    pipe = jax_ipu.pipeline(STAGES, devices=IPUS[:4], gradient_accumulation=BATCHES)
    with pytest.raises(ValueError, match="does not fit on an IPU: out of IPU memory"):
        pipe.timeline(params, *batch)


def test_options_of_the_compiler_are_those_of_all_stages():
    def stages(**options):
        functions = [lambda w, x: jnp.tanh(x @ w), lambda w, x: jnp.mean(x @ w)]
        return jax_ipu.pipeline(functions, devices=IPUS[:2], gradient_accumulation=2, **options)

    w, x = np.full((256, 256), 0.01, np.float16), np.ones((256, 256), np.float16)
    half = {"ipu_partials_type": "half"}
    times = [stages(**options).timeline([w, w], x).seconds for options in ({}, {"compiler_options": half})]
    assert all(times[1][work] < seconds for work, seconds in times[0].items())
    expected, _ = stages().value_and_grad([w, w], x)
    np.testing.assert_allclose(stages(compiler_options=half).value_and_grad([w, w], x)[0], expected, rtol=1e-2)
    wrong = stages(compiler_options={"ipu_partials": "half"})
    with pytest.raises(Exception, match="ipu_partials_type"):
        wrong.value_and_grad([w, w], x)


def test_equal_stages_in_one_program_take_the_time_of_their_trips():
    """Fill, main part and flush, each trip a stage and a copy to the next IPU, as PopART counts a pipeline cycle."""
    count, batches, rows, width = 4, 16, 64, 1024
    mesh = AbstractMesh((count,), ("stage",))

    def stage(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    def send(x):
        return jax.lax.ppermute(x, "stage", [(i, (i + 1) % count) for i in range(count)])

    def pipelined(weights, xs):
        number, last = jax.lax.axis_index("stage"), count - 1

        def trip(carry, t):
            x, outputs = carry
            y = stage(weights[0], jnp.where(number == 0, xs[jnp.minimum(t, batches - 1)], x))
            outputs = jnp.where(t >= last, outputs.at[jnp.maximum(t - last, 0)].set(y), outputs)
            return (send(y), outputs), None

        start = jax.lax.pcast((jnp.zeros_like(xs[0]), jnp.zeros_like(xs)), "stage", to="varying")
        return jax.lax.scan(trip, start, jnp.arange(batches + last))[0][1][None]

    def estimate(function, specs, *shapes):
        arguments = [
            jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
            for shape, spec in zip(shapes, specs, strict=True)
        ]
        mapped = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("stage"))
        return jax_ipu.estimate(mapped, *arguments, target="ipu2")

    whole = estimate(pipelined, (P("stage"), P()), (count, 8, width, width), (batches, rows, width))
    copy = estimate(send, (P("stage"),), (count * rows, width))
    alone = jax_ipu.estimate(
        stage,
        jax.ShapeDtypeStruct((8, width, width), jnp.float32),
        jax.ShapeDtypeStruct((rows, width), jnp.float32),
        target="ipu2",
    )
    assert whole.fits
    assert whole.link_bytes == (batches + count - 1) * rows * width * 4
    assert whole.cycles < 1.05 * (batches + count - 1) * (alone.cycles + copy.cycles)
