"""Reductions, products, convolutions, views, indexing, sorting and control flow, in every mode. A row is one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import array, check, each_mode

f32 = array


def i32(*shape, low=0, high=10, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def conv(*, strides=(1, 1), padding="SAME", lhs_dilation=None, rhs_dilation=None, groups=1, batch_groups=1, dims=None):
    def function(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers=dims or ("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )

    return function


# name: (function, arguments, compare the gradient too)
CASES = {
    # reductions
    "sum_all": (jnp.sum, [f32(5, 33)], True),
    "sum_rows": (lambda x: x.sum(1), [f32(5, 33)], True),
    "sum_columns": (lambda x: x.sum(0), [f32(45, 33)], True),
    "sum_middle": (lambda x: x.sum(1), [f32(3, 40, 5)], True),
    "sum_large": (jnp.sum, [f32(300, 301)], False),
    "sum_empty": (lambda x: x.sum(0), [f32(0, 3)], False),
    "sum_integer": (lambda x: x.sum(1), [i32(7, 50)], False),
    "prod": (lambda x: x.prod(1), [f32(5, 6, low=0.5, high=1.5)], True),
    "max": (lambda x: x.max(1), [f32(9, 31)], True),
    "min": (lambda x: x.min(0), [f32(9, 31)], True),
    "max_nan": (lambda x: x.max(0), [np.array([[1, np.nan], [2, 3]], np.float32)], False),
    "any_all": (lambda x: ((x > 0).any(1), (x > 0).all(0)), [f32(9, 3)], False),
    "mean_var": (lambda x: (x.mean(0), x.var(1)), [f32(20, 30)], True),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.argmax()), [f32(20, 30)], False),
    "argmax_ties": (lambda x: (x.argmax(1), x.argmin(1)), [i32(20, 30, high=3)], False),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), [f32(20, 30)], True),
    "softmax": (lambda x: jax.nn.softmax(x), [f32(20, 10)], True),
    "log_softmax": (lambda x: jax.nn.log_softmax(x), [f32(128, 10)], True),
    "reduce_custom": (
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b, (1,)),
        [f32(4, 21, low=-0.5, high=0.5)],
        False,
    ),
    "reduce_and_or_xor": (
        lambda x: (
            lax.reduce_and(x, (0,)),
            lax.reduce_or(x, (0,)),
            lax.reduce_xor(x, (0,)),
        ),
        [i32(9, 5, high=1000)],
        False,
    ),
    # products
    "dot": (jnp.dot, [f32(12, 20), f32(20, 7)], True),
    "dot_large": (jnp.dot, [f32(65, 130), f32(130, 97)], True),
    "dot_transposed": (lambda x, y: x.T @ y.T, [f32(20, 12), f32(7, 20)], True),
    "dot_vector": (jnp.dot, [f32(30, 20), f32(20)], True),
    "inner": (jnp.dot, [f32(50), f32(50)], True),
    "outer": (jnp.outer, [f32(50), f32(3)], True),
    "batched": (jnp.matmul, [f32(3, 5, 6), f32(3, 6, 4)], True),
    "einsum": (lambda x, y: jnp.einsum("bhqd,bkhd->bhqk", x, y), [f32(2, 3, 4, 5), f32(2, 6, 3, 5)], True),
    "tensordot": (lambda x, y: jnp.tensordot(x, y, axes=((0, 2), (1, 0))), [f32(4, 3, 5), f32(5, 4, 2)], True),
    "dot_int8": (
        lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
        [array(5, 9, dtype="int8"), array(9, 4, dtype="int8")],
        False,
    ),
    # Sums of eighths are exact, so that no rounding decides which integer they become.
    "dot_to_integer": (
        lambda x, y: jnp.dot(jnp.round(x * 4) / 4 + 0.125, jnp.round(y), preferred_element_type=jnp.int32),
        [f32(5, 9), f32(9, 4)],
        False,
    ),
    "dot_half": (jnp.dot, [array(16, 24, dtype="float16"), array(24, 8, dtype="float16")], False),
    "dot_bfloat16": (jnp.dot, [array(16, 24, dtype="bfloat16"), array(24, 8, dtype="bfloat16")], False),
    "dot_mixed": (
        lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32),
        [array(16, 24, dtype="bfloat16"), array(24, 8, dtype="bfloat16")],
        False,
    ),
    "dot_empty": (jnp.dot, [f32(4, 0), f32(0, 3)], False),
    "dot_complex": (jnp.dot, [array(4, 6, dtype="complex64"), array(6, 3, dtype="complex64")], False),
    # convolutions
    "conv_same": (conv(), [f32(2, 8, 8, 3), f32(3, 3, 3, 16)], True),
    "conv_valid": (conv(padding="VALID"), [f32(2, 8, 7, 4), f32(3, 2, 4, 5)], True),
    "conv_stride": (conv(strides=(2, 3)), [f32(2, 9, 8, 3), f32(3, 3, 3, 4)], True),
    "conv_dilated": (conv(rhs_dilation=(2, 1), padding=((2, 1), (0, 3))), [f32(2, 9, 8, 3), f32(3, 3, 3, 4)], True),
    "conv_transposed": (conv(lhs_dilation=(2, 2), padding=((1, 2), (2, 1))), [f32(2, 4, 5, 3), f32(3, 3, 3, 4)], True),
    "conv_negative_padding": (conv(padding=((-1, 0), (1, -2))), [f32(2, 9, 8, 3), f32(3, 3, 3, 4)], True),
    "conv_groups": (conv(groups=3), [f32(2, 6, 6, 6), f32(3, 3, 2, 9)], True),
    "conv_depthwise": (conv(groups=5), [f32(2, 6, 6, 5), f32(3, 3, 1, 10)], True),
    "conv_batch_groups": (conv(batch_groups=2), [f32(4, 6, 6, 3), f32(3, 3, 3, 8)], True),
    "conv_1x1": (conv(), [f32(2, 6, 6, 5), f32(1, 1, 5, 7)], True),
    "conv_nchw": (conv(dims=("NCHW", "OIHW", "NCHW")), [f32(2, 3, 8, 8), f32(4, 3, 3, 3)], True),
    "conv_1d": (
        conv(strides=(2,), dims=("NWC", "WIO", "NWC")),
        [f32(2, 15, 3), f32(4, 3, 5)],
        True,
    ),
    "conv_3d": (
        conv(strides=(1, 2, 1), dims=("NDHWC", "DHWIO", "NDHWC")),
        [f32(1, 5, 6, 4, 2), f32(2, 3, 2, 2, 3)],
        True,
    ),
    "conv_half": (conv(), [array(1, 6, 6, 3, dtype="float16"), array(3, 3, 3, 4, dtype="float16")], False),
    # windows
    "max_pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        [f32(2, 8, 9, 5)],
        True,
    ),
    "max_pool_overlapping": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        [f32(2, 8, 9, 5)],
        True,
    ),
    "average_pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 1, 2, 1), "SAME") / 6,
        [f32(2, 8, 9, 5)],
        True,
    ),
    "window_dilated": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 2), (1, 1), ((1, 1), (0, 2)), (2, 1), (1, 3)),
        [f32(6, 9)],
        False,
    ),
    "cumsum": (lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1)), [f32(40, 30)], True),
    "cumsum_long": (jnp.cumsum, [f32(100_000)], False),
    "cumulative": (
        lambda x: (lax.cummax(x, 0), lax.cummin(x, 1, reverse=True), lax.cumprod(x, 0), lax.cumlogsumexp(x, 1)),
        [f32(9, 7, low=0.5, high=1.5)],
        False,
    ),
    # views
    "slice": (lambda x: x[1:5, ::2], [f32(8, 9)], True),
    "reverse": (lambda x: x[::-1, ::-2], [f32(8, 9)], True),
    "reshape": (lambda x: x.T.reshape(3, 12), [f32(6, 6)], True),
    "transpose": (lambda x: x.transpose(2, 0, 1) * 2, [f32(3, 4, 5)], True),
    "transpose_large": (lambda x: x.T + 0, [f32(200, 130)], False),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x], 1), [f32(3, 4), f32(3, 2)], True),
    "pad": (
        lambda x: lax.pad(x, np.float32(7), ((1, 2, 0), (0, 1, 2), (-1, -1, 1))),
        [f32(3, 4, 5)],
        True,
    ),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (4, 3, 5)), [f32(4, 5)], True),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (4, 5), 0) + jnp.arange(5), [f32(4, 5)], False),
    "eye": (lambda x: x * jnp.eye(5) + jnp.tri(5), [f32(5, 5)], False),
    "constant": (lambda x: x + np.arange(12, dtype=np.float32).reshape(3, 4), [f32(3, 4)], True),
    "returned_constant": (lambda x: (np.float32(3), np.arange(4), x), [f32(3)], False),
    "same_result_twice": (lambda x: (x, x + 1, x, x + 1), [f32(3)], False),
    # indexing
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i + 5), (2, 3)), [f32(8, 9), np.int32(3)], True),
    "dynamic_slice_clamped": (lambda x, i: lax.dynamic_slice(x, (i, -i), (2, 3)), [f32(8, 9), np.int32(30)], False),
    "dynamic_update_slice": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1)),
        [f32(8, 9), f32(2, 3), np.int32(4)],
        True,
    ),
    "take_rows": (lambda x, i: x[i], [f32(20, 6), i32(4, 3, high=20)], True),
    "take_elements": (lambda x, i: jnp.take_along_axis(x, i, 1), [f32(7, 9), i32(7, 4, high=9)], True),
    "take_columns": (lambda x, i: jnp.take(x, i, axis=1), [f32(7, 9), i32(5, high=9)], True),
    "gather_batched": (jax.vmap(lambda x, i: x[i]), [f32(3, 9, 2), i32(3, 4, high=9)], True),
    "gather_out_of_bounds": (lambda x, i: x.at[i].get(mode="clip"), [f32(9, 2), i32(6, low=-20, high=20)], False),
    "gather_fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=-1), [f32(9, 2), i32(6, low=0, high=20)], False),
    "scatter_set": (lambda x, u, i: x.at[i].set(u), [f32(20, 6), f32(4, 6), np.array([3, 0, 19, 7], np.int32)], True),
    "scatter_add": (lambda x, u, i: x.at[i].add(u), [f32(20, 6), f32(9, 6), i32(9, high=20)], True),
    "scatter_add_elements": (lambda x, u, i: x.at[i, i].add(u), [f32(8, 8), f32(30), i32(30, high=8)], True),
    "scatter_max_min_mul": (
        lambda x, u, i: (x.at[i].max(u), x.at[i].min(u), x.at[i].mul(u)),
        [f32(20), f32(9), i32(9, high=20)],
        False,
    ),
    "scatter_dropped": (lambda x, u, i: x.at[i].add(u, mode="drop"), [f32(9), f32(6), i32(6, low=0, high=30)], False),
    "one_hot": (lambda i: jax.nn.one_hot(i, 10), [i32(7)], False),
    # sorting
    "sort": (lambda x: (jnp.sort(x, 0), jnp.sort(x, 1), jnp.sort(x, descending=True)), [f32(20, 30)], True),
    "sort_special": (jnp.sort, [np.array([np.nan, 1, -0.0, 0.0, -np.inf, np.inf, -np.nan], np.float32)], False),
    "sort_integers": (lambda x: (jnp.sort(x), jnp.argsort(x)), [i32(500, low=-50, high=50)], False),
    "sort_unsigned_half": (
        lambda x, y: (jnp.sort(x), jnp.sort(y)),
        [array(50, dtype="uint8"), array(50, dtype="bfloat16")],
        False,
    ),
    "sort_keys": (
        lambda a, b, v: lax.sort((a, b, v), num_keys=2),
        [i32(200, high=4), i32(200, high=5, seed=1), f32(200)],
        False,
    ),
    "argsort_stable": (lambda x: jnp.argsort(x, axis=0, stable=True), [i32(40, 3, high=4)], False),
    "top_k": (lambda x: lax.top_k(x, 5), [f32(6, 40)], False),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 5), [f32(6, 40)], False),
    "approx_min_k": (lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), [f32(40, 3)], False),
    "unique_counts": (lambda x: jnp.bincount(x, length=12), [i32(100)], False),
    "searchsorted": (lambda a, v: jnp.searchsorted(a, v), [np.sort(f32(30)), f32(9, seed=3)], False),
    # linear algebra, transforms, generators
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.mT + 4 * jnp.eye(6)), [f32(2, 6, 6)], True),
    "triangular_solve": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a + 4 * jnp.eye(6), b, lower=True),
        [f32(6, 6), f32(6, 3)],
        True,
    ),
    "solve": (lambda a, b: jnp.linalg.solve(a + 5 * jnp.eye(5), b), [f32(5, 5), f32(5, 2)], True),
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x, axis=0)), [array(4, 12, dtype="complex64")], False),
    "rfft": (lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x), 15)), [f32(3, 15)], False),
    "fft_nothing": (lambda x: (jnp.fft.irfft(x), jnp.fft.hfft(x[:, :1])), [array(4, 1, dtype="complex64")], False),
    "rng_bit_generator": (
        lambda k: lax.rng_bit_generator(k, (5, 7), dtype=np.uint32),
        [np.array([1, 2, 3, 4], np.uint32)],
        False,
    ),
    # control flow
    "while": (
        lambda x: lax.while_loop(lambda c: c[0].sum() < 100, lambda c: (c[0] * 1.5, c[1] + 1), (x, 0)),
        [f32(5, low=1)],
        False,
    ),
    "fori": (lambda x: lax.fori_loop(0, 7, lambda i, c: c * 0.5 + i, x), [f32(5)], True),
    "scan": (
        lambda x, w: lax.scan(lambda c, y: (jnp.tanh(c @ w + y), c.sum()), jnp.zeros((2, 4)), x),
        [f32(6, 2, 4), f32(4, 4)],
        True,
    ),
    "cond": (lambda p, x: lax.cond(p > 0, lambda x: x * 2, lambda x: x - 1, x), [np.int32(1), f32(4)], True),
    "switch": (
        lambda i, x: lax.switch(i, [lambda x: x + 1, lambda x: x * x, lambda x: -x], x),
        [np.int32(2), f32(4)],
        True,
    ),
    "switch_clamped": (lambda i, x: lax.switch(i, [lambda x: x + 1, lambda x: -x], x), [np.int32(9), f32(4)], False),
    "nested_loops": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, i + 1, lambda j, d: d + j * c, c), x),
        [f32(4)],
        False,
    ),
    "loop_swaps_carry": (
        lambda x, y: lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (x, y)),
        [f32(3), f32(3)],
        False,
    ),
    "vmapped_while": (
        jax.vmap(lambda x: lax.while_loop(lambda c: c < 20, lambda c: c * 2, x)),
        [f32(6, low=0.5)],
        False,
    ),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), [f32(13, low=0.5, high=1.5)], True),
    "map": (lambda x: lax.map(lambda r: r.sum() * r, x), [f32(5, 3)], True),
    "remat": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), [f32(5)], True),
    "nested_jit": (lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(x * 2), [f32(5)], True),
    # random
    "threefry": (
        lambda k: (jax.random.bits(k, (9,)), jax.random.uniform(k, (3, 5)), jax.random.normal(k, (33,))),
        [np.array([1, 2], np.uint32)],
        False,
    ),
    "random_others": (
        lambda k: (
            jax.random.bernoulli(k, 0.3, (50,)),
            jax.random.randint(k, (20,), -5, 9),
            jax.random.permutation(k, 17),
            jax.random.split(k, 3),
            jax.random.fold_in(k, 7),
        ),
        [np.array([1, 2], np.uint32)],
        False,
    ),
    "categorical": (lambda k, x: jax.random.categorical(k, x, axis=1), [np.array([1, 2], np.uint32), f32(7, 9)], False),
}


@each_mode
@pytest.mark.parametrize("name", CASES)
def test_op(name, mode):
    function, arguments, grad = CASES[name]
    check(function, *arguments, mode=mode, grad=grad, rtol=1e-4 if name in ("threefry", "categorical") else None)
