"""Advice for programs that do not fit: each remedy that the message names fits when it is followed in JAX."""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import jax_ipu
from jax_ipu import _ipu
from jax_ipu.compiler import CompileError, advice, progress, trials
from jax_ipu.compiler.errors import CANCELLED
from jax_ipu.compiler.pipeline import without_calls
from jax_ipu.compiler.trials import Outcome
from jax_ipu.compiler.variants.batch import find_batch
from jax_ipu.integration.programs import program_of
from support.stages import legal

# No test rests on time: all of the advice is tried, or none of it.
ALL, NOTHING = {"ipu_advice_seconds": 3600.0}, {"ipu_advice_seconds": 0.0}


def spec(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def mlp(params, x):
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def gradient_step(loss):
    def step(params, *data):
        value, gradient = jax.value_and_grad(loss)(params, *data)
        return jax.tree.map(lambda p, g: p - (0.1 * g).astype(p.dtype), params, gradient), value

    return step


def squared(params, x, y):
    return jnp.mean((mlp(params, x) - y) ** 2)


def labelled(params, x, y):
    logits = jax.nn.log_softmax(mlp(params, x))
    return -logits[jnp.arange(len(y)), y].mean()


def dropped(params, x, key):
    return jnp.mean(mlp(params, x * jax.random.bernoulli(key, 0.5, x.shape)) ** 2)


def convolutions(params, x):
    for w in params:
        x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu((x - x.mean((0, 1, 2))) * jax.lax.rsqrt(x.var((0, 1, 2)) + jnp.asarray(1e-3, x.dtype)))
    return x.mean((1, 2))


def language(params, tokens):
    table, positions, blocks = params
    rows, length = tokens.shape
    width = table.shape[1]
    x = table[tokens] + positions
    for q, k, v, o in blocks:
        h = x - x.mean(-1, keepdims=True)

        def heads(w, h=h):
            return (h @ w).reshape(rows, length, 4, width // 4).transpose(0, 2, 1, 3)

        scores = heads(q) @ heads(k).swapaxes(2, 3)
        mask = jnp.tril(jnp.ones((length, length), bool))
        attended = jax.nn.softmax(jnp.where(mask, scores, -1e4)) @ heads(v)
        x = x + attended.transpose(0, 2, 1, 3).reshape(rows, length, width) @ o
    logits = jax.nn.log_softmax(x @ table.T)[:, :-1]
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def recurrent(w, steps):
    def one(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    return jax.lax.scan(one, jnp.zeros(steps.shape[1:], steps.dtype), steps)[1]


def scanned(params, x):
    return jnp.mean(jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params)[0] ** 2)


def block(x, w):
    return x + jax.nn.gelu(x @ w[0]) @ w[1]


def unrolled_blocks(params, x, around=lambda f: f):
    for w in params:
        x = around(block)(x, w)
    return jnp.mean(x**2)


def scanned_blocks(params, x, around=lambda f: f):
    return jnp.mean(jax.lax.scan(around(lambda x, w: (block(x, w), None)), x, params)[0] ** 2)


def sequence(params, x, around=lambda f: f):
    """One sequence without a batch; scores that are summed along the sequence cannot be computed in blocks."""

    def attention(x, w):
        return x + jax.nn.softmax(jnp.cumsum((x @ w) @ x.T, 0)) @ x

    for w in params:
        x = around(attention)(x, w)
    return jnp.mean(x**2)


def in_parts(params, x):
    return jax.lax.map(lambda rows: mlp(params, rows), x.reshape(4, -1, x.shape[1]))


def decoded(cache, params, x):
    """A step of decoding: the donated cache has a row for each row of the batch."""
    wq, wv = params
    cache = jax.lax.dynamic_update_slice(cache, (x @ wv)[:, None], (0, 3, 0))
    return cache, jnp.einsum("btd,bd->bt", cache, x @ wq)


def transformer(vocabulary, length, width, layers):
    blocks = [tuple(spec(width, width) for _ in range(4)) for _ in range(layers)]
    return spec(vocabulary, width), spec(length, width), blocks


class Model(NamedTuple):
    """A function that does not fit; `rows`: the positions of the arguments with a batch -> its axis."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    target: str
    helps: frozenset[str]  # the kinds of remedies that are named
    rows: dict[int, int]
    donated: tuple[int, ...] = ()
    again: Callable[..., Any] | None = None  # the function with `jax.checkpoint`


def model(function, args, target, helps, rows, donated=()):
    return Model(function, args, target, frozenset(helps.split()), rows, donated)


def checkpointable(loss, args, target, helps, rows):
    around = functools.partial(loss, around=jax.checkpoint)
    return Model(gradient_step(loss), args, target, frozenset(helps.split()), rows, (0,), gradient_step(around))


INT, HALF = jnp.int32, jnp.bfloat16
# fmt: off
MODELS = {
    # Of issue reports: 1 GiB of weights, where no batch helps, and training with a batch as wide as the layers.
    "1 GiB of weights": model(mlp, ([spec(4096, 4096)] * 16, spec(64, 4096)), "ipu2", "half ipus", {1: 0}),
    "batch is width": model(
        gradient_step(squared), ([spec(1024, 1024)] * 4, spec(1024, 1024), spec(1024, 1024)),
        "ipu2:64", "tiles half batch ipus", {1: 0, 2: 0}, (0,),
    ),
    "half precision with room": model(
        mlp, ([spec(512, 512)] * 16, spec(32, 512)), "ipu2:20", "tiles half ipus", {1: 0}
    ),
    "labels by index": model(
        gradient_step(labelled), ([spec(256, 256)] * 4, spec(10240, 256), spec(10240, dtype=INT)),
        "ipu2:32", "tiles half batch ipus", {1: 0, 2: 0},
    ),
    "dropout": model(
        gradient_step(dropped), ([spec(128, 128)] * 2, spec(20480, 128), spec(2, dtype=jnp.uint32)),
        "ipu2:32", "tiles batch ipus", {1: 0}, (0,),
    ),
    "convolutions": model(
        gradient_step(lambda params, x: jnp.mean(convolutions(params, x))),
        ([spec(3, 3, 3, 8), spec(3, 3, 8, 8)], spec(16, 24, 24, 3)),
        "ipu2:2", "tiles half batch ipus", {1: 0}, (0,),
    ),
    "language model": model(
        gradient_step(language), (transformer(512, 64, 64, 1), spec(32, 64, dtype=INT)),
        "ipu2:16", "tiles batch ipus", {1: 0}, (0,),
    ),
    "steps before rows": model(
        recurrent, (spec(128, 128), spec(32, 2048, 128)), "ipu2:32", "tiles batch ipus", {1: 1}
    ),
    "layers in a scan": model(
        gradient_step(scanned), (spec(8, 256, 256), spec(4096, 256)), "ipu2:32", "tiles batch ipus", {1: 0}, (0,)
    ),
    "blocks": checkpointable(
        unrolled_blocks, ([(spec(128, 512), spec(512, 128))] * 6, spec(640, 128)),
        "ipu2:32", "tiles half checkpoint batch ipus", {1: 0},
    ),
    "blocks in a scan": checkpointable(
        scanned_blocks, ((spec(6, 128, 512), spec(6, 512, 128)), spec(512, 128)),
        "ipu2:32", "tiles checkpoint batch ipus", {1: 0},
    ),
    "a sequence": checkpointable(sequence, ([spec(63, 63)] * 4, spec(641, 63)), "ipu2:10", "tiles half+checkpoint", {}),
    "rows in a loop": model(in_parts, ([spec(256, 256)] * 4, spec(32768, 256)), "ipu2:32", "tiles", {1: 0}),
    "cache": model(
        decoded, (spec(64, 512, 256), (spec(256, 256), spec(256, 256)), spec(64, 256)),
        "ipu2:32", "tiles half batch ipus", {0: 0, 2: 0}, (0,),
    ),
    "narrow types": model(
        mlp, ([spec(256, 256, dtype=HALF)] * 4, spec(65536, 256, dtype=HALF)), "ipu2:32", "tiles batch ipus", {1: 0}
    ),
    # No number of IPUs divides it, and two changes are needed.
    "a pair": model(mlp, ([spec(501, 501)] * 12, spec(8191, 501)), "ipu2:16", "tiles half+batch", {1: 0}),
}
# fmt: on


def kind_of(line):
    """The kinds of change in a line of advice."""
    kinds = {"half": "half precision", "batch": "a batch of", "ipus": "jax.sharding.Mesh", "tiles": "tiles of the IPU"}
    kinds["checkpoint"] = "jax.checkpoint around"
    return "+".join(kind for kind, words in kinds.items() if words in line)


def follow(line, model):
    """The estimate of the model with the change that a line of advice names."""
    args, target = list(model.args), model.target
    kinds = kind_of(line).split("+")
    if "tiles" in kinds:
        target = target.partition(":")[0]
    if "half" in kinds:
        args = jax.tree.map(lambda a: spec(*a.shape, dtype=jnp.float16) if a.dtype == jnp.float32 else a, args)
    if "batch" in kinds:
        rows = int(re.search(r"a batch of (\d+) instead", line).group(1))
        for i, axis in model.rows.items():
            shape = args[i].shape
            args[i] = spec(*shape[:axis], rows, *shape[axis + 1 :], dtype=args[i].dtype)
    if "ipus" in kinds:
        mesh = AbstractMesh((int(re.search(r"a jax.sharding.Mesh of (\d+), one axis", line).group(1)),), ("i",))
        large = {shape: int(axis) for shape, axis in re.findall(r"\(\w+\[([\d,]*)\]\) along axis (\d)", line)}
        rows = model.rows if "the batch" in line else {}

        def cut(a, axis):
            names = [None] * len(a.shape)
            if axis is not None:
                names[axis] = "i"
            return a.update(sharding=NamedSharding(mesh, PartitionSpec(*names)))

        for i, arg in enumerate(args):
            if i in rows:
                args[i] = cut(arg, rows[i])
            else:
                args[i] = jax.tree.map(lambda a: cut(a, large.get(",".join(map(str, a.shape)))), arg)
    function = model.again if "checkpoint" in kinds else model.function
    return jax_ipu.estimate(function, *args, target=target, donate_argnums=model.donated)


@pytest.mark.parametrize("name", MODELS)
def test_each_remedy_fits_when_it_is_followed(name):
    one = MODELS[name]
    found = jax_ipu.estimate(
        one.function, *one.args, target=one.target, donate_argnums=one.donated, compiler_options=ALL
    )
    assert not found.fits
    _, _, text = found.reason.partition("\nWhat helps:")
    helps = re.findall(r"^  \* (.*)[;.]$", text.partition("\nDoes not help")[0].partition("\nNot tried")[0], re.M)
    assert set(map(kind_of, helps)) == one.helps, text
    for line in helps:
        assert follow(line, one).fits, line
    if "Does not help alone: half precision" in text:
        assert not follow("half precision", one).fits


def batch_of(function, *args, **options):
    program = program_of(function, args, {}, **options)
    return find_batch(without_calls(legal(program.mlir, program.options)))


def test_the_batch_is_that_of_the_data():
    for name, one in MODELS.items():
        found = batch_of(one.function, *one.args, donate_argnums=one.donated)
        if name in ("rows in a loop", "a sequence"):  # the batch is cut into parts; there is none
            assert found is None
            continue
        first = [len(jax.tree.leaves(one.args[:i])) for i in range(len(one.args))]
        assert found.axes == {first[i]: axis for i, axis in one.rows.items()}, name
    assert batch_of(lambda x: x @ x, spec(8, 8)) is None
    assert batch_of(jnp.matmul, spec(8, 8), spec(8, 8)).axes == {0: 0}


@pytest.mark.parametrize("of_weights", [jnp.tanh, lambda w: w / jnp.linalg.norm(w, axis=0)])
def test_weights_that_are_computed_are_no_batch(of_weights):
    assert batch_of(lambda w, x: x @ of_weights(w), spec(64, 10), spec(16, 64)).axes == {1: 0}
    assert batch_of(lambda x, w: x @ of_weights(w), spec(16, 64), spec(64, 10)).axes == {0: 0}


def test_weights_that_are_a_sum_with_a_product_are_no_batch():
    """As low-rank adapters are: what the rows are multiplied with depends on a product, and they do not."""

    def layer(x, w, a, b):
        return x @ (w + a @ b)

    def layers(x, first, second):
        return layer(jnp.tanh(layer(x, *first)), *second)

    weights = (spec(64, 32), spec(64, 4), spec(4, 32))
    back = (spec(32, 10), spec(32, 4), spec(4, 10))
    assert batch_of(layer, spec(16, 64), *weights).axes == {0: 0}
    assert batch_of(lambda w, a, b, x: layer(x, w, a, b), *weights, spec(16, 64)).axes == {3: 0}
    assert batch_of(layers, spec(16, 64), weights, back).axes == {0: 0}
    assert batch_of(lambda first, second, x: layers(x, first, second), weights, back, spec(16, 64)).axes == {6: 0}
    assert batch_of(lambda x, w, a, b: x @ (a @ b), spec(16, 64), *weights).axes == {0: 0}


def test_a_smaller_batch_on_each_ipu():
    mesh = AbstractMesh((2,), ("i",))

    def estimate_of(rows):
        w, x = (
            spec(*dims).update(sharding=NamedSharding(mesh, names))
            for dims, names in (((256, 256), PartitionSpec()), ((rows, 256), PartitionSpec("i")))
        )
        return jax_ipu.estimate(lambda w, x: jnp.tanh(x @ w) @ w.T, w, x, target="ipu2:4", compiler_options=ALL)

    found = re.search(r"a batch of (\d+) instead of 2048 on each IPU \(x\)", estimate_of(4096).reason)
    assert found and estimate_of(2 * int(found.group(1))).fits


def test_without_time_all_of_it_is_untried(monkeypatch):
    monkeypatch.setattr("jax_ipu.compiler.trials.compile_to_fit", None)
    one = MODELS["batch is width"]
    reason = jax_ipu.estimate(one.function, *one.args, target=one.target, compiler_options=NOTHING).reason
    _, _, text = reason.partition("\nWhat helps: nothing was tried.\nNot tried:")
    assert re.search(r"half precision.*jax-ipu estimate FILE.py:step", text)
    assert re.search(r"smaller batch \(data\[0\], data\[1\]\): jax-ipu largest-batch FILE.py:step --args-from", text)
    assert "several IPUs" in text and "jax.checkpoint" in text


def test_time_ends_within_an_operation(monkeypatch):
    """The time of a trial is over once its graph is handed over to be planned; nothing asks between operations."""
    ended = []

    def compile_to_fit(*args, original=trials.compile_to_fit):
        def compile_graph(*given, original=_ipu.compile_graph):
            with _ipu.Deadline(0.0):
                try:
                    return original(*given[:4])
                except _ipu.OutOfTime:
                    ended.append(given[2])
                    raise

        with monkeypatch.context() as patch:
            patch.setattr(_ipu, "compile_graph", compile_graph)
            return original(*args)

    monkeypatch.setattr(trials, "compile_to_fit", compile_to_fit)
    one = MODELS["half precision with room"]
    reason = jax_ipu.estimate(one.function, *one.args, target=one.target, compiler_options=ALL).reason
    _, _, text = reason.partition("\nNot tried:")
    assert ended and re.search(r"half precision.*: jax-ipu estimate \S+:mlp", text), reason


def test_trials_end_with_the_compilation(monkeypatch):
    def halve(module):
        progress.cancel_all()

    monkeypatch.setattr(advice, "halve", halve)
    one = MODELS["half precision with room"]
    with pytest.raises(CompileError, match="interrupted") as error:
        jax_ipu.estimate(one.function, *one.args, target=one.target, compiler_options=ALL)
    assert error.value.code == CANCELLED


@pytest.mark.parametrize(("size", "most"), [(4096, 599), (64, 1), (64, 0), (2, 1), (7, 6), (524288, 200000)])
def test_the_batch_is_found_to_an_eighth(size, most):
    tried = []

    def attempt(rows):
        tried.append(rows)
        return Outcome.FITS if rows <= most else Outcome.TOO_LARGE

    found = advice.largest(size, attempt)
    assert found.rows <= most and (most == 0 or found.rows + found.rows // 8 + 1 > most)
    assert found.outcome == (Outcome.FITS if most else Outcome.TOO_LARGE)
    assert len(tried) == len(set(tried)) <= 10 and all(rows < size for rows in tried)


def test_a_search_without_time_says_what_it_left_out():
    outcomes = itertools.chain([Outcome.FITS, Outcome.FITS], itertools.repeat(Outcome.UNKNOWN))
    found = advice.largest(4096, lambda rows: next(outcomes))
    assert found.rows > 1 and not found.complete


@pytest.mark.parametrize("value", [-1.0, "long", float("inf")])
def test_seconds_that_are_none_are_refused(value):
    with pytest.raises(CompileError, match="ipu_advice_seconds"):
        jax_ipu.estimate(jnp.sin, spec(8), compiler_options={"ipu_advice_seconds": value})
