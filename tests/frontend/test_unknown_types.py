"""Element types that XLA lacks, in programs for one IPU and for two, which XLA partitions."""

import jax
import numpy as np
import pytest
from jax._src.lib import _jax, xla_client

QUANTIZED = "!quant.uniform<i8:f32, 2.0:0>"


def load(text: str, count: int):
    devices, options = jax.devices("ipu")[:count], xla_client.CompileOptions()
    options.num_partitions = options.executable_build_options.num_partitions = count
    options.executable_build_options.use_spmd_partitioning = count > 1
    return devices, devices[0].client.compile_and_load(text, _jax.DeviceList(tuple(devices)), options)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["f6E2M3FN", "f6E3M2FN"])
@pytest.mark.parametrize(
    "body",
    [
        "(%x: {f32}) -> {f6} {{ %r = stablehlo.constant dense<[1.0, 2.0, 0.5, 0.0]> : {f6}\n return %r : {f6} }}",
        "(%x: {f32}) -> {f6} {{ %r = stablehlo.convert %x : ({f32}) -> {f6}\n return %r : {f6} }}",
        "(%x: {f6}) -> {f32} {{ %r = stablehlo.convert %x : ({f6}) -> {f32}\n return %r : {f32} }}",
        "(%x: {f6}) -> {f6} {{ %r = chlo.asin %x : {f6} -> {f6}\n return %r : {f6} }}",
    ],
)
def test_six_bits_are_refused(body, name, count):
    """XLA ends the process for constants of these types."""
    text = "func.func @main" + body.format(f6=f"tensor<4x{name}>", f32="tensor<4xf32>")
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"element type {name} is not supported on IPU; convert to"):
        load(text, count)


@pytest.mark.parametrize("count", [1, 2])
def test_quantized_sum(count):
    text = f"""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %a = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x{QUANTIZED}>
  %c = stablehlo.add %a, %a : tensor<2x{QUANTIZED}>
  %r = stablehlo.uniform_dequantize %c : (tensor<2x{QUANTIZED}>) -> tensor<2xf32>
  return %r : tensor<2xf32> }}"""
    devices, loaded = load(text, count)
    mesh = jax.make_mesh((count,), ("i",), devices=devices)
    x = jax.device_put(np.array([4, 7], np.float32), jax.NamedSharding(mesh, jax.P()))
    (parts,) = loaded.execute_sharded([x]).disassemble_into_single_device_arrays()
    for part in parts:
        np.testing.assert_array_equal(np.asarray(part), [8, 16])
