"""Damaged programs: an error each, never a crash and never a wrong program."""

import os
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib import _jax, xla_client

from jax_ipu import compiler
from jax_ipu.compiler import CompileError
from support.modes import lower


def program(x, i):
    y = x.at[i].add(jnp.sort(x)[i]) @ x.T
    y = lax.fori_loop(0, 3, lambda k, y: jnp.tanh(y) + y[i[0]], y)
    pooled = lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID")
    return pooled, jax.random.normal(jax.random.key(0), (3,)), lax.switch(i[0], [jnp.sin, jnp.cos], y)


@pytest.fixture(scope="module")
def text():
    return lower(program, np.ones((5, 4), np.float32), np.array([0, 1], np.int32))[0]


@pytest.fixture(scope="module")
def artifact(text):
    return _jax.mlir.serialize_portable_artifact(text, "1.13.0")


@pytest.fixture(autouse=True)
def quiet_stderr():
    """MLIR writes the errors of bytecode to the file descriptor."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    yield
    os.dup2(kept, 2)
    os.close(kept)
    os.close(null)


def refused(program_bytes):
    try:
        compiler.compile(bytes(program_bytes), "mlir", b"", "ipu2:4")
    except CompileError as error:
        assert error.code in (3, 12), error  # INVALID_ARGUMENT or UNIMPLEMENTED
        assert len(str(error)) > 20
        return True
    return False


def test_programs_are_valid_before_damage(text, artifact):
    assert not refused(text)
    assert not refused(artifact)


def test_truncated_text(text):
    rng = random.Random(1)
    whole = text.rstrip()
    assert all(refused(whole[: rng.randrange(len(whole))]) for _ in range(100))


def test_damaged_text(text):
    """Text that still parses may be a program; it must then compile or be refused."""
    rng = random.Random(2)
    outcomes = []
    for _ in range(250):
        damaged = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            position = rng.randrange(len(damaged))
            damaged[position] = rng.choice(
                (rng.choice(b"0123456789xif<>[],%"), damaged[position] ^ 1 << rng.randrange(8))
            )
        outcomes.append(refused(damaged))
    assert any(outcomes)


def test_numbers_of_text(text):
    """Dimensions and attributes that do not fit together."""
    rng = random.Random(3)
    digits = [i for i, c in enumerate(text) if chr(c).isdigit()]
    for _ in range(250):
        damaged = bytearray(text)
        damaged[rng.choice(digits)] = rng.choice(b"0123456789")
        refused(damaged)


def test_every_truncated_artifact(artifact):
    assert all(refused(artifact[:n]) for n in range(0, len(artifact), 7))


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"ML\xefR", b"ML\xefR\x0dStableHLO_v1.9.0", b"\xff" * 64, b"module {", b"HloModule m"]
)
def test_not_a_program(data):
    assert refused(data)


def test_unknown_producer(artifact):
    damaged = bytearray(artifact)
    damaged[5:8] = b"\xff\xfe\xfd"
    assert refused(damaged)


@pytest.mark.parametrize("value", ["0 : i32", "-1 : i32", "2000000000 : i32", "1.0 : f32", '"x"', "[1]", "unit"])
@pytest.mark.parametrize("name", ["num_replicas", "num_partitions"])
def test_counts_of_ipus(text, name, value):
    damaged = re.sub(rb"mhlo.%s = \d+ : i32" % name.encode(), f"mhlo.{name} = {value}".encode(), text)
    assert damaged != text
    assert refused(damaged)


@pytest.mark.parametrize("field", ["num_replicas", "num_partitions"])
@pytest.mark.parametrize("count", [1025, 2**31 - 1])
def test_counts_of_ipus_in_options(text, field, count):
    options = xla_client.CompileOptions()
    setattr(options.executable_build_options, field, count)
    with pytest.raises(CompileError, match=f"{field} = {count}"):
        compiler.compile(text, "mlir", options.SerializeAsString(), "ipu2:4")


@pytest.mark.parametrize("target", ["", "ipu9", "ipu2:-1", "ipu2:x", "ipu2:100000", "ipu2:99999999999999999999"])
def test_targets_that_do_not_exist(text, target):
    with pytest.raises(CompileError, match="not valid"):
        compiler.compile(text, "mlir", b"", target)


def test_damaged_options():
    small = lower(jnp.sin, np.ones(3, np.float32))[0]
    options = xla_client.CompileOptions().SerializeAsString()
    rng = random.Random(5)
    refusals = 0
    for i in range(200):
        damaged = bytearray(options[: rng.randrange(1, len(options))] if i % 2 else options)
        for _ in range(3):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            compiler.compile(small, "mlir", bytes(damaged), "ipu2:4")
        except CompileError as error:
            refusals += error.code == 3
    assert refusals


def test_damaged_executables():
    ipu = jax.devices("ipu")[0]
    compiled = jax.jit(lambda x: jnp.sort(x) @ x.T, backend="ipu").lower(np.ones((3, 4), np.float32)).compile()
    data = ipu.client.serialize_executable(compiled.runtime_executable())

    def load(content):
        return ipu.client.deserialize_executable(content, _jax.DeviceList((ipu,)), xla_client.CompileOptions())

    load(data)
    start = data.index(b"JAXIPUEX")  # jaxlib's own table is before it
    rng = random.Random(4)
    for _ in range(200):
        damaged = bytearray(data)
        # Behind the header's version and reserved word.
        damaged[rng.randrange(start + 16, len(data))] ^= 1 << rng.randrange(8)
        for content in (bytes(damaged), data[: rng.randrange(start, len(data))]):
            with pytest.raises(jax.errors.JaxRuntimeError, match="Cannot load serialised IPU executable"):
                load(content)
