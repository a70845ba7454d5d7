"""How much memory the compilation of a program with large constants takes, in copies of them, and what they compute."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.frontend.large_constants import LARGE, set_aside
from jax_ipu.compiler.frontend.parse import parse
from support import processes
from support.modes import MODES, check

MIB = 32
PROGRAM = f"""
import resource
import jax, jax.numpy as jnp, ml_dtypes, numpy as np

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def numbers(dtype, mib={MIB}):
    row = np.arange((1 << 20) // np.dtype(dtype).itemsize).astype(dtype)
    return np.zeros((mib, len(row)), dtype) + row

@jax.custom_vjp
def captured(x):
    return (jnp.asarray(constant) * x).sum()

captured.defvjp(lambda x: (captured(x), None), lambda _, g: (g * jnp.asarray(constant).max(),))
def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, x: x + (jnp.asarray(constant)[i] * x).sum(), x)

constant = {{constant}}
with jax.default_device(jax.devices("ipu")[0]):
    jax.jit(lambda x: x + 1)(np.float32(1)).block_until_ready()
    before = peak()
    jax.jit({{program}}).lower(np.float32(1)).compile()
print((peak() - before) / {MIB})
"""
F32, SUM = "numbers('f4')", "lambda x: (jnp.asarray(constant) * x).sum()"
CASES = {
    "f32": (F32, SUM),
    "bf16": ("numbers(ml_dtypes.bfloat16)", SUM),
    "f16": ("numbers('f2')", SUM),
    "int8": ("numbers('i1')", SUM),
    "ones": (f"np.ones(({MIB}, 1 << 18), 'f4')", SUM),
    "four constants": (
        f"[numbers('f4', {MIB // 4}) + i for i in range(4)]",
        "lambda x: sum((jnp.asarray(c) * x).sum() for c in constant)",
    ),
    "in a loop": (F32, "in_a_loop"),
    "of a gradient": (F32, "jax.grad(captured)"),
    "beside chlo": (F32, "lambda x: jax.lax.erf(jnp.asarray(constant) * x).sum()"),
}


@pytest.mark.parametrize("name", CASES)
def test_no_more_copies_than_jax_makes_on_its_own(name):
    """Three are there when JAX hands its bytes over, and XLA:CPU needs four."""
    constant, program = CASES[name]
    text = PROGRAM.format(constant=constant, program=program)
    assert float(processes.output(text, JAX_PLATFORMS="ipu,cpu")) < 4.4


def table(dtype, rows=80, columns=300, first=0):
    count = np.arange(first, first + rows * columns).reshape(rows, columns) % 251
    return count % 3 == 0 if dtype == "bool" else (count - (100 if np.dtype(dtype).kind != "u" else 0)).astype(dtype)


DTYPES = ("float32", "float16", ml_dtypes.bfloat16, "int8", "uint8", "int16", "int32", "uint32", "bool", "complex64")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_values_of_large_constants(dtype, mode):
    """Two of one type, and a splat of each value that could stand for one of them."""
    one, other = table(dtype), table(dtype, first=7)

    def program(i):
        splats = [jnp.full(one.shape, value, dtype) for value in (0, 1)]
        return lax.dynamic_index_in_dim(one, i), jnp.asarray(other)[:, 5], [s[0] == one[3] for s in splats]

    check(program, np.int32(3), mode=mode)


@pytest.mark.parametrize("wide", ["int64", "uint64", "float64"])
def test_values_of_wide_constants(wide):
    with jax.enable_x64(True):
        check(lambda i: jnp.asarray(table(wide))[i] * 2, np.int32(3), mode=MODES[0])


def artifact(function, *arguments):
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu",))
    return stablehlo.serialize_portable_artifact(lowered.compiler_ir(), stablehlo.get_current_version())


def test_a_constant_that_is_also_an_attribute_stays():
    values = table("float32")

    def program(x):
        return jax.ffi.ffi_call("nobody", x)(x, table=values) + jnp.asarray(values)[0, 0]

    assert parse(artifact(lambda x: jnp.asarray(values) * x, np.float32(1)), "mlir").constants
    written = artifact(program, np.float32(1))
    assert set_aside(written) is not None
    assert not parse(written, "mlir").constants


def test_damaged_artifacts_are_left_to_the_parser():
    whole = artifact(lambda x: jnp.asarray(table("float32")) * x, np.float32(1))
    assert set_aside(whole) is not None
    for size in (0, 3, 20, LARGE, len(whole) // 2, len(whole) - 1):
        assert set_aside(whole[:size]) is None
    generator = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[generator.integers(0, 400)] = generator.integers(0, 256)
        set_aside(bytes(damaged))


def test_large_constants_are_not_shown():
    values = table("float32")
    compiled = jax.jit(lambda x: jnp.asarray(values) * x, backend="ipu").lower(np.float32(1)).compile()
    text = compiled.as_text()
    assert 'custom_call_target="ipu_large_constant"' in text
    assert "constant({" not in text
