"""Operations on each row of a batch that is split over IPUs: values as on the CPU, and nothing is gathered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.devices import compare
from support.modes import array


def pooled(x, padding, window=(1, 3, 3, 1), strides=(1, 2, 2, 1)):
    return lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, window, strides, padding)


def pooling_gradient(padding):
    return jax.grad(lambda x: (pooled(x, padding).astype(np.float32) ** 2).sum())


def spectrum_in_a_loop(x):
    """A step of a spectral solver, and the largest elements after each."""
    half = jnp.exp(-jnp.arange(x.shape[-1] // 2 + 1, dtype=np.float32))
    return lax.scan(lambda c, _: (jnp.fft.irfft(jnp.fft.rfft(c) * half), lax.top_k(c, 2)), x, None, length=3)


ROWS, IMAGES = array(8, 2, 16), array(8, 8, 6, 3, dtype=np.float16)
# A function of a batch, and the batch.
CASES = {
    "fft": (jnp.fft.fft, ROWS),
    "inverse fft": (jnp.fft.ifft, ROWS.astype(np.complex64)),
    "fft of real rows": (jnp.fft.rfft, ROWS),
    "inverse fft to real rows": (lambda x: jnp.fft.irfft(x + 1j * x), ROWS),
    "fft of images": (jnp.fft.fft2, ROWS),
    "gradient of an fft": (jax.grad(lambda x: jnp.abs(jnp.fft.rfft(x)).sum()), ROWS),
    "fft and inverse fft of the same rows": (lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x)), ROWS.astype(np.complex64)),
    "ffts of rows and of images": (lambda x: (jnp.fft.fft(x), jnp.fft.fft2(x)), ROWS.astype(np.complex64)),
    "largest of each row": (lambda x: lax.top_k(x, 3), ROWS),
    "gradient of the largest": (jax.grad(lambda x: (lax.top_k(x, 3)[0] ** 2).sum()), ROWS),
    "approximately largest": (lambda x: lax.approx_max_k(x, 3), ROWS),
    "in a loop": (spectrum_in_a_loop, ROWS),
    "pooling gradient, f16": (pooling_gradient("VALID"), IMAGES),
    "padded pooling gradient, f16": (pooling_gradient("SAME"), IMAGES),
    "padded pooling gradient, f32": (pooling_gradient("SAME"), IMAGES.astype(np.float32)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, batch = CASES[name]

    def split(devices):
        mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
        return lambda x: jax.jit(function)(jax.device_put(x, NamedSharding(mesh, P(("a", "b")))))

    compare(split, batch, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_sent(name):
    function, batch = CASES[name]
    rows = NamedSharding(AbstractMesh((4,), ("a",)), P("a"))
    text = str(jax_ipu.estimate(function, jax.ShapeDtypeStruct(batch.shape, batch.dtype, sharding=rows)))
    assert "on 4 IPUs" in text and "gather" not in text and "reduce" not in text.replace("reduce_window", "")


@pytest.mark.parametrize("spec", [P(None, "a", "b"), P(None, None, "a"), P("a", "b", None)], ids=str)
def test_values_where_problems_are_split(spec):
    """Rows of an FFT or images of pooling on several IPUs."""

    def split(devices):
        mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
        return lambda x, y: jax.jit(both)(*jax.device_put((x, y), NamedSharding(mesh, spec)))

    def both(rows, images):
        return jnp.fft.fft2(rows), lax.top_k(rows, 3), pooling_gradient("SAME")(images)

    compare(split, ROWS, IMAGES, rtol=1e-4, atol=1e-4)
