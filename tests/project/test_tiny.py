"""Read this first: what the package does, in a few lines each."""

import jax
import jax.numpy as jnp
import numpy as np

import jax_ipu

ipu = jax.devices("ipu")[0]


def test_jit():
    f = jax.jit(lambda x: x * 2 + 1, backend="ipu")
    y = f(np.arange(3.0, dtype=np.float32))
    assert y.devices() == {ipu}
    np.testing.assert_array_equal(y, [1, 3, 5])


def test_matmul_and_gradient():
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    w, x = (
        np.float32(np.random.default_rng(0).normal(size=(5, 7))),
        np.float32(np.random.default_rng(1).normal(size=(3, 5))),
    )
    value, grad = jax.jit(jax.value_and_grad(loss), backend="ipu")(w, x)
    expected_value, expected_grad = jax.jit(jax.value_and_grad(loss), backend="cpu")(w, x)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-5, atol=1e-6)


def test_donated_state_stays_in_sram():
    step = jax.jit(lambda state, batch: (state + batch.sum(), batch.max()), backend="ipu", donate_argnums=0)
    batch = np.ones(16, np.float32)
    state, _ = step(np.zeros(1000, np.float32), batch)
    jax.block_until_ready(state)
    before = jax_ipu.counters(ipu)
    for _ in range(3):
        state, largest = step(state, batch)
    jax.block_until_ready((state, largest))
    after = jax_ipu.counters(ipu)
    assert after.h2d_bytes - before.h2d_bytes == 3 * batch.nbytes
    assert after.d2h_bytes - before.d2h_bytes == 3 * 4
    assert after.engine_loads == before.engine_loads
    np.testing.assert_array_equal(state, np.full(1000, 64, np.float32))


def test_cpu_stays_the_default():
    assert jax.devices()[0].platform == "cpu"


def test_device_describes_an_ipu():
    assert ipu.platform == "ipu" and "ipu" in str(ipu).lower()
    assert (ipu.num_tiles, ipu.bytes_per_tile, ipu.num_worker_contexts) == (1472, 638976, 6)
    assert ipu.version == "ipu2" and ipu.is_ipu_model and ipu.tile_clock_frequency > 1e9
