"""Programs with sizes, calls and regions beyond any limit."""

import concurrent.futures
import sys

import jax
import numpy as np
import pytest
from jaxlib import _jax, xla_client

from jax_ipu import compiler
from jax_ipu.compiler import CompileError
from jax_ipu.compiler.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED
from jax_ipu.compiler.ir import MAX_REGION_DEPTH
from support.refusals import refused

F = "tensor<4xf32>"


SIZES = {
    "argument": "func.func @main(%a: T) -> T { return %a : T }",
    "constant": "func.func @main() -> T { %0 = stablehlo.constant dense<1.0> : T\n return %0 : T }",
    "iota": "func.func @main() -> T { %0 = stablehlo.iota dim = 0 : T\n return %0 : T }",
    "pad": """func.func @main(%a: tensor<0x3xf32>, %z: tensor<f32>) -> T {
      %0 = stablehlo.pad %a, %z, low = [N, 0], high = [0, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> T
      return %0 : T }""",
    "sum": "func.func @main(%a: T) -> T { %0 = stablehlo.add %a, %a : T\n return %0 : T }",
}


@pytest.mark.parametrize("size", [2**32 + 1, 2**40, 2**40 + 1, 2**61, 2**62, 6148914691236517206, 2**63 - 1])
@pytest.mark.parametrize("kind", SIZES)
def test_sizes_beyond_any_memory(kind, size):
    """6148914691236517206 * 3 * 4 bytes are 8 in 64 bits."""
    program = SIZES[kind].replace("T", f"tensor<{size}x3xf32>").replace("N", str(size))
    with pytest.raises(CompileError) as error:
        compiler.compile(program.encode(), "mlir", b"", "ipu2:4")
    assert error.value.code == RESOURCE_EXHAUSTED
    assert "Traceback" not in str(error.value) and str(size) in str(error.value)


def test_empty_tensors_have_no_other_dimension_beyond_any_memory():
    program = "func.func @main(%a: T) -> T { return %a : T }"
    assert not refused(program.replace("T", "tensor<0x9x9xf32>").encode())
    with pytest.raises(CompileError, match="larger than the memory") as error:
        compiler.compile(program.replace("T", f"tensor<0x{2**62}x9xf32>").encode(), "mlir", b"", "ipu2:4")
    assert error.value.code == RESOURCE_EXHAUSTED


def nested_calls(depth, body):
    """main calls f0, which calls f1, and so on; each has `body` around its call, in which "CALL" makes %0 of %x."""
    last = f"func.func private @f{depth}(%x: {F}, %p: tensor<i1>) -> {F} {{ return %x : {F} }}"
    functions = [f"func.func @main(%x: {F}, %p: tensor<i1>) -> {F} {{ {body} }}".replace("CALL", _call(0)), last]
    for i in range(depth):
        functions.append(
            f"func.func private @f{i}(%x: {F}, %p: tensor<i1>) -> {F} {{ {body} }}".replace("CALL", _call(i + 1))
        )
    return "\n".join(functions).encode()


def _call(function):
    return f"func.call @f{function}(%x, %p) : ({F}, tensor<i1>) -> {F}"


def test_thousands_of_nested_calls():
    program = nested_calls(2000, f"%0 = CALL\n%1 = stablehlo.add %0, %x : {F}\nreturn %1 : {F}").decode()
    device = jax.devices("ipu")[0]
    x = np.arange(4, dtype=np.float32)
    loaded = device.client.compile_and_load(program, _jax.DeviceList((device,)), xla_client.CompileOptions())
    arguments = [jax.device_put(a, device) for a in (x, np.array(True))]
    ((result,),) = loaded.execute_sharded(arguments).disassemble_into_single_device_arrays()
    np.testing.assert_array_equal(np.asarray(result), 2001 * x + x)


def test_thousands_of_nested_calls_in_two_partitions():
    program = nested_calls(2000, f"%0 = CALL\n%1 = stablehlo.add %0, %x : {F}\nreturn %1 : {F}").decode()
    attributes = "mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32"
    assert not refused(f"module @m attributes {{{attributes}}} {{ {program} }}".encode())


def test_functions_that_call_themselves_are_refused():
    program = nested_calls(300, f"%0 = CALL\nreturn %0 : {F}").replace(b"return %x", b"%0 = CALL return %0")
    program = program.replace(b"CALL", _call(0).encode())
    assert refused(program)
    for partitions in (1, 2):
        attributes = f"mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32"
        assert refused(b"module @m attributes {%s} { %s }" % (attributes.encode(), program))


def nested_branches(depth):
    begins = (f'%r{i} = "stablehlo.if"(%p) ({{' for i in range(depth))
    ends = (
        f"""}}, {{ stablehlo.return %x : {F} }}) : (tensor<i1>) -> {F}
        {"stablehlo." if i else ""}return %r{i} : {F}"""
        for i in reversed(range(depth))
    )
    body = "\n".join((*begins, f"stablehlo.return %x : {F}", *ends))
    return f"func.func @main(%x: {F}, %p: tensor<i1>) -> {F} {{ {body} }}".encode()


@pytest.mark.parametrize("depth", [300, 1000, 20000])
def test_regions_that_are_nested_too_deep(depth):
    with pytest.raises(CompileError, match=f"more than {MAX_REGION_DEPTH} deep") as error:
        compiler.compile(nested_branches(depth), "mlir", b"", "ipu2:4")
    assert error.value.code == INVALID_ARGUMENT


def test_regions_that_calls_nest_too_deep():
    call = f"""%1 = "stablehlo.if"(%p) ({{
      %0 = CALL
      stablehlo.return %0 : {F}
    }}, {{
      stablehlo.return %x : {F}
    }}) : (tensor<i1>) -> {F}
    return %1 : {F}"""
    assert not refused(nested_calls(20, call))
    with pytest.raises(CompileError, match=f"more than {MAX_REGION_DEPTH} deep"):
        compiler.compile(nested_calls(300, call), "mlir", b"", "ipu2:4")


def test_the_deepest_regions_compile():
    """On a thread like those of jaxlib, whose stack is new."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert not pool.submit(refused, nested_branches(MAX_REGION_DEPTH)).result()


def test_a_stack_that_is_nearly_full():
    def deep(calls):
        return deep(calls - 1) if calls else refused(nested_branches(MAX_REGION_DEPTH))

    assert deep(sys.getrecursionlimit() - 400)
