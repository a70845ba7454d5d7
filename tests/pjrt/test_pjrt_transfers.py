"""Arrays to and from the device: every element type, every kind of NumPy view, other devices."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

ipu = jax.devices("ipu")[0]
cpu = jax.devices("cpu")[0]

TYPES = (
    "bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 "
    "complex64 complex128 float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
).split()

VIEWS = {
    "dense": lambda a: a,
    "transposed": lambda a: a.T,
    "permuted": lambda a: a.transpose(1, 2, 0),
    "reversed": lambda a: a[::-1, :, ::-1],
    "every other": lambda a: a[:, ::2, 1::3],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4, *a.shape[1:])),
    "empty": lambda a: a[:, :0],
    "scalar": lambda a: a[1, 2, 3],
    "zero-dimensional": lambda a: a[0, 0, 1, ...],
    "fortran": np.asfortranarray,
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def example(name, shape=(3, 5, 7)):
    """Every bit pattern of small types, random bits of others."""
    dtype = dtype_of(name)
    bits = np.random.default_rng(0).integers(0, 256, size=(*shape, dtype.itemsize), dtype=np.uint8)
    if name == "bool":
        bits &= 1
    elif name.startswith(("int2", "uint2", "int4", "uint4", "float4")):
        return np.arange(np.prod(shape)).reshape(shape).astype(np.int32).__and__(1).astype(dtype)
    return bits.view(dtype).reshape(shape)


def assert_same_bits(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", TYPES)
def test_round_trip_of_type(name):
    a = example(name)
    for view in VIEWS.values():
        b = jax.device_put(view(a), ipu)
        assert b.devices() == {ipu}
        assert_same_bits(b, view(a))


@pytest.mark.parametrize("name", ["float32", "bool", "bfloat16", "int4", "complex64", "float8_e4m3fn"])
def test_between_devices(name):
    a = example(name)
    there = jax.device_put(jax.device_put(a, cpu), ipu)
    back = jax.device_put(there, cpu)
    assert there.devices() == {ipu} and back.devices() == {cpu}
    assert_same_bits(there, a)
    assert_same_bits(back, a)


@pytest.mark.parametrize("view", VIEWS)
def test_views_as_arguments(view):
    a = VIEWS[view](np.arange(105, dtype=np.float32).reshape(3, 5, 7))
    assert_same_bits(jax.jit(lambda x: x + 1, backend="ipu")(a), np.asarray(a + np.float32(1)))


def test_copies_are_not_views_of_what_python_changes():
    a = np.zeros(1000, np.float32)
    b = jax.device_put(jnp.array(a, copy=True), ipu)
    a[:] = 1
    assert_same_bits(b, np.zeros(1000, np.float32))


def test_small_arguments_may_change_while_the_program_runs():
    """SciPy, for example, changes pivots temporarily while it solves."""
    large = jax.device_put(np.ones((500, 500), np.float32), ipu)
    function = jax.jit(lambda large, small: (large @ large @ large).sum() * 0 + small)
    for _ in range(3):
        small = np.zeros(100, np.float32)
        result = function(large, small)
        small += 1
        np.testing.assert_array_equal(result, np.zeros(100))


def test_host_array_lives_as_long_as_its_device_array():
    b = [jax.device_put(np.full(5000, i, np.float32), ipu) for i in range(20)]
    for i, array in enumerate(b):
        assert_same_bits(array, np.full(5000, i, np.float32))


def test_numpy_view_survives_deletion():
    x = jax.jit(lambda x: x * 2, backend="ipu")(np.arange(1000, dtype=np.float32))
    view = np.asarray(x)
    x.delete()
    others = [jax.jit(lambda x, i=i: x + i, backend="ipu")(np.zeros(1000, np.float32)) for i in range(3)]
    jax.block_until_ready(others)
    assert_same_bits(view, np.arange(1000, dtype=np.float32) * 2)


def test_from_dlpack():
    a = np.arange(10, dtype=np.float32)
    assert_same_bits(jax.dlpack.from_dlpack(a, device=ipu), a)


def test_to_dlpack_is_a_copy_on_the_host():
    x = jax.device_put(np.arange(12, dtype=np.float32).reshape(3, 4), ipu)
    assert_same_bits(np.from_dlpack(x), np.asarray(x))
    assert x.__dlpack_device__()[0].value == 1
    with pytest.raises(ValueError, match="requires a copy"):
        np.from_dlpack(x, copy=False)


def test_unknown_memory_kind_is_an_error():
    with pytest.raises(ValueError, match="memory kinds: device, pinned_host"):
        jax.device_put(np.ones(3), jax.sharding.SingleDeviceSharding(ipu, memory_kind="hbm"))
