"""How much memory the compilation of a program with large constants takes, in copies of them, and what they compute."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.frontend.bytecode import MAGIC, number, read_number
from jax_ipu.compiler.frontend.importer import import_program
from jax_ipu.compiler.frontend.large_constants import LARGE, set_aside
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.partition import partition
from support import processes
from support.modes import MODES, check

MIB = 32
PROGRAM = f"""
import jax, jax.numpy as jnp, ml_dtypes, numpy as np
{processes.PEAK}
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
print((peak() - before) / 1024 / {MIB})
"""
F32, SUM = "numbers('f4')", "lambda x: (jnp.asarray(constant) * x).sum()"
CASES = {
    "f32": (F32, SUM),
    "bf16": ("numbers(ml_dtypes.bfloat16)", SUM),
    "beside chlo": (F32, "lambda x: jax.lax.erf(jnp.asarray(constant) * x).sum()"),
    "f16": ("numbers('f2')", SUM),
    "int8": ("numbers('i1')", SUM),
    "ones": (f"np.ones(({MIB}, 1 << 18), 'f4')", SUM),
    "four constants": (
        f"[numbers('f4', {MIB // 4}) + i for i in range(4)]",
        "lambda x: sum((jnp.asarray(c) * x).sum() for c in constant)",
    ),
    "in a loop": (F32, "in_a_loop"),
    "of a gradient": (F32, "jax.grad(captured)"),
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


def many_alike():
    """More constants of one type than it has values, also such as MLIR reads as splats, in functions and regions."""
    tables = [table("int8", 16, 1024, first=i) for i in range(130)]
    shared = tables[0]

    @jax.jit
    def inner(i):
        return jnp.asarray(shared)[i]

    def program(i):
        def step(j, v):
            return v + jnp.asarray(shared)[j] + jnp.asarray(table("int8", 16, 1024))[i]

        splats = [jnp.full(shared.shape, value, "int8")[i] for value in range(-128, 128)]
        rows = [jnp.asarray(t)[i] for t in tables]
        return lax.fori_loop(0, 2, step, inner(i)), jnp.stack(rows), jnp.stack(splats)

    return program


def kinds_left_to_mlir():
    """Types whose elements are not bytes of their own, beside one whose elements are."""
    whole, flags, parts = table("float32"), table("bool", 200, 300), table("complex64")
    nibbles = (table("int8", 80, 1000) % 8).astype(ml_dtypes.int4)
    return lambda i: (
        [jnp.asarray(t)[i] for t in (whole, flags, parts, -whole)] + [jnp.asarray(nibbles)[i].astype("int8")]
    )


def operations_of_chlo():
    values = table("float32") / 100

    def program(i):
        x = jnp.asarray(values)
        return lax.erf(x)[i], lax.top_k(x, 3), jnp.tan(x[i]), jnp.full(x.shape, 1.1037, "float32")[i]

    return program


@pytest.mark.parametrize("make", [many_alike, kinds_left_to_mlir, operations_of_chlo])
def test_values_beside_others_like_them(make):
    check(make(), np.int32(3), mode=MODES[0])


class TestStandIns:
    """What is computed where stand-ins cannot be told from the program's own constants."""

    values = table("float32")
    program = staticmethod(lambda x: jnp.asarray(table("float32")) * x)

    def parsed(self):
        written = artifact(self.program, np.float32(1))
        parsed = parse(written, "mlir")
        assert parsed.constants
        return written, parsed

    def literals(self, legal):
        module = import_program(legal)
        found = [op.attrs["value"] for f in module.functions.values() for op in f.block.ops if op.name == "constant"]
        return [bytes(literal.data) for literal in found if not literal.splat]

    def test_each_is_found_again(self):
        _, parsed = self.parsed()
        legal = legalize(partition(parsed))
        assert legal.constants and self.literals(legal) == [self.values.tobytes()]

    @pytest.mark.parametrize("uses", [0, 2])
    def test_a_module_with_more_or_less_of_them_is_parsed_anew(self, uses):
        _, parsed = self.parsed()
        other = replace(parsed.constants, uses=Counter(dict.fromkeys(parsed.constants.elements, uses)))
        legal = legalize(partition(replace(parsed, constants=other)))
        assert not legal.constants and self.literals(legal) == [self.values.tobytes()]

    def test_an_unknown_version_is_left_to_the_parser(self):
        written, _ = self.parsed()
        _, end = read_number(written, len(MAGIC))
        for other in (
            written[: len(MAGIC)] + number(99) + written[end:],
            written.replace(b"StableHLO_v", b"Somebody__v"),
        ):
            assert set_aside(written) is not None
            assert set_aside(other) is None

    def test_what_is_made_wrong_is_parsed_anew(self, monkeypatch):
        written, parsed = self.parsed()
        spoilt = set_aside(written)[0]
        monkeypatch.setattr("jax_ipu.compiler.frontend.parse.set_aside", lambda _: (spoilt[:-9], parsed.constants))
        whole = parse(written, "mlir")
        assert not whole.constants
        assert self.literals(legalize(partition(whole))) == [self.values.tobytes()]


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
