"""Random shapes, strides and types: ipu (fast) = ipu (tile) = CPU."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from support.modes import RTOL, array, check

MODES = st.sampled_from([("fast", 8), ("tile", 8), ("fast", 1472)])
DTYPES = st.sampled_from(["float32", "float16", "bfloat16", "int32", "int8", "uint16", "uint8"])
FLOATS = st.sampled_from(["float32", "float16", "bfloat16"])
dims = st.integers(0, 7)
shapes = st.lists(dims, min_size=0, max_size=4).map(tuple)
positive_shapes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)

# The same examples in every run, so that a failure in CI can be reproduced.
common = settings(max_examples=40, deadline=None, derandomize=True)


@common
@given(shapes, DTYPES, MODES)
def test_elementwise(shape, dtype, mode):
    check(
        lambda x, y: jnp.maximum(x, y) * x - y,
        array(*shape, dtype=dtype),
        array(*shape, dtype=dtype, seed=1),
        mode=mode,
    )


@common
@given(positive_shapes, st.data(), DTYPES, MODES)
def test_broadcast(shape, data, dtype, mode):
    other = tuple(d if data.draw(st.booleans()) else 1 for d in shape)[data.draw(st.integers(0, len(shape))) :]
    check(lambda x, y: x + y * y, array(*shape, dtype=dtype), array(*other, dtype=dtype, seed=1), mode=mode)


@common
@given(shapes, st.data(), DTYPES, MODES)
def test_transpose_slice_reverse(shape, data, dtype, mode):
    order = data.draw(st.permutations(range(len(shape))))
    begins = [data.draw(st.integers(0, shape[d])) for d in order]
    ends = [data.draw(st.integers(b, shape[d])) for b, d in zip(begins, order, strict=True)]
    steps = [data.draw(st.integers(1, 3)) for _ in order]
    flipped = [d for d in range(len(shape)) if data.draw(st.booleans())]

    def function(x):
        x = lax.slice(x.transpose(order), begins, ends, steps)
        return lax.rev(x, flipped) + jnp.asarray(1, x.dtype)

    check(function, array(*shape, dtype=dtype), mode=mode)


@common
@given(shapes, st.data(), DTYPES, MODES)
def test_reductions(shape, data, dtype, mode):
    axes = tuple(d for d in range(len(shape)) if data.draw(st.booleans()))
    # Half precision: XLA:CPU rounds after each addition, the model once. Terms are at most 2.
    atol = RTOL[dtype] * 2 * np.prod([shape[d] for d in axes]) if dtype in ("float16", "bfloat16") else None
    check(lambda x: lax.reduce_sum(x, axes), array(*shape, dtype=dtype), mode=mode, atol=atol)
    if 0 not in shape:
        check(lambda x: (lax.reduce_max(x, axes), lax.reduce_min(x, axes)), array(*shape, dtype=dtype), mode=mode)


@common
@given(st.data(), st.sampled_from(["float32", "int32", "bfloat16"]), MODES)
def test_dot_general(data, dtype, mode):
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    contract = data.draw(st.lists(st.integers(0, 5), max_size=2))
    left, right = (data.draw(st.lists(st.integers(0, 5), max_size=2)) for _ in range(2))
    lhs_dims = [("b", i) for i in range(len(batch))] + [("c", i) for i in range(len(contract))]
    rhs_dims = lhs_dims + [("r", i) for i in range(len(right))]
    lhs_dims = lhs_dims + [("l", i) for i in range(len(left))]
    sizes = {"b": batch, "c": contract, "l": left, "r": right}
    lhs_dims, rhs_dims = data.draw(st.permutations(lhs_dims)), data.draw(st.permutations(rhs_dims))

    def positions(order, kind):
        return tuple(order.index((kind, i)) for i in range(len(sizes[kind])))

    numbers = tuple((positions(lhs_dims, k), positions(rhs_dims, k)) for k in "cb")
    operands = [
        array(*[sizes[k][i] for k, i in order], dtype=dtype, seed=s) for s, order in enumerate((lhs_dims, rhs_dims))
    ]
    check(lambda x, y: lax.dot_general(x, y, numbers), *operands, mode=mode)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data(), MODES)
def test_convolution(data, mode):
    rank = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 2))

    def numbers(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    kernel, strides, lhs_dilation, rhs_dilation = numbers(1, 3), numbers(1, 2), numbers(1, 2), numbers(1, 2)
    padding = tuple((data.draw(st.integers(-1, 3)), data.draw(st.integers(-1, 3))) for _ in range(rank))
    batch, channels, features = (
        numbers(1, 3)[0],
        groups * data.draw(st.integers(1, 3)),
        groups * data.draw(st.integers(1, 3)),
    )
    x, w = array(batch, channels, *numbers(3, 7)), array(features, channels // groups, *kernel, seed=1)

    def function(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, lhs_dilation, rhs_dilation, feature_group_count=groups)

    if min(jax.eval_shape(function, x, w).shape) > 0:
        check(function, x, w, mode=mode, grad=True)


@common
@given(st.data(), DTYPES, MODES)
def test_concatenate_and_pad(data, dtype, mode):
    shape = data.draw(positive_shapes)
    axis = data.draw(st.integers(0, len(shape) - 1))
    parts = [
        array(*shape[:axis], data.draw(dims), *shape[axis + 1 :], dtype=dtype, seed=s)
        for s in range(data.draw(st.integers(1, 4)))
    ]
    config = [tuple(data.draw(st.integers(low, 3)) for low in (-1, -1, 0)) for _ in shape]

    def function(*xs):
        joined = jnp.concatenate(xs, axis)
        return joined, lax.pad(joined, jnp.asarray(3, joined.dtype), config)

    try:
        jax.eval_shape(function, *parts)
    except (TypeError, ValueError):
        return  # negative padding larger than the dimension
    check(function, *parts, mode=mode)


@common
@given(st.integers(0, 60), st.integers(1, 4), st.integers(0, 1), DTYPES, MODES)
def test_sort(n, m, axis, dtype, mode):
    x = array(n, m, dtype=dtype)
    check(lambda x: (jnp.sort(x, axis=axis), jnp.argsort(x, axis=axis)), x, mode=mode)


@common
@given(st.data(), MODES)
def test_gather_scatter(data, mode):
    rows, width, count = (data.draw(st.integers(1, 9)) for _ in range(3))
    indices = np.array(data.draw(st.lists(st.integers(-12, 12), min_size=count, max_size=count)), np.int32)
    x, u = array(rows, width), array(count, width, seed=1)
    check(
        lambda x, u, i: (x.at[i].get(mode="clip"), x.at[i].add(u, mode="drop"), x.at[i].set(u, mode="drop")),
        x,
        u,
        indices,
        mode=mode,
    )
