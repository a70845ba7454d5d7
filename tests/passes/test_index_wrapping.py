"""Negative indices: gathers and scatters count them from the end themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu.compiler import pipeline
from support.modes import MODES, array, check
from support.stages import imported

# Also beyond both ends: gathers clamp such indices, scatters skip them.
INDEX = np.random.default_rng(5).integers(-80, 80, 33).astype(np.int32)
EXTREMES = np.array([-(2**31), 2**31 - 1, -1, 0, -50, -51, 49, 50], np.int32)
X = array(50, 7)

# Function of x and i, and the value that its gather or scatter adds to negative indices; None where it adds none.
CASES = {
    "rows": (lambda x, i: x[i], (50,)),
    "columns": (lambda x, i: x[:, i], (7,)),
    "elements": (lambda x, i: x[:, 0][i], (50,)),
    "pairs": (lambda x, i: x[i, i // 8], (50, 7)),
    "all_pairs": (lambda x, i: x[i[:, None], i[None, :5] // 8], (50, 7)),
    "beside_a_constant": (lambda x, i: x[i, 3], (50, 0)),
    "in_batches": (lambda x, i: jax.vmap(lambda a, b: a[b], (1, None))(x, i), (50,)),
    "add": (lambda x, i: x.at[i].add(1.5), (50,)),
    "add_elements": (lambda x, i: x[:, 0].at[i].add(jnp.arange(len(i), dtype=x.dtype)), (50,)),
    "set_pairs": (lambda x, i: x.at[i, i // 8].max(0.25), (50, 7)),
    "general_update": (lambda x, i: x.at[i].apply(jnp.sin), (50,)),
    "large": (lambda x, i: jnp.tile(x, (100, 1))[jnp.tile(i, 300)], (5000,)),
    "add_many_elements": (
        lambda x, i: x.reshape(-1).at[jnp.tile(i, 1000)].add(jnp.arange(1000 * len(i)) % 7 - 3.0),
        None,  # many are wrapped before
    ),
    "int16": (lambda x, i: x[jnp.clip(i, -99, 99).astype(jnp.int16)], None),
    "unsigned": (lambda x, i: x[i.astype(jnp.uint8)], None),
}


def optimized(function, *args):
    text = jax.jit(function).lower(*args).as_text()
    module = imported(text)
    pipeline.rewrite(module)
    return module.main.block.ops


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0])
@pytest.mark.parametrize("index", [INDEX, EXTREMES], ids=["random", "extremes"])
@pytest.mark.parametrize("name", CASES)
def test_values(name, index, mode):
    function, _ = CASES[name]
    check(function, X, index, mode=mode)


@pytest.mark.parametrize("name", [name for name, (_, wraps) in CASES.items() if wraps is not None])
def test_the_op_takes_over_the_wrap(name):
    function, wraps = CASES[name]
    (op,) = [op for op in optimized(function, X, INDEX) if op.name in ("gather", "scatter")]
    assert op.attrs["index_wraps"] == wraps


def test_gradients_wrap_the_same_indices():
    def loss(x, i):
        return (x[i, i // 8] ** 2).sum()

    ops = [op for op in optimized(jax.grad(loss), X, INDEX) if op.name in ("gather", "scatter")]
    assert [op.attrs["index_wraps"] for op in ops] == [(50, 7), (50, 7)]
    check(jax.grad(loss), X, INDEX, mode=MODES[0])


OTHER_SELECTS = {
    "not_below_zero": lambda i: jnp.where(i < 1, i + 50, i),
    "another_value": lambda i: jnp.where(i < 0, i + 50, i * 2),
    "subtracts": lambda i: jnp.where(i < 0, i - 50, i),
    "by_element": lambda i: jnp.where(i < 0, i + jnp.arange(len(i), dtype=i.dtype), i),
}


@pytest.mark.parametrize("name", OTHER_SELECTS)
def test_other_selects_stay(name):
    def function(x, i):
        return x.at[OTHER_SELECTS[name](i)].get(mode="clip", wrap_negative_indices=False)

    (op,) = [op for op in optimized(function, X, INDEX) if op.name == "gather"]
    assert "index_wraps" not in op.attrs
    check(function, X, INDEX, mode=MODES[0])
