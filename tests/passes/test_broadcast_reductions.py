"""Reductions of broadcast values: what they read, and values."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu.compiler.types import num_elements
from support.modes import array, check, each_mode
from support.stages import optimized_ops

X, V = array(5, 6), array(6)
NUMBERS = np.arange(30, dtype=np.int32).reshape(5, 6) * 715827
NARROW = np.array([100, -7, 3, 127], np.int8)


def _spread(x, *shape):
    return lax.broadcast_in_dim(x, shape, (0, len(shape) - 1))


def _in_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, s: s + (_spread(x + i, 5, 200, 6) > 2).all(-1).sum(1)[:, None], NUMBERS)


# Each with the elements that reductions read.
PROGRAMS = {
    "sum of the rows": (lambda x: jnp.sin(_spread(x, 5, 200, 6).sum(2)), (X,), [30]),
    "sum over what is added": (lambda x: _spread(x, 5, 200, 6).sum(1), (X,), [6000]),
    "largest over both": (lambda x: _spread(x, 5, 200, 6).max((1, 2)), (X,), [30]),
    "least over what is added": (lambda x: _spread(x, 5, 200, 6).min(1), (X,), []),
    "all": (lambda x: _spread(x > 0, 5, 200, 6).all((1, 2)), (X,), [30]),
    "any of a repeated row": (lambda v: jnp.broadcast_to(v > 0, (50, 6)).any(1), (V,), [6]),
    "sum of integers": (lambda x: _spread(x, 5, 200, 6).sum(1), (NUMBERS,), []),
    "sum of integers over both": (lambda x: _spread(x, 5, 200, 6).sum((1, 2)), (NUMBERS,), [30]),
    "sum of bytes, which wraps": (
        lambda v: lax.reduce(jnp.broadcast_to(v, (50, 4)), np.int8(0), lax.add, (0,)),
        (NARROW,),
        [],
    ),
    "sum from another start": (
        lambda x: lax.reduce(_spread(x, 5, 200, 6), np.int32(3), lax.add, (1,)),
        (NUMBERS,),
        [6000],
    ),
    "counts": (lambda x: (_spread(x, 5, 200, 6) > 9).all(-1).sum(1), (NUMBERS,), [30]),
    "nothing": (lambda x: jnp.broadcast_to(x[:, None], (5, 0, 6)).max(2), (X,), []),
    "product": (lambda x: _spread(x / 2, 5, 200, 6).prod(1), (X,), [6000]),
    "one element for each row": (lambda x: jnp.broadcast_to(x[:, :1], (5, 60)).max(1), (X,), []),
    "in a loop": (_in_a_loop, (NUMBERS,), [30]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_that_are_read(name):
    function, arguments, elements = PROGRAMS[name]
    ops = optimized_ops(function, *arguments, memory=1 << 30)
    reductions = [op for op in ops if op.name == "reduce"]
    assert [num_elements(op.operands[0].shape) for op in reductions] == elements


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)
