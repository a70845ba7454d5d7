"""Bits that become values of narrow types, with what is computed from them in the same program."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from support.modes import run_ipu, with_codelets

NARROW = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16"),
)
TYPES = [np.dtype(np.float16), *(np.dtype(getattr(ml_dtypes, name)) for name in NARROW)]


def bits_of(dtype):
    """All bit patterns of one byte, or some of two bytes without denormals, which a chip takes for zero."""
    if dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8)
    codes = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    values = codes.view(dtype).astype(np.float32)
    return codes[(values == 0) | (abs(values) >= float(jnp.finfo(dtype).tiny))]


@with_codelets
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_bits_are_converted_as_values(dtype, mode):
    """The program is one elementwise operation: its result has another type than the bits have."""

    def program(bits):
        values = lax.bitcast_convert_type(bits, dtype)
        wide = values.astype(np.float32)
        return wide, values, (wide + 1).astype(dtype), lax.bitcast_convert_type(values, bits.dtype)

    bits = bits_of(dtype)
    values = bits.view(dtype)
    wide, narrow, added, again = run_ipu(program, (bits,), mode)
    np.testing.assert_array_equal(wide, values.astype(np.float32))
    np.testing.assert_array_equal(narrow.view(bits.dtype), bits)
    np.testing.assert_array_equal(
        added.astype(np.float32), (values.astype(np.float32) + 1).astype(dtype).astype(np.float32)
    )
    np.testing.assert_array_equal(again, bits)


@with_codelets
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values_become_bits(dtype, mode):
    values = np.linspace(-3, 3, 37, dtype=np.float32)
    word = f"uint{8 * dtype.itemsize}"
    (bits,) = run_ipu(lambda x: lax.bitcast_convert_type(x.astype(dtype), word).astype(np.int32) + 3, (values,), mode)
    np.testing.assert_array_equal(bits, values.astype(dtype).view(word).astype(np.int32) + 3)


@pytest.mark.parametrize("dtype", ["int4", "int2", "uint4", "int8"])
def test_positions_of_narrow_types_wrap(dtype):
    """A count in a narrow type starts again: its elements are no linear function of their places."""
    count = 300
    table = np.arange(count, dtype=np.int32)
    (found,) = run_ipu(lambda x: x[lax.iota(dtype, count).astype(jnp.int32)], (table,), ("fast", 8))
    wrapped = np.arange(count).astype(np.int64).astype(jnp.dtype(dtype)).astype(np.int64)
    np.testing.assert_array_equal(found, table[wrapped])
