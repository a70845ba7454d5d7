"""ragged_all_to_all between IPUs. XLA:CPU does not have it: the reference is its documentation, in NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.errors import CompileError
from support.modes import each_mode


def expected(operand, output, begins, sizes, destinations, groups):
    """The definition of `jax.lax.ragged_all_to_all`, on arrays whose first dimension is the device."""
    result = output.copy()
    for group in groups:
        per_member = begins.shape[1] // len(group)
        for sender in group:
            for i in range(begins.shape[1]):
                receiver = group[i // per_member]
                begin, size, destination = begins[sender, i], sizes[sender, i], destinations[sender, i]
                result[receiver, destination : destination + size] = operand[sender, begin : begin + size]
    return result


def slices(devices, members, per_member, rows, seed):
    """Disjoint slices of random lengths, some of them empty, from every device to every member of its group.

    Returns the arguments of ragged_all_to_all after the first two, and the number of rows that the fullest device
    receives.
    """
    rng = np.random.default_rng(seed)
    count = members * per_member
    sizes = rng.integers(0, rows // count + 1, (devices, count))
    begins = rng.permuted(np.arange(count))[None] * (rows // count) + np.zeros((devices, 1), int)
    destinations, received = np.zeros_like(sizes), np.zeros_like(sizes)
    fullest = 0
    for first in range(0, devices, members):
        for receiver in range(members):
            row = 0
            for sender in range(members):
                for j in range(per_member):
                    i = receiver * per_member + j
                    destinations[first + sender, i] = row
                    received[first + receiver, sender * per_member + j] = sizes[first + sender, i]
                    row += sizes[first + sender, i]
            fullest = max(fullest, row)
    return [a.astype(np.int32) for a in (begins, sizes, destinations, received)], fullest


def mesh(devices):
    return Mesh(np.array(jax.devices("ipu")[:devices]), ("i",))


def over_ipus(devices, **options):
    """Returns the function of arrays whose first dimension is the device."""

    @partial(jax.shard_map, mesh=mesh(devices), in_specs=P("i"), out_specs=P("i"), check_vma=False)
    def function(*args):
        return lax.ragged_all_to_all(*(a[0] for a in args), axis_name="i", **options)[None]

    return jax.jit(function)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "bool"])
@pytest.mark.parametrize("per_member", [1, 3])
def test_values(dtype, per_member):
    numbers, fullest = slices(4, 4, per_member, 24, seed=per_member)
    operand = np.asarray(jnp.arange(4 * 24 * 5).reshape(4, 24, 5).astype(dtype))
    output = np.asarray(jnp.full((4, fullest + 2, 5), 9).astype(dtype))
    result = over_ipus(4)(operand, output, *numbers)
    assert result.dtype == output.dtype
    np.testing.assert_array_equal(
        np.asarray(result), expected(operand, output, *numbers[:3], groups=[[0, 1, 2, 3]]), strict=True
    )


def test_groups():
    numbers, fullest = slices(4, 2, 2, 12, seed=5)
    operand, output = np.arange(4 * 12.0, dtype=np.float32).reshape(4, 12), np.zeros((4, fullest), np.float32)
    result = over_ipus(4, axis_index_groups=[[0, 1], [2, 3]])(operand, output, *numbers)
    np.testing.assert_array_equal(result, expected(operand, output, *numbers[:3], groups=[[0, 1], [2, 3]]))


def test_one_device():
    numbers, fullest = slices(1, 1, 3, 12, seed=6)
    operand, output = np.arange(12.0, dtype=np.float32)[None], np.zeros((1, fullest + 1), np.float32)
    result = over_ipus(1)(operand, output, *numbers)
    np.testing.assert_array_equal(result, expected(operand, output, *numbers[:3], groups=[[0]]))


@pytest.mark.parametrize("rows, received", [(0, 3), (3, 0)])
def test_no_elements(rows, received):
    nothing = np.zeros((2, 2), np.int32)
    output = np.ones((2, received), np.float32)
    result = over_ipus(2)(np.ones((2, rows), np.float32), output, *[nothing] * 4)
    np.testing.assert_array_equal(result, output)


def test_gradient():
    """Of the operand: the sent rows return, weighted. Of the output: the rows that were not written."""
    numbers, fullest = slices(2, 2, 1, 8, seed=7)
    operand, output = np.ones((2, 8), np.float32), np.ones((2, fullest + 2), np.float32)
    weights = np.arange(1.0, 1 + output.size, dtype=np.float32).reshape(output.shape)
    function = over_ipus(2)
    _, transpose = jax.vjp(lambda x, y: function(x, y, *numbers), operand, output)
    of_operand, of_output = transpose(jax.device_put(weights, NamedSharding(mesh(2), P("i"))))
    begins, sizes, destinations, _ = numbers
    want_operand, want_output = np.zeros_like(operand), weights.copy()
    for sender in range(2):
        for i in range(2):
            to, n = slice(destinations[sender, i], destinations[sender, i] + sizes[sender, i]), sizes[sender, i]
            want_operand[sender, begins[sender, i] : begins[sender, i] + n] += weights[i, to]
            want_output[i, to] = 0
    np.testing.assert_array_equal(of_operand, want_operand)
    np.testing.assert_array_equal(of_output, want_output)


PROGRAM = """
module @m attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = {partitions} : i32}} {{
  func.func @main(%a: tensor<6x2xf32>, %b: tensor<7x2xf32>, %begin: tensor<4xi64>, %size: tensor<4xi64>,
                  %to: tensor<4xi64>, %received: tensor<4xi64>) -> tensor<7x2xf32> {{
    %0 = stablehlo.custom_call @ragged_all_to_all(%a, %b, %begin, %size, %to, %received) {{api_version = 4 : i32,
      backend_config = {{{channel}replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}}}} : (tensor<6x2xf32>,
      tensor<7x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) -> tensor<7x2xf32>
    return %0 : tensor<7x2xf32>
  }}
}}"""


@each_mode
def test_both_execution_modes(mode):
    """Replicas without a channel, in another order than their numbers, with s64 offsets and sizes."""
    execution, tiles = mode
    numbers, _ = slices(2, 2, 2, 6, seed=8)
    numbers = [n.astype(np.int64) for n in numbers]
    operand = np.arange(24, dtype=np.float32).reshape(2, 6, 2)
    output = -np.ones((2, 7, 2), np.float32)
    executable = compiler.compile(
        PROGRAM.format(replicas=2, partitions=1, channel="").encode(), "mlir", b"", f"ipu2:{tiles}"
    )
    # Replica 1 is the group's first member.
    arguments = [[a[1 - replica].tobytes() for a in (operand, output, *numbers)] for replica in range(2)]
    results = _ipu.run_replicas(executable, arguments, execution)
    actual = np.stack([np.frombuffer(results[1 - member][0], np.float32).reshape(7, 2) for member in range(2)])
    np.testing.assert_array_equal(actual, expected(operand, output, *numbers[:3], groups=[[0, 1]]))


def test_cost_has_the_bytes_between_ipus():
    function = over_ipus(4)
    numbers = [np.zeros((4, 4), np.int32)] * 4
    costs = [
        function.lower(np.zeros((4, rows, 16), np.float32), np.zeros((4, 8, 16), np.float32), *numbers)
        .compile()
        .cost_analysis()["link bytes"]
        for rows in (8, 16)
    ]
    # Every IPU receives the rows of three others.
    assert costs[1] - costs[0] == 3 * 8 * 16 * 4


def test_replicas_and_partitions_are_refused():
    with pytest.raises(CompileError, match=r"ragged_all_to_all.*both replicas and partitions; use shard_map"):
        compiler.compile(
            PROGRAM.format(replicas=2, partitions=2, channel="channel_id = 1 : i64, ").encode(), "mlir", b"", "ipu2:8"
        )
