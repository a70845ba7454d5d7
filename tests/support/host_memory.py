"""Programs with values in host memory: shapes of their arguments, and moves between the memories."""

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from jax_ipu import compiler

SRAM = SingleDeviceSharding(jax.devices("ipu")[0])
HOST = SRAM.with_memory_kind("pinned_host")


def on_device(value):
    return jax.device_put(value, jax.memory.Space.Device)


def in_host(value):
    return jax.device_put(value, jax.memory.Space.Host)


def layers(weights, x):
    return jax.lax.scan(lambda h, w: (jnp.tanh(h @ on_device(w)), None), x, weights)[0]


def shaped(shapes, hosts):
    """f32 arguments of these shapes, those of `hosts` in host memory."""
    return [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=HOST if i in hosts else SRAM)
        for i, shape in enumerate(shapes)
    ]


def compiled(function, shapes, hosts, tiles=64, **options):
    """The executable for f32 arguments of these shapes, those of `hosts` in host memory."""
    program = jax.jit(function, **options).lower(*shaped(shapes, hosts)).compiler_ir("stablehlo")
    return compiler.compile(str(program).encode(), "mlir", b"", f"ipu2:{tiles}")
