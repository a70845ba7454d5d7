"""The variant of a training step that computes activations again: it is what `jax.checkpoint` makes of the step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu
from jax_ipu.compiler import pipeline
from jax_ipu.compiler.fit import compile_to_fit
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.variants.batch import find_batch
from jax_ipu.compiler.variants.checkpoint import NoParts, checkpointed, find_checkpoints
from jax_ipu.integration.programs import program_of
from support.stages import legal


def normed(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def layer(x, w):
    return jax.nn.silu(jnp.sin(x @ w[0][:, : x.shape[1]] + w[1][0]))


def residual(x, w):
    return x + jax.nn.gelu(normed(x) @ w[0]) @ w[1]


def two_lines(x, w):
    """A layer of two parts."""
    x = x + jnp.sin(jnp.cos(x @ w[0][:, : x.shape[1]]))
    return x + jax.nn.gelu(normed(x) @ w[0]) @ w[1]


def attention(x, w):
    q, k = (normed(x) @ w[0]), (normed(x) @ w[1].T)
    return x + jax.nn.softmax(q @ k.T) @ x


def unrolled(block, again=lambda f: f):
    def forward(params, x):
        for w in zip(*params, strict=True):
            x = again(block)(x, w)
        return x

    return forward


def loops_in_layers(block, again=lambda f: f):
    def forward(params, x):
        for w in zip(*params, strict=True):
            x = jax.lax.fori_loop(0, 3, again(lambda i, h: jnp.sin(jnp.cos(h)) * h), x @ w[0]) @ w[1]
        return x

    return forward


def scanned(block, again=lambda f: f, **options):
    def forward(params, x):
        return jax.lax.scan(again(lambda x, w: (block(x, w), None)), x, params, **options)[0]

    return forward


def scanned_from_the_end(block, again=lambda f: f):
    return scanned(block, again, reverse=True)


def with_counter(block, again=lambda f: f):
    """A scan of two carried values, of which the one is an integer, with results of each iteration."""

    def body(carry, w):
        x, n = carry
        x = block(x * 1.5, w)
        return (x, n + 1), x.mean()

    def forward(params, x):
        (x, n), means = jax.lax.scan(again(body), (x, 0), params)
        return x * n + means.sum()

    return forward


def step(forward):
    def run(params, x):
        value, gradient = jax.value_and_grad(lambda p: jnp.mean(forward(p, x) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    return run


PARTS, BODY = "each of 4 parts", "the body of the jax.lax.scan"
# The forward pass, its layer, and what `jax.checkpoint` goes around.
FORWARD = {
    "layers": (unrolled, layer, PARTS),
    "residual blocks": (unrolled, residual, PARTS),
    "attention": (unrolled, attention, "each of 5 parts"),
    "two residual lines": (unrolled, two_lines, PARTS),
    "loops in layers": (loops_in_layers, None, BODY),
    "a scan": (scanned, residual, BODY),
    "a scan of layers": (scanned, layer, BODY),
    "a scan from the end": (scanned_from_the_end, residual, BODY),
    "a scan with a counter": (with_counter, residual, BODY),
}


def arguments(rows, width, hidden, depth=4):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = (depth, width, hidden), (depth, hidden, width), (rows, width)
    one, other, x = (jax.random.normal(k, s) / np.sqrt(s[-2]) for k, s in zip(keys, shapes, strict=True))
    return (one, other), x


def computed_again(module):
    checkpointed(find_batch(module), 0)(module)


def legal_program(function, args):
    program = program_of(function, args, {}, donate_argnums=0)
    return legal(program.mlir, program.options)


def bytes_of(function, args, change=None):
    """The bytes on the fullest tile."""
    program = legal_program(function, args)
    with Progress("step") as progress:
        target, plans = _ipu.Target("ipu2", 64), _ipu.TilePlanCache(False)
        return compile_to_fit(program, Options(), target, progress, plans, change).compiled.memory().max_tile_bytes


@pytest.mark.parametrize("name", FORWARD)
def test_memory_is_that_of_a_step_with_checkpoint(name):
    make, block, text = FORWARD[name]
    args = arguments(512, 64, 256)
    module = pipeline.without_calls(legal_program(step(make(block)), args))
    assert find_checkpoints(module, find_batch(module))[0].text().startswith(text)
    found = bytes_of(step(make(block)), args, computed_again)
    assert found < bytes_of(step(make(block)), args)
    followed = bytes_of(step(make(block, jax.checkpoint)), args)
    assert 0.98 * followed < found < 1.15 * followed


@pytest.mark.parametrize("name", FORWARD)
def test_values_stay(name, monkeypatch):
    make, block, _ = FORWARD[name]
    args = arguments(8, 16, 24)
    expected = jax.jit(step(make(block)), backend="cpu")(*args)
    at = [name for name, _ in pipeline.PASSES].index("scalar branches") + 1
    passes = (*pipeline.PASSES[:at], ("computed again", computed_again), *pipeline.PASSES[at:])
    monkeypatch.setattr(pipeline, "PASSES", passes)
    result = jax.jit(step(make(block)), backend="ipu")(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), result, expected)


@pytest.mark.parametrize("function", [lambda p, x: jax.tree.map(jnp.sin, p), step(lambda p, x: x @ p[0][0])])
def test_a_program_without_parts(function):
    module = pipeline.without_calls(legal_program(function, arguments(8, 16, 16)))
    with pytest.raises(NoParts):
        find_checkpoints(module, find_batch(module))
