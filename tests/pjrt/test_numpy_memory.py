"""Arrays that are made of NumPy arrays do not follow what is written to these afterwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

ipu = jax.devices("ipu")[0]
second = jax.devices("ipu")[1]


def _aligned(size: int) -> np.ndarray:
    """A float32 array whose memory the plugin, and JAX's CPU backend, can use as it is."""
    raw = np.zeros(4 * size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + 4 * size].view(np.float32)


def _put(x):
    return jax.device_put(x, ipu)


# Makes an array of the zeros in `x`.
MAKERS = {
    "array": jnp.array,
    "array_copy": lambda x: jnp.array(x, copy=True),
    "asarray": jnp.asarray,
    "memoryview": lambda x: jnp.asarray(memoryview(x)),
    "identity": lambda x: jax.jit(lambda v: v)(x),
    "second_result": lambda x: jax.jit(lambda v: (v + 1, v))(x)[1],
    "donated": lambda x: jax.jit(lambda v: v, donate_argnums=0)(x),
    "unchanged_state": lambda x: jax.jit(
        lambda v: jax.lax.fori_loop(0, 3, lambda i, c: (c[0], c[1] + 1), (v, 0))[0], donate_argnums=0
    )(x),
    "compiled": lambda x: jax.jit(lambda v: v).lower(x).compile()(x),
    "computed": lambda x: jax.jit(lambda v: v * 2)(x),
    "eager": lambda x: jnp.negative(x),
    "queued": lambda x: jax.jit(lambda v: jnp.broadcast_to(v[:400], (400, 400)) @ jnp.ones((400, 400)) + v[0])(x),
    "put_without_alias": lambda x: jax.device_put(x, ipu, may_alias=False),
    "put_on_default_without_alias": lambda x: jax.device_put(x, may_alias=False),
    "put_tree_without_alias": lambda x: jax.device_put((1, x), ipu, may_alias=(None, False))[1],
    "copy": lambda x: jnp.copy(_put(x)),
    "array_of_array": lambda x: jnp.array(_put(x)),
    "copy_on_other_ipu": lambda x: jax.device_put(_put(x), second),
    "copy_in_host_memory": lambda x: jax.device_put(
        _put(x), jax.sharding.SingleDeviceSharding(ipu, memory_kind="pinned_host")
    ),
    "reshaped": lambda x: _put(x).reshape(100, -1),
    "slice": lambda x: _put(x)[: x.size // 2],
    "ref": lambda x: jax.new_ref(x)[...],
}


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_keep_the_values_that_they_were_made_of(name):
    x = _aligned(100_000)
    with jax.default_device(ipu):
        y = MAKERS[name](x)
        x[:] = 1
        assert not np.asarray(y).any()


def test_a_result_keeps_its_value_when_the_argument_is_gone():
    """The variable of an argument that is kept on the IPU is read in place by the model."""
    x = _aligned(50_000)
    y = _put(x)
    add = jax.jit(lambda v: v + 1, backend="ipu")
    add(y)
    copy = jnp.copy(y)
    del y
    x[:] = 5
    np.testing.assert_array_equal(add(copy), np.ones(50_000))


def test_programs_never_write_to_numpy_arrays():
    x = _aligned(50_000)
    for donated in (_put(x), jax.device_put(x, ipu, donate=True)):
        y = jax.jit(lambda v: v.at[3].set(9), donate_argnums=0)(donated)
        jax.jit(lambda v: v * 2 + 1, donate_argnums=0)(y).block_until_ready()
        assert not x.any()


def test_device_put_may_use_the_memory_of_a_numpy_array():
    x = _aligned(50_000)
    y = jax.device_put(x, ipu, may_alias=True)
    assert y.unsafe_buffer_pointer() == x.ctypes.data
    shown = np.asarray(y)
    jnp.copy(y)  # what was shown stays valid when the array gets memory of its own
    np.testing.assert_array_equal(shown, x)
    np.testing.assert_array_equal(y, x)
