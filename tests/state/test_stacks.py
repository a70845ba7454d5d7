"""Stacked weights whose layers are read one by one: each layer's update follows its gradient, in its place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.ir import Block
from jax_ipu.compiler.passes.state import stacks
from jax_ipu.compiler.pipeline import optimize
from support.modes import array, close, each_mode, on_cpu
from support.stages import legal

LAYERS, BATCH, WIDTH = 3, 4, 8
W, X = array(LAYERS, WIDTH, WIDTH) / 3, array(BATCH, WIDTH)
RATE = jnp.float32(0.1)


def loss(w, x):
    for i in range(LAYERS):
        x = jnp.tanh(x @ w[i])
    return (x**2).mean()


def descend(w, x):
    return w - RATE * jax.grad(loss)(w, x)


def momentum(state, x):
    w, m = state
    m = 0.9 * m + jax.grad(loss)(w, x)
    return w - 0.1 * m, m


def adam(state, x, step):
    w, m, v = state
    g = jax.grad(loss)(w, x)
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return w - 0.1 * (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.99**step)) + 1e-3), m, v


def accumulate(w, xs):
    """Sums of gradients are the state of a loop."""
    total = jax.lax.scan(lambda s, x: (s + jax.grad(loss)(w, x), None), jnp.zeros_like(w), xs)[0]
    return w - 0.1 * total


def columns(w, x):
    """A stack along the last dimension, of parts of different extents."""

    def of_parts(w):
        return jnp.tanh(x @ w[:, :2]).sum() * jnp.tanh(x @ w[:, 2:6]).sum() + jnp.sin(x @ w[:, 6:]).sum()

    return w - 0.1 * jax.grad(of_parts)(w)


def read_later(w, x):
    """The old first layer is read after the update: nothing is in place."""
    new = descend(w, x)
    return new, jnp.tanh(new.sum() * w[0])


def whole(w, x):
    """Something else reads all of the weights."""
    value, gradient = jax.value_and_grad(lambda w: loss(w, x) + jnp.sin((w**2).sum()))(w)
    return w - 0.1 * gradient, value


def also_returned(w, x):
    gradient = jax.grad(loss)(w, x)
    return w - 0.1 * gradient, gradient


def clipped(w, x):
    """All gradients are needed before any update."""
    gradient = jax.grad(loss)(w, x)
    return w - 0.1 * gradient / jnp.maximum(1, jnp.sqrt((gradient**2).sum()))


# A program whose first argument is donated, its arguments, and the parts of stacks that are written in place.
CASES = {
    "descend": (descend, (W, X), LAYERS),
    "momentum": (momentum, ((W, W / 2), X), 2 * LAYERS),
    "adam": (adam, ((W, W / 2, W**2), X, np.float32(3)), 3 * LAYERS),
    "accumulate": (accumulate, (W, array(2, BATCH, WIDTH)), LAYERS),
    "columns": (columns, (W[0], X), 3),
    "read later": (read_later, (W, X), 0),
    "whole": (whole, (W, X), 0),
    "also returned": (also_returned, (W, X), 0),
    "clipped": (clipped, (W, X), 0),
}


@pytest.fixture(autouse=True)
def small_parts_count(monkeypatch):
    monkeypatch.setattr(stacks, "_SMALL", 1)


def in_place(block: Block) -> int:
    """The parts of stacks that are written in place."""
    return sum(len(op.operands) for op in block.walk() if stacks.STACK in op.attrs and op.attrs.get("in_place"))


def donating(function, args) -> str:
    lowered = jax.jit(function, donate_argnums=0).trace(*args).lower(lowering_platforms=("ipu",))
    return str(lowered.compiler_ir("stablehlo"))


@pytest.mark.parametrize("case", CASES)
def test_each_part_is_changed_in_its_place(case):
    function, args, expected = CASES[case]
    assert in_place(optimize(legal(donating(function, args)), 1 << 29).module.main.block) == expected


@each_mode
@pytest.mark.parametrize("case", CASES)
def test_values(case, mode):
    function, args, _ = CASES[case]
    execution, tiles = mode
    executable = compiler.compile(donating(function, args).encode(), "mlir", b"", f"ipu2:{tiles}")
    flat = [np.asarray(a).tobytes() for a in jax.tree.leaves(args)]
    expected = map(np.asarray, jax.tree.leaves(on_cpu(function, args)))
    for raw, wanted in zip(_ipu.run(executable, flat, execution), expected, strict=True):
        close(np.frombuffer(raw, wanted.dtype).reshape(wanted.shape), wanted, rtol=1e-4)


def test_an_update_follows_its_gradient():
    """The gradient of the last layer is gone before the one of the first is made."""
    block = optimize(legal(donating(descend, (W, X))), 1 << 29).module.main.block
    order = [op.name for op in block.ops if op.name in ("dot_general", "ipu.map")]
    updates = [i for i, op in enumerate(block.ops) if op.attrs.get("write_over")]
    last_product = max(i for i, op in enumerate(block.ops) if op.name == "dot_general")
    assert len(updates) == LAYERS and sum(i < last_product for i in updates) >= LAYERS - 1, order


def test_small_parts_are_changed_together(monkeypatch):
    monkeypatch.undo()
    assert in_place(optimize(legal(donating(descend, (W, X))), 1 << 29).module.main.block) == 0
