"""What XLA's partitioner does not split correctly: values as those of the program that is not split."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.frontend import xla_process
from support.modes import array

WIDE = array(8, 6, 4)
NUMBERS = np.random.default_rng(0).integers(-8, 9, (16, 6, 2)).astype(np.float32)


def pooling_gradient(op, initial, windows, strides, padding):
    """The gradient of pooling by `lax.reduce_window`; several windows may have the same largest element."""

    def gradient(x):
        def pool(x):
            return lax.reduce_window(x, x.dtype.type(initial), op, windows, strides, padding)

        return jax.vjp(pool, x)[1](pool(x))[0]

    return gradient


MAXIMUM, MINIMUM = (lax.max, -np.inf), (lax.min, np.inf)
# Name -> a function, and its first argument, which is split along its first dimension; others are whole.
PROGRAMS = {
    "windows that overlap": (pooling_gradient(*MAXIMUM, (2, 1, 1), (1, 1, 1), "VALID"), NUMBERS),
    "windows that overlap, smallest elements": (pooling_gradient(*MINIMUM, (3, 2, 1), (1, 2, 1), "SAME"), NUMBERS),
    "windows that overlap, f16": (
        pooling_gradient(*MAXIMUM, (2, 2, 2), (1, 1, 1), "VALID"),
        NUMBERS.astype(np.float16),
    ),
    "windows of three, steps of two": (pooling_gradient(*MAXIMUM, (3, 3, 1), (2, 2, 1), "SAME"), NUMBERS),
    "windows beside each other": (pooling_gradient(*MAXIMUM, (2, 2, 1), (2, 2, 1), "VALID"), NUMBERS),
    "an update beyond the end": (lambda x: lax.dynamic_update_slice(x, x[:2] + 1, (7, 0, 0)), WIDE),
    "an update before the start": (
        lambda x, i: lax.dynamic_update_slice(x, x[:2] + 1, (i - 9, i, i)),
        WIDE,
        np.int32(2),
    ),
    "a slice beyond the end": (lambda x, i: lax.dynamic_slice(x, (i, i, i), (3, 2, 4)), WIDE, np.int32(7)),
    "positions of 8 bits without a sign": (
        lambda x, i: lax.dynamic_slice(x, (i, i, i), (3, 2, 4)),
        WIDE,
        np.uint8(200),
    ),
    "positions of 8 bits": (lambda x, i: lax.dynamic_slice(x, (i, i, i), (3, 2, 4)), WIDE, np.int8(3)),
    "indices of 16 bits": (lambda x, i: lax.gather(x, i, *_ROWS), WIDE, np.array([[1], [6], [200]], np.uint16)),
    "scattered by indices of 8 bits": (
        lambda x, i: lax.scatter_add(x, i, x[:3], lax.ScatterDimensionNumbers((1, 2), (0,), (0,))),
        WIDE,
        np.array([[1], [-6], [7]], np.int8),
    ),
    "joined with nothing": (lambda x: jnp.concatenate([jnp.concatenate([x, x[:1]]), x[:0]]), WIDE[:, 0, 0]),
    "padded by less than nothing": (lambda x: lax.pad(x, 0.0, [(-1, -2, 1), (0, 0, 0), (-1, 3, 2)]), WIDE),
}
_ROWS = (lax.GatherDimensionNumbers((1, 2), (0,), (0,)), (1, 6, 4))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, count):
    function, split, *whole = PROGRAMS[name]
    expected = jax.jit(function, backend="cpu")(split, *whole)
    mesh = Mesh(np.array(jax.devices("ipu")[:count]), ("a",))
    actual = jax.jit(function)(jax.device_put(split, NamedSharding(mesh, P("a"))), *whole)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6, atol=1e-6)


# XLA checks the window of what is split, and ends its process.
ENDS = """
module @ends attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func public @main(%0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<14xf32> {
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = "stablehlo.reduce_window"(%0, %1) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {window_dimensions = array<i64: 1>, base_dilations = array<i64: 2>, padding = dense<[[-1, 0]]> : tensor<1x2xi64>}
      : (tensor<8xf32>, tensor<f32>) -> tensor<14xf32>
    return %2 : tensor<14xf32>
  }
}
"""


def test_the_end_of_the_partitioner_is_an_error():
    """Not the end of this process, which goes on to compile other programs."""
    with pytest.raises(
        compiler.CompileError, match="XLA cannot partition the program: its partitioner stopped with Check"
    ):
        compiler.compile(ENDS.encode(), "mlir", b"", "ipu2:8")
    compiler.compile(ENDS.replace("-1, 0", "0, -1").replace('[{"a"}]', "[{}]").encode(), "mlir", b"", "ipu2:8")


# XLA knows no such op.
DYNAMIC = """
module @dynamic attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func public @main(%0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
    %1 = stablehlo.constant dense<8> : tensor<1xi32>
    %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %3 = stablehlo.dynamic_reshape %2, %1 : (tensor<?xf32>, tensor<1xi32>) -> tensor<8xf32>
    %4 = stablehlo.add %0, %3 : tensor<8xf32>
    return %4 : tensor<8xf32>
  }
}
"""


def test_dynamic_shapes_are_split():
    executable = compiler.compile(DYNAMIC.encode(), "mlir", b"", "ipu2:8")
    halves = [[np.full(4, n, np.float32).tobytes()] for n in (1, 2)]
    results = np.array([np.frombuffer(each[0], np.float32) for each in _ipu.run_replicas(executable, halves)])
    whole = np.arange(8) + np.repeat([1, 2], 4)
    assert np.array_equal(results.reshape(-1), whole) or np.array_equal(results, [whole, whole])


def test_a_process_that_ended_while_it_waited_is_replaced():
    program = ENDS.replace('[{"a"}]', "[{}]").encode()
    compiler.compile(program, "mlir", b"", "ipu2:8")
    for process in xla_process._idle:
        process._process.kill()
        process._process.wait()
    compiler.compile(program, "mlir", b"", "ipu2:8")


def test_processes_are_used_again():
    """The first program starts a process, the others go on with it."""
    program = ENDS.replace('[{"a"}]', "[{}]").encode()
    compiler.compile(program, "mlir", b"", "ipu2:8")
    before = list(xla_process._idle)
    compiler.compile(program, "mlir", b"", "ipu2:8")
    assert before and xla_process._idle == before
