"""Sums of narrow values that JAX makes in a wide type: no array of that exists, and sums of f16 are not rounded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu.compiler.types import SIZE
from support.modes import check, with_codelets
from support.stages import optimized_ops

# Their sums in f16 would stay at 2048.
ROWS = (1 + np.random.default_rng(0).integers(0, 2, (3, 5000)) / 1024).astype(np.float16)
SCORES = np.random.default_rng(1).normal(size=(2, 7, 40)).astype(np.float16)


def _wide_sum(x):
    return lax.reduce(x.astype(jnp.float32), jnp.float32(0), lax.add, (1,))


def sum_and_wide(x):
    total = _wide_sum(x)
    return total.astype(jnp.float16), total


def in_both_branches(x):
    """Each branch converts the sum that is made outside of both."""
    return [
        lax.cond(p, lambda t: 2 * t.astype("float16"), lambda t: t.astype("float16"), _wide_sum(x))
        for p in (x[0, 0] > 0, x[0, 0] < 0)
    ]


def in_a_loop(x):
    total = _wide_sum(x)
    return lax.fori_loop(0, 3, lambda i, s: 0.5 * s + total.astype("float16"), total.astype("float16"))


def within_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, y: y / _wide_sum(y).astype("float16")[:, None], x)


# Each with whether an array of f32 remains that is as large as the values.
PROGRAMS = {
    "sum": (lambda x: x.sum(-1), ROWS, False),
    "sum of all": (lambda x: x.sum(), ROWS, False),
    "sum of exponentials": (lambda x: jnp.exp(x).sum(-1), SCORES, False),
    "softmax": (lambda x: jax.nn.softmax(x, -1), SCORES, False),
    "masked softmax": (lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), 1), SCORES, False),
    "kept dimension": (lambda x: x - x.sum(1, keepdims=True), SCORES, False),
    "read in f32": (sum_and_wide, ROWS, False),
    "in both branches": (in_both_branches, ROWS / 8, False),
    "in a loop": (in_a_loop, ROWS / 8, False),
    "mean": (lambda x: x.mean(), ROWS, False),
    "means of columns": (lambda x: x.mean(0), SCORES, False),
    "sum in f32": (lambda x: x.sum((0, 2), dtype="float32"), SCORES, False),
    "of one element": (lambda x: x[:, :1].sum(1, dtype="float32"), ROWS, False),
    "of nothing": (lambda x: x[:, :0].sum(1, dtype="float32"), ROWS, False),
    "within a loop": (within_a_loop, ROWS, False),
    "not from zero": (
        lambda x: lax.reduce(x.astype("float32"), jnp.float32(1), lax.add, (1,)).astype("float16"),
        ROWS,
        True,
    ),
    "maximum": (lambda x: lax.reduce(x.astype("float32"), -jnp.inf, lax.max, (1,)).astype("float16"), ROWS, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
@with_codelets
def test_values(name, mode):
    function, values, _ = PROGRAMS[name]
    check(function, values, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_of_f32(name):
    function, values, wide = PROGRAMS[name]
    ops = optimized_ops(function, values)
    made = {(r.dtype, r.shape) for op in ops for r in op.results}
    assert (("f32", values.shape) in made) == wide, made


BYTES = np.random.default_rng(2).integers(0, 256, (3, 5, 24)).astype(np.uint8)


def sum_and_wide_integers(x):
    total = x.sum(-1, dtype="uint32")
    return total.astype("uint8"), total


# Each with whether its sums are made in the narrow type.
INTEGERS = {
    "packed bits": (jnp.packbits, BYTES % 2, True),
    "packed bits of rows": (lambda x: jnp.packbits(x, axis=1, bitorder="little"), BYTES > 99, True),
    "sums that wrap": (lambda x: x.sum(-1, dtype="int32").astype("uint8"), BYTES, True),
    "signed": (lambda x: x.sum((0, 2)).astype("int8"), BYTES.view(np.int8), True),
    "of 16 bits": (lambda x: x.sum(0).astype("uint16"), BYTES.view(np.uint16), True),
    "kept dimension": (lambda x: x.sum(1, keepdims=True).astype("uint8"), BYTES, True),
    "of another sign": (lambda x: x.sum(-1).astype("int8"), BYTES, False),
    "of another width": (lambda x: x.sum(-1).astype("uint16"), BYTES, False),
    "read in the wide type": (sum_and_wide_integers, BYTES, False),
    "of truth values": (lambda x: x.sum(-1).astype("uint8"), BYTES > 99, False),
    "of nothing": (lambda x: x[..., :0].sum(-1).astype("uint8"), BYTES, False),
}


@pytest.mark.parametrize("name", INTEGERS)
@with_codelets
def test_integers(name, mode):
    function, values, _ = INTEGERS[name]
    check(function, values, mode=mode)


@pytest.mark.parametrize("name", INTEGERS)
def test_types_of_integer_sums(name):
    function, values, narrow = INTEGERS[name]
    sums = {op.result.dtype for op in optimized_ops(function, values) if op.name == "reduce"}
    assert any(SIZE[dtype] < 4 for dtype in sums) == narrow, sums
