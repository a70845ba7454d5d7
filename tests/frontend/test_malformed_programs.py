"""Damaged programs: each gives an error, never a crash and never a wrong program."""

import functools
import io
import os
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir as jax_mlir
from jax.sharding import PartitionSpec
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir

from jax_ipu import compiler
from jax_ipu.compiler import CompileError
from jax_ipu.compiler.errors import INVALID_ARGUMENT
from support import replicas
from support.modes import lower
from support.refusals import refused


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


def test_programs_are_valid_before_damage(text, artifact):
    assert not refused(text)
    assert not refused(artifact)


def test_truncated_text(text):
    rng = random.Random(1)
    whole = text.rstrip()
    assert all(refused(whole[: rng.randrange(len(whole))]) for _ in range(100))


def test_damaged_text(text):
    """Damaged text that still parses may be a program; it must then compile or be rejected."""
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
    """Dimensions and attributes that contradict each other."""
    rng = random.Random(3)
    digits = [i for i, c in enumerate(text) if chr(c).isdigit()]
    outcomes = []
    for _ in range(250):
        damaged = bytearray(text)
        damaged[rng.choice(digits)] = rng.choice(b"0123456789")
        outcomes.append(refused(damaged))
    assert any(outcomes)


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


def spread(axes, program, *specs):
    """Returns the text of a program over four IPUs."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("ipu")[:4]).reshape(2, 2), ("a", "b"))
    wrapped = program if axes is None else jax.shard_map(program, mesh=mesh, in_specs=axes, out_specs=axes)
    shardings = [jax.sharding.NamedSharding(mesh, spec) for spec in specs]
    lowered = jax.jit(wrapped, in_shardings=shardings).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))
    return str(lowered.compiler_ir("stablehlo")).encode()


def with_callbacks(x):
    doubled = jax.pure_callback(lambda v: v * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return lax.fori_loop(0, 2, lambda i, y: y + jax.pure_callback(lambda v: v, y, y), doubled)


def with_collectives(x):
    moved = lax.ppermute(lax.psum(x, "a"), "b", [(0, 1), (1, 0)])
    return moved + lax.all_gather(x, "b").sum(0) + lax.axis_index("a")


def sharded(x):
    return jnp.sum(x @ x.T, 0), jnp.roll(x, 1, 0)


@functools.cache
def several_parts(kind):
    """(program, serialised options)"""
    if kind == "callbacks":
        return lower(with_callbacks, np.ones(3, np.float32))[0], b""
    if kind == "replicas":
        sum_body = "%c = stablehlo.add %a, %b : tensor<f32>"
        region = f"({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): {sum_body} stablehlo.return %c : tensor<f32> }})"
        groups = "replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>"
        body = f'%s = "stablehlo.all_reduce"(%r) <{{{groups}}}> {region} : (tensor<f32>) -> tensor<f32>'
        return replicas.program(body, ("%s", "tensor<f32>")).encode(), b""
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    build.num_partitions, build.use_spmd_partitioning, build.use_shardy_partitioner = 4, True, True
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(4, dtype=np.int32).reshape(1, 4))
    spec = PartitionSpec("a", "b")
    program = spread(spec, with_collectives, spec) if kind == "collectives" else spread(None, sharded, spec)
    return program, options.SerializeAsString()


def outcome(program_bytes, options):
    try:
        compiler.compile(bytes(program_bytes), "mlir", bytes(options), "ipu2:4")
    except CompileError as error:
        assert error.code in (3, 12), error  # INVALID_ARGUMENT or UNIMPLEMENTED
        return "refused"
    return "compiled"


@pytest.mark.parametrize("kind", ["callbacks", "replicas", "collectives", "partitioned"])
def test_damaged_programs_of_several_parts(kind):
    program, options = several_parts(kind)
    assert outcome(program, options) == "compiled"
    rng = random.Random(6)
    digits = [i for i, c in enumerate(program) if chr(c).isdigit()]
    outcomes = set()
    for i in range(80):
        damaged = bytearray(program)
        position = rng.choice(digits) if i % 2 else rng.randrange(len(damaged))
        damaged[position] = rng.choice(b"0123456789-<>[],%")
        outcomes.add(outcome(damaged, options))
    assert "refused" in outcomes
    for i in range(80 if options else 0):
        damaged = bytearray(options[: rng.randrange(len(options))] if i % 3 == 0 else options)
        for _ in range(rng.randint(1, 3) if damaged else 0):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        outcome(program, damaged)


def test_damaged_device_ordinal():
    """XLA ends the process for these values."""
    program, options = several_parts("partitioned")
    none = b"\x08" + b"\xff" * 9 + b"\x01"  # field 1: -1
    damaged = options.replace(none, none.replace(b"\x08\xff", b"\x08\xa7"), 1)  # in the first message that has it
    assert damaged != options
    with pytest.raises(CompileError, match="device_ordinal"):
        compiler.compile(program, "mlir", damaged, "ipu2:4")


@pytest.mark.parametrize("what", ["parameters", "output"])
def test_another_number_of_flags_than_values(what):
    program, serialized = several_parts("partitioned")
    options = xla_client.CompileOptions.ParseFromString(serialized)
    setattr(options.executable_build_options, f"allow_spmd_sharding_propagation_to_{what}", [True] * 5)
    with pytest.raises(CompileError, match="5 flags"):
        compiler.compile(program, "mlir", options.SerializeAsString(), "ipu2:4")


@pytest.mark.parametrize("source_target", ["[0, 4]", "[7, 1]", "[-1, 0]"])
def test_devices_that_a_program_does_not_have(source_target):
    pairs = f"source_target_pairs = dense<[{source_target}]> : tensor<1x2xi64>"
    body = f'%s = "stablehlo.collective_permute"(%r) <{{{pairs}}}> : (tensor<f32>) -> tensor<f32>'
    assert refused(replicas.program(body, ("%s", "tensor<f32>")).encode())


def test_a_name_that_is_no_text(artifact):
    damaged = artifact.replace(b"mhlo.num_replicas", b"mhlo.num_replica\xff")
    assert damaged != artifact
    assert refused(damaged)


# Every kind of string of a program, each once; names of entries of dictionaries end the process in MLIR's bindings.
EVERY_STRING = """
module @NAMEOFMODULE attributes {NAMEOFATTRIBUTE.x = "VALUEOFATTRIBUTE"} {
  func.func public @main(%a: tensor<4xf32> {NAMEATARGUMENT.y = "VALUEATARGUMENT"})
      -> (tensor<4xf32> {jax.result_info = "VALUEATRESULT", NAMEATRESULT.z}) {
    %0 = stablehlo.custom_call @NAMEOFFUNCTION(%a) {api_version = 4 : i32, mhlo.backend_config =
      {NAMEINDICTIONARY = 1 : i32, n = {NAMEINSIDE = 1 : i32}}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %a, %a {NAMEATOPERATION.q = "VALUEATOPERATION", mhlo.frontend_attributes = {NAMEOFUNIT}}
      : tensor<4xf32>
    %2 = call @NAMEOFSYMBOL(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @NAMEOFSYMBOL(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
}"""


@functools.cache
def bytecode():
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context:
        data = io.BytesIO()
        ir.Module.parse(EVERY_STRING).operation.write_bytecode(data)
    return data.getvalue()


@pytest.mark.parametrize("name", sorted(set(re.findall("[A-Z]{8,}", EVERY_STRING)) - {"NAMEOFMODULE"}))
def test_each_string_that_is_not_utf8(name):
    assert bytecode().count(name.encode()) == 1
    with pytest.raises(CompileError, match="not UTF-8") as raised:
        compiler.compile(bytecode().replace(name.encode(), name[:-1].encode() + b"\xff"), "mlir", b"", "ipu2:4")
    assert raised.value.code == 3


def test_escaped_bytes_in_text_that_are_not_utf8():
    for escaped in ('"NAMEATOPERATION\\FF" = 1', 'NAMEATOPERATION.q = "\\FF"'):
        damaged = EVERY_STRING.replace('NAMEATOPERATION.q = "VALUEATOPERATION"', escaped)
        assert damaged != EVERY_STRING and refused(damaged.encode())


def test_names_beyond_ascii():
    """They are not taken for other bytes, in bytecode and in text."""
    program = b"func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
    named = b'module attributes {"m.\xc3\xa9" = "\xe2\x82\xac \\C3\\A9", m.b = "\\FF"} { %s }' % program
    with pytest.raises(CompileError, match="not UTF-8"):
        compiler.compile(named, "mlir", b"", "ipu2:4")
    compiler.compile(named.replace(b', m.b = "\\FF"', b""), "mlir", b"", "ipu2:4")


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


@pytest.mark.parametrize("count", [1, 4])
def test_damaged_executables(count):
    """For one IPU, and for as many partitions as IPUs."""
    ipus = tuple(jax.devices("ipu")[:count])
    split = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(ipus), "a"), PartitionSpec("a"))
    lowered = jax.jit(lambda x: jnp.sort(x) @ x.T, in_shardings=split).lower(jax.ShapeDtypeStruct((4, 4), jnp.float32))
    client = ipus[0].client
    data = client.serialize_executable(lowered.compile().runtime_executable())

    def load(content):
        return client.deserialize_executable(content, _jax.DeviceList(ipus), xla_client.CompileOptions())

    load(data)
    start = data.index(b"JAXIPUEX")  # preceded by jaxlib's own table
    rng = random.Random(4)
    for _ in range(200):
        damaged = bytearray(data)
        # After the header's version and reserved word.
        damaged[rng.randrange(start + 16, len(data))] ^= 1 << rng.randrange(8)
        for content in (bytes(damaged), data[: rng.randrange(start, len(data))]):
            with pytest.raises(jax.errors.JaxRuntimeError, match="Cannot load serialised IPU executable"):
                load(content)


F = "tensor<4xf32>"
# Names and strings of every kind, of which one at a time is damaged.
STRINGS = f"""module @Q_module attributes {{mhlo.Q_attribute = 1 : i32}} {{
  func.func @main(%a: {F} {{jax.Q_argument = "Q_argument_value"}} loc("Q_argument_name")) -> {F} {{
    %0 = stablehlo.sine %a {{Q_key = "Q_value", mhlo.inner = {{Q_inner_key = "Q_inner_value"}}}} : {F}
      loc("Q_place")
    %1 = stablehlo.add %0, %a : {F} loc(callsite("Q_function" at "Q_file.py":3:1))
    %2 = func.call @Q_symbol(%1) : ({F}) -> {F}
    return %2 : {F}
  }}
  func.func private @Q_symbol(%a: {F}) -> {F} {{ return %a : {F} }}
}} loc("Q_whole")"""
DAMAGED = sorted(set(re.findall(r"Q_[a-z_]+", STRINGS)))


def test_strings_that_are_not_utf8():
    """MLIR's bindings end the process for some of them, so that they must not reach these."""
    artifact = _jax.mlir.serialize_portable_artifact(STRINGS.encode(), "1.13.0")
    assert not refused(STRINGS.encode())
    assert not refused(artifact)
    for name in DAMAGED:
        damaged = artifact.replace(name.encode() + b"\0", b"\xff" + name[1:].encode() + b"\0")
        damaged = damaged.replace(f".{name}\0".encode(), b".\xff" + name[1:].encode() + b"\0")
        assert damaged != artifact or name == "Q_file"
        if damaged != artifact:
            with pytest.raises(CompileError, match="UTF-8") as error:
                compiler.compile(damaged, "mlir", b"", "ipu2:4")
            assert error.value.code == INVALID_ARGUMENT, name


@pytest.mark.parametrize(
    "quoted", ["argument_value", "argument_name", "value", "inner_value", "place", "function", "whole"]
)
def test_escapes_that_are_not_utf8(quoted):
    damaged = STRINGS.replace(f'"Q_{quoted}"', '"\\FF"')
    assert damaged != STRINGS
    with pytest.raises(CompileError, match="UTF-8") as error:
        compiler.compile(damaged.encode(), "mlir", b"", "ipu2:4")
    assert error.value.code == INVALID_ARGUMENT


def test_text_beyond_ascii_is_no_damage():
    program = f'module {{ func.func @main(%a: {F}) -> {F} {{ return %a : {F} loc("größe") }} }}'
    assert not refused(program.encode())
    assert not refused(program.replace("ö", r"\C3\B6").encode())
    assert not refused(_jax.mlir.serialize_portable_artifact(program.encode(), "1.13.0"))


# Attributes that no operation of JAX has, as damage to a type makes them: where they mean nothing, they may be there.
STRANGE = {
    "integers of four bits": "dense<1> : tensor<2xi4>",
    "floats of a byte": "dense<1.0> : tensor<2xf8E4M3FN>",
    "complex numbers": "dense<(1.0,2.0)> : tensor<2xcomplex<f32>>",
    "location": 'loc("a")',
    "dictionary in an array": '[1, "a", {b = [2]}]',
    "map": "affine_map<(d0) -> (d0)>",
}
WITH_ATTRIBUTES = """module attributes {{{0}}} {{
  func.func public @main(%arg0: tensor<4xf32> {{{1}}}) -> (tensor<4xf32> {{{2}}}) {{
    %0 = stablehlo.add %arg0, %arg0 {{{3}}} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}"""


@pytest.mark.parametrize("place", range(4), ids=["module", "argument", "result", "operation"])
@pytest.mark.parametrize("name", STRANGE)
def test_attributes_of_strange_types(name, place):
    """In a program as text and as bytecode. Some of them ended the process."""
    given = [f"ipu.strange = {STRANGE[name]}" if i == place else "" for i in range(4)]
    source = WITH_ATTRIBUTES.format(*given).encode()
    data = io.BytesIO()
    with jax_mlir.make_ir_context():
        ir.Module.parse(source).operation.write_bytecode(data)
    assert refused(source) == refused(data.getvalue())


@pytest.mark.parametrize("value", ["1", '"x"', "[1]", "{a = 1}", "unit", "dense<1> : tensor<2xi4>"])
@pytest.mark.parametrize("key", ["tf.aliasing_output", "mhlo.layout_mode", "mhlo.sharding", "jax.buffer_donor"])
def test_attributes_of_arguments_of_another_type(key, value):
    assert refused(WITH_ATTRIBUTES.format("", f"{key} = {value}", "", "").encode()) in (True, False)
