"""Successive operations on the same rows, which the fast engine runs band by band; tensors larger than one band."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import MODES, array, check


def layer_norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * scale


def update_rows_and_columns(x):
    """All rows of the next operation use sums over rows, so bands must end there."""
    y = jnp.tanh(x)
    z = y - y.sum(0, keepdims=True) / x.shape[0]
    return z * 2 + z.max(1, keepdims=True), jnp.abs(z).sum()


def reads_other_rows(x):
    y = jnp.exp(x)
    return y + y[::-1] * 3, y.T - 1, jnp.concatenate([y[1:], y[:1]]) * y


def batch_norm(x, scale):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def images_first_norm(x):
    return (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)


def composed(x, y, dimensions):
    """The composition of affine maps, which is associative but not commutative."""
    return lax.reduce(
        (x % 7, y),
        (np.int32(1), np.int32(0)),
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
        dimensions,
    )


INDICES = np.random.default_rng(3).integers(-400, 400, 200_000).astype(np.int32)

CASES = {
    "softmax": (jax.nn.softmax, [array(301, 517)]),
    "log_softmax_bf16": (jax.nn.log_softmax, [array(301, 1030, dtype="bfloat16")]),
    "softmax_columns": (lambda x: jax.nn.softmax(x, 0), [array(517, 301)]),
    "softmax_of_batches": (jax.nn.softmax, [array(3, 2, 130, 200)]),
    "layer_norm": (layer_norm, [array(4, 101, 401), array(401, seed=1)]),
    "rows_and_columns": (update_rows_and_columns, [array(303, 511)]),
    "variance_of_columns": (lambda x: (x.var(0), (x * 2).sum(0), (x - 1).max(0)), [array(1031, 257)]),
    "variance_of_columns_f16": (lambda x: x.var(0), [array(2050, 129, dtype="float16")]),
    "batch_norm": (batch_norm, [array(16, 9, 11, 96), array(96)]),
    "batch_norm_gradient": (
        jax.grad(lambda x, s: (jnp.tanh(batch_norm(x, s)) ** 2).sum(), (0, 1)),
        [array(9, 10, 11, 120), array(120)],
    ),
    "softmax_of_large_batches": (lambda x: jax.nn.softmax(x * 2), [array(9, 5, 130, 200)]),
    "softmax_gradient_of_large_batches": (
        lambda x, y: jax.vjp(jax.nn.softmax, x)[1](y)[0],
        [array(8, 3, 201, 130), array(8, 3, 201, 130, seed=1)],
    ),
    "batch_norm_of_large_images": (batch_norm, [array(8, 40, 41, 64), array(64)]),
    "rows_of_large_batches": (
        lambda x: (x - x.mean((0, 1)), jnp.exp(x - x.max((1, 2), keepdims=True)).sum(0)),
        [array(8, 30, 41, 64)],
    ),
    "batch_norm_of_images_first": (images_first_norm, [array(6, 32, 30, 31)]),
    "argmax_of_columns": (lambda x: jnp.argmax(x * 2, 0), [array(1001, 301)]),
    "no_rows": (lambda x: ((x * 2).sum(0), (x + 1).sum(1)), [array(0, 300)]),
    "ordered_columns": (
        lambda x: composed(x * 3 + 1, x + 2, (0, 1)),
        [np.arange(300 * 9 * 111, dtype=np.int32).reshape(300, 9, 111) % 1000],
    ),
    "ordered_columns_with_few_outer_rows": (
        lambda x: composed(x * 3 + 1, x + 2, (0, 1)),
        [np.arange(3 * 900 * 111, dtype=np.int32).reshape(3, 900, 111) % 1000],
    ),
    "other_rows": (reads_other_rows, [array(400, 400)]),
    "gather_of_elements": (lambda x, i: jnp.exp(x[i * 3 - 7]) + 1, [array(1000), INDICES]),
    "gather_of_rows": (lambda x, i: x[jnp.abs(i) % 90] * 2, [array(90, 64), INDICES[:4000]]),
    "gather_in_batches": (
        lambda x, i: jnp.take_along_axis(x * 2, i % 70, 1) - 1,
        [array(500, 70), INDICES.reshape(500, 400)],
    ),
    "gather_columns": (lambda x, i: jnp.take(x, i, axis=1, mode="clip") * 3, [array(600, 50), INDICES[:300]]),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x * 2)), [array(301, 250)]),
    "fft_of_batches": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 3) - 1, [array(40, 30, 62)]),
    "transposed_results": (
        lambda x: (x.T + 0, jnp.exp(x.T)[:, 1:], x.T * x[:, :1].T, (x.T > 0, x.T - 1)),
        [array(301, 517)],
    ),
    "transposed_in_three_dimensions": (
        lambda x, y: (x.transpose(2, 0, 1) * 2, x.transpose(1, 2, 0) + y.transpose(1, 2, 0), x.transpose(0, 2, 1)),
        [array(33, 70, 65), array(33, 70, 65, seed=1)],
    ),
    "transposed_bf16": (lambda x: (x.T * 2, x.T[::-1] + 1), [array(130, 257, dtype="bfloat16")]),
    "transposed_int8": (lambda x: (x.T * 2, x.T), [array(130, 257, dtype="int8")]),
    "argmax": (lambda x: (jnp.argmax(x * 2, 1), jnp.sort(x[0] + 1), (x * 2).min(1)), [array(301, 701)]),
}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode[1] > 100], ids=lambda mode: mode[0])
@pytest.mark.parametrize("name", CASES)
def test_values(name, mode):
    function, args = CASES[name]
    check(function, *args, mode=mode)


def test_donated_state_is_updated_in_bands():
    def step(w, x):
        w = w * 0.5 + x
        w = w - w.mean(1, keepdims=True)
        return w, w.max(1)

    x = array(300, 500)
    states = {platform: (np.array(x), None) for platform in ("cpu", "ipu")}
    for platform, (w, top) in states.items():
        run = jax.jit(step, backend=platform, donate_argnums=0)
        w = jax.device_put(w, jax.devices(platform)[0])
        for _ in range(3):
            w, top = run(w, x)
        states[platform] = np.asarray(w), np.asarray(top)
    for actual, expected in zip(states["ipu"], states["cpu"], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
