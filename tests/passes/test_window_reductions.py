"""Windows that hold one element or all, and large ones along one dimension after the other: values, ops, cycles."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

X = array(2, 8, 6, 5)


def _sums(x, window, strides=None, padding="VALID", **others):
    zero, strides = np.zeros((), x.dtype)[()], window if strides is None else strides
    return jax.lax.reduce_window(x, zero, jax.lax.add, (1, *window, 1), (1, *strides, 1), padding, **others)


def _gradient(*how, **others):
    return lambda x: jax.grad(lambda x: (_sums(x, *how, **others) ** 2).sum())(x)


def _apart(padding):
    return lambda x: _sums(x, (2, 3), (1, 1), padding, base_dilation=(1, 3, 4, 1))


def _pool(op, first, window, strides, padding="VALID"):
    return lambda x: jax.lax.reduce_window(x, first, op, (1, *window, 1), (1, *strides, 1), padding)


def _bytes(x):
    x = (x * 60).astype(jnp.int8)
    return _sums(x, (4, 5), (1, 1), "SAME"), jax.lax.reduce_window(
        x, np.int8(-128), jax.lax.max, (1, 5, 5, 1), (1, 1, 1, 1), "SAME"
    )


def _masks(x):
    masks = jax.lax.reduce_window(x > 0, False, jax.lax.bitwise_or, (1, 5, 5, 1), (1, 2, 1, 1), "SAME")
    return masks, jax.lax.reduce_window(x > -1, True, jax.lax.bitwise_and, (1, 8, 6, 1), (1, 1, 1, 1), "VALID")


def _padded_by_other_numbers(x):
    return _sums(jnp.pad(x, ((0, 0), (3, 3), (2, 2), (0, 0)), constant_values=2.0), (4, 3), (1, 1))


# Each with the windows that remain, without the dimensions of one element.
PROGRAMS = {
    "all of the image": (lambda x: _sums(x, (8, 6)), []),
    "all, gradient": (_gradient((8, 6)), []),
    "all and more": (lambda x: _sums(x, (9, 9), (1, 1), [(0, 0), (1, 0), (2, 1), (0, 0)]), []),
    "one dimension whole": (lambda x: _sums(x, (8, 2)), [(2,)]),
    "one dimension whole, gradient": (_gradient((8, 2)), [(2,)]),
    "pairs, gradient": (_gradient((2, 2)), [(2, 2)]),
    "a row left, gradient": (_gradient((3, 4)), [(3, 4)]),
    "strides beyond, gradient": (_gradient((2, 2), (3, 3)), [(2, 2)]),
    "overlapping, gradient": (_gradient((3, 3), (2, 2)), [(3, 3), (3, 3)]),
    "one dimension overlapping, gradient": (_gradient((2, 3), (2, 1)), [(2, 3), (3,)]),
    "padded, gradient": (_gradient((2, 2), (2, 2), "SAME"), [(2, 2)]),
    "large": (lambda x: _sums(x, (5, 4), (1, 1), "SAME"), [(5,), (4,)]),
    "large, shrinking": (lambda x: _sums(x, (4, 5), (3, 1), "SAME"), [(4,), (5,)]),
    "large, gradient": (_gradient((5, 5), (1, 1), "SAME"), [(5,)] * 4),
    "large, dilated": (lambda x: _sums(x, (4, 4), (1, 2), "SAME", window_dilation=(1, 2, 1, 1)), [(4,), (4,)]),
    "large, of dilated": (lambda x: _sums(x, (5, 5), (1, 1), "SAME", base_dilation=(1, 2, 1, 1)), [(5,), (5,)]),
    "large, cropped": (lambda x: _sums(x, (4, 4), (1, 1), [(0, 0), (-1, 2), (3, -1), (0, 0)]), [(4,), (4,)]),
    "greatest": (_pool(jax.lax.max, -np.inf, (5, 5), (2, 2), "SAME"), [(5,), (5,)]),
    "least of all": (_pool(jax.lax.min, np.inf, (8, 6), (1, 1)), []),
    "products of all": (_pool(jax.lax.mul, 1.0, (8, 6), (1, 1)), []),
    "products": (_pool(jax.lax.mul, 1.0, (4, 4), (1, 1)), [(4, 4)]),
    "from one on": (_pool(jax.lax.add, 1.0, (8, 6), (1, 1)), [(8, 6)]),
    "in f16": (lambda x: _sums(x.astype("float16"), (4, 4), (1, 1)), [(4, 4)]),
    "all in f16": (lambda x: _sums(x.astype("float16"), (8, 6)), []),
    "bytes": (_bytes, [(4,), (5,), (5,), (5,)]),
    "masks": (_masks, [(5,), (5,)]),
    "apart": (_apart([(0, 0), (2, 4), (1, 0), (0, 0)]), []),
    "apart, cropped": (_apart([(0, 0), (-2, 1), (0, -5), (0, 0)]), []),
    "padded by other numbers": (_padded_by_other_numbers, [(4, 3)]),
    "cumulative": (lambda x: jnp.cumsum(x, 1), [(8,)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    check(PROGRAMS[name][0], X, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_windows(name):
    function, windows = PROGRAMS[name]
    ops = [op for op in optimized_ops(function, X) if op.name == "reduce_window"]
    assert [tuple(n for n in op.attrs["window_dimensions"] if n > 1) for op in ops] == windows


def test_one_element():
    """Where one element of a dimension is, for all windows and paddings around it."""
    value = np.float32([3])
    for window, low, high in itertools.product(range(2, 5), range(-1, 5), range(-1, 5)):
        if 1 + low + high < window:
            continue

        def sums(x, window=window, padding=((low, high),)):
            return jax.lax.reduce_window(x, 0.0, jax.lax.add, (window,), (1,), padding)

        check(sums, value, mode=("fast", 8))


@pytest.mark.parametrize("window", [2, 4, 8])
def test_the_gradient_of_pooling_costs_no_more_than_pooling(window):
    x = jax.ShapeDtypeStruct((8, 32, 32, 64), jnp.float32)
    forward = jax_ipu.estimate(lambda x: _sums(x, (window, window)), x)
    both = jax_ipu.estimate(_gradient((window, window)), x)
    assert both.cycles <= 2.2 * forward.cycles


def test_cycles_grow_with_the_length_of_windows():
    x = jax.ShapeDtypeStruct((8, 32, 32, 64), jnp.float32)
    small, large = (jax_ipu.estimate(lambda x, n=n: _sums(x, (n, n), (1, 1), "SAME"), x).cycles for n in (5, 15))
    assert large <= 4 * small
