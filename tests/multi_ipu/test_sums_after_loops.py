"""Loops that add up sums over IPUs: the sum is taken once, behind the loop, where nothing else reads it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu.compiler.ir import LOOPS, Block
from jax_ipu.compiler.pipeline import optimize
from support import replicas
from support.modes import close
from support.stages import legal

TRIPS = 5
AXES = ("a", "b")


def loop(step, first):
    """A loop over the carried value; `step` gets what is summed in a trip, and the value."""
    return lambda x: lax.fori_loop(0, TRIPS, lambda i, s: step(jnp.sin(x * (1 + i)), s), first(x))


def zeros(x):
    return jnp.zeros_like(x)


def in_parts(y, s):
    return s + jnp.concatenate([lax.psum(y[:2], AXES).T, lax.psum(y[2:], AXES).T * 0.5], 1).T - lax.psum(y, AXES)


def nested(x):
    def outer(i, s):
        return lax.fori_loop(0, 3, lambda j, t: t + lax.psum(jnp.sin(x * (i + j)), AXES), s)

    return lax.fori_loop(0, TRIPS, outer, x)


def unknown_trips(x):
    def trip(state):
        i, s = state
        return i + 1, s + lax.psum(x * i, AXES)

    return lax.while_loop(lambda state: state[0] < lax.pmax(x.sum(), AXES), trip, (0.0, x))[1]


def small_in_a_large_state(x):
    def trip(state):
        i, s = state
        return i + 1, s + lax.psum(x[0, 0], AXES)

    return lax.while_loop(lambda state: state[0] < lax.pmax(x.sum(), AXES), trip, (0.0, x))[1]


def also_returned(x):
    def trip(s, i):
        total = lax.psum(jnp.sin(x * i), AXES)
        return s + total, total.sum()

    return sum(lax.scan(trip, jnp.zeros_like(x), jnp.arange(TRIPS, dtype=jnp.float32)))


def gradient(x):
    """Of weights that all IPUs share, in a loop over micro-batches."""

    def loss(weights, batch):
        return lax.pmean(jnp.mean(jnp.tanh(batch @ weights) ** 2), AXES)

    def trip(total, batch):
        return total + jax.grad(loss)(weights, batch), None

    weights = jnp.cos(jnp.arange(10.0)).reshape(5, 2)
    return lax.scan(trip, jnp.zeros_like(weights), x.reshape(4, 2, 5))[0]


def integers(x):
    y = (x * 100).astype(jnp.int32)
    return lax.fori_loop(0, TRIPS, lambda i, s: s + 3 * lax.psum(y * i, AXES), y).astype(jnp.float32)


# A function of the rows of one IPU, and the all-reduces that stay in loops, and those outside.
CASES = {
    "added": (loop(lambda y, s: s + lax.psum(y, AXES), zeros), 0, 1),
    "to another value": (loop(lambda y, s: lax.psum(y, AXES) + s, jnp.cos), 0, 1),
    "means": (loop(lambda y, s: s + lax.pmean(y, AXES), zeros), 0, 1),
    "subtracted": (loop(lambda y, s: s - lax.psum(y, AXES), jnp.cos), 0, 1),
    "over one axis": (loop(lambda y, s: s + lax.psum(y, "b"), zeros), 0, 1),
    "in parts": (loop(in_parts, jnp.cos), 0, 1),
    "several": (loop(lambda y, s: s + sum(lax.psum((y, y * y, y + 1), AXES)), zeros), 0, 1),
    "narrow ones": (loop(lambda y, s: s + lax.psum(y.astype(jnp.bfloat16), AXES).astype(jnp.float32), zeros), 0, 1),
    "nested loops": (nested, 0, 1),
    "an unknown number of trips": (unknown_trips, 1, 1),
    "integers": (integers, 0, 1),
    "gradient": (gradient, 0, 1),
    "the state is read": (loop(lambda y, s: s + lax.psum(y * s, AXES), zeros), 1, 0),
    "the state decays": (loop(lambda y, s: s * 0.5 + lax.psum(y, AXES), zeros), 1, 0),
    "taken from": (loop(lambda y, s: lax.psum(y, AXES) - s, zeros), 1, 0),
    "the sum is read": (also_returned, 1, 0),
    "maxima": (loop(lambda y, s: s + lax.pmax(y, AXES), zeros), 1, 0),
    "squares of sums": (loop(lambda y, s: s + lax.psum(y, AXES) ** 2, zeros), 1, 0),
    "by what differs": (loop(lambda y, s: s + y * lax.psum(y, AXES), zeros), 1, 0),
    "two groups": (loop(lambda y, s: s + (lax.psum(y, "a") + lax.psum(y, "b")), zeros), 2, 0),
    "less is summed than carried": (small_in_a_large_state, 2, 0),
}
X = np.random.default_rng(0).normal(size=(16, 2, 5)).astype(np.float32) * 0.3


def mapped(function, mesh):
    """Of the gradient JAX has to know which values differ between IPUs."""

    def of_rows(x):
        return function(x.reshape(8, 5))[None]

    check = function is gradient
    return jax.jit(jax.shard_map(of_rows, mesh=mesh, in_specs=P(AXES), out_specs=P(AXES), check_vma=check))


def all_reduces(block: Block, in_loop: bool = False) -> list[bool]:
    """For each all-reduce whether it is in a loop."""
    found = []
    for op in block.ops:
        found += [in_loop] if op.name == "all_reduce" else []
        for region in op.regions:
            found += all_reduces(region, in_loop or op.name in LOOPS)
    return found


@pytest.mark.parametrize("case", CASES)
def test_values_and_where_sums_are_taken(case):
    function, inside, outside = CASES[case]
    results = []
    for platform in ("ipu", "cpu"):
        mesh = Mesh(np.array(jax.devices(platform)[:4]).reshape(2, 2), AXES)
        results.append(np.asarray(mapped(function, mesh)(jax.device_put(X, NamedSharding(mesh, P(AXES))))))
    tolerance = 2e-2 if case == "narrow ones" else 1e-5
    np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)
    mesh = AbstractMesh((2, 2), AXES)
    rows = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, P(AXES)))
    lowered = mapped(function, mesh).trace(rows).lower(lowering_platforms=("ipu",))
    program = legal(str(lowered.compiler_ir()))
    places = all_reduces(optimize(program, 1 << 29).module.main.block)
    assert (places.count(True), places.count(False)) == (inside, outside)


ACCUMULATION = replicas.program(
    """
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<3> : tensor<i32>
    %x = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<70x3xf32>
    %l:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<70x3xf32>
    cond {
      %less = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<3x70xf32>
      %y = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<3x70xf32>
      %z = stablehlo.multiply %b, %y : tensor<3x70xf32>
      %sum = "stablehlo.all_reduce"(%z) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %pq = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %pq : tensor<f32>
      }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<3x70xf32>) -> tensor<3x70xf32>
      %t = stablehlo.transpose %sum, dims = [1, 0] : (tensor<3x70xf32>) -> tensor<70x3xf32>
      %u = stablehlo.add %t, %s : tensor<70x3xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %u : tensor<i32>, tensor<70x3xf32>
    }
    """,
    ("%l#1", "tensor<70x3xf32>"),
)


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8), ("tile", 1472)], ids=str)
def test_both_modes_against_cpu(mode):
    expected = replicas.run_cpu(ACCUMULATION)
    for mine, others in zip(replicas.run_ipu(ACCUMULATION, mode), expected, strict=True):
        close(mine[0], others[0])
