"""The module whose functions the tests of the command line name."""

MODULE = """
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

def step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
    return w - 0.5 * gradient, loss

def example_args(batch=16):
    return jnp.zeros((64, 10)), jax.ShapeDtypeStruct((batch, 64), jnp.float32)

def product(x, y):
    return x @ y

def vectors():
    return [jnp.zeros(30)]

def unused(batch):
    return [jnp.zeros(30)]

def sine(x):
    return jnp.sin(x)

rows = NamedSharding(AbstractMesh((4,), ("ipus",)), PartitionSpec("ipus"))
sharded = jax.jit(lambda x: x - x.sum(0), in_shardings=rows)

def mismatch(w, x):
    return w + x

def _hidden(x):
    return x

def broken(x):
    raise RuntimeError("broken by intention")

def eights(x):
    return x.reshape(8, -1)

def matrix(x):
    if x.ndim != 2:
        raise ValueError("x must be a matrix")
    return x

def even(x):
    assert x.shape[0] % 2 == 0, "an even number of rows"
    return x

def last(x):
    return x * x.shape[1]

def chosen(x):
    return x if x > 0 else -x

def unsupported(x):
    return jax.ffi.ffi_call("target_of_another_library", x, custom_call_api_version=2)(x)

constant = 3
"""
