"""Loops that add up reduce-scatters: the total is scattered once, behind the loop, where memory allows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu.compiler.ir import LOOPS, Block
from jax_ipu.compiler.pipeline import optimize
from support.stages import legal

TRIPS, N = 3, 8
MEMORY = 1 << 29


def scattered(y, dim=0):
    return lax.psum_scatter(y, "a", scatter_dimension=dim, tiled=True)


def loop(step, first=lambda x: jnp.zeros((N // 4, N))):
    """A loop over the carried value, an IPU's part; `step` gets what is summed in a trip, and the value."""
    return lambda x: lax.fori_loop(0, TRIPS, lambda i, s: step(jnp.sin(x * (1 + i)), s), first(x))


def nested(x):
    def outer(i, s):
        return lax.fori_loop(0, 3, lambda j, t: t + scattered(jnp.sin(x * (i + j))), s)

    return lax.fori_loop(0, TRIPS, outer, x[:2])


def unknown_trips(x):
    def trip(state):
        i, s = state
        return i + 1, s + scattered(x * i)

    return lax.while_loop(lambda state: state[0] < lax.pmax(x[0, 0] + 3, "a"), trip, (0.0, x[:2]))[1]


def also_returned(x):
    def trip(s, i):
        part = scattered(jnp.sin(x * i))
        return s + part, part.sum()

    return lax.scan(trip, jnp.zeros((2, N)), jnp.arange(TRIPS, dtype=jnp.float32))[0]


def read_in_loop(x):
    def trip(s, i):
        part = scattered(jnp.sin(x * i))
        return s + part, part.sum()

    total, sums = lax.scan(trip, jnp.zeros((2, N)), jnp.arange(TRIPS, dtype=jnp.float32))
    return total * sums.sum()


# A function of the rows of one IPU, and the reduce-scatters that stay in loops, and those outside.
CASES = {
    "added": (loop(lambda y, s: s + scattered(y)), 0, 1),
    "to another value": (loop(lambda y, s: scattered(y) + s, lambda x: jnp.cos(x[:2])), 0, 1),
    "means": (loop(lambda y, s: s + scattered(y) / 4), 0, 1),
    "subtracted": (loop(lambda y, s: s - scattered(y), lambda x: jnp.cos(x[2:4])), 0, 1),
    "several": (loop(lambda y, s: s + (scattered(y) - 3 * scattered(y * y))), 0, 1),
    "columns": (loop(lambda y, s: s + scattered(y, 1), lambda x: jnp.zeros((N, 2))), 0, 1),
    "transposed": (loop(lambda y, s: s + scattered(y, 1).T), 0, 1),
    "narrow ones": (loop(lambda y, s: s + scattered(y.astype(jnp.bfloat16)).astype(jnp.float32)), 0, 1),
    "nested loops": (nested, 0, 1),
    "an unknown number of trips": (unknown_trips, 0, 1),
    "unused sums": (also_returned, 0, 1),
    "two dimensions": (loop(lambda y, s: s + (scattered(y) + scattered(y, 1).reshape(2, N))), 2, 0),
    "rows and columns": (loop(lambda y, s: s + (scattered(y) + scattered(y, 1).T)), 0, 1),
    "the state is read": (loop(lambda y, s: s + scattered(y * s[0])), 1, 0),
    "the state decays": (loop(lambda y, s: s * 0.5 + scattered(y)), 1, 0),
    "the sum is read": (read_in_loop, 1, 0),
    "squares of sums": (loop(lambda y, s: s + scattered(y) ** 2), 1, 0),
}
X = np.random.default_rng(0).normal(size=(4, N, N)).astype(np.float32) * 0.3


def mapped(function, mesh):
    def of_rows(x):
        return function(x[0])[None]

    return jax.jit(jax.shard_map(of_rows, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False))


def scatters(block: Block, in_loop: bool = False) -> list[bool]:
    """For each reduce-scatter whether it is in a loop."""
    found = []
    for op in block.ops:
        found += [in_loop] if op.name == "reduce_scatter" else []
        for region in op.regions:
            found += scatters(region, in_loop or op.name in LOOPS)
    return found


def places(function, memory=MEMORY):
    mesh = AbstractMesh((4,), ("a",))
    rows = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, P("a")))
    lowered = mapped(function, mesh).trace(rows).lower(lowering_platforms=("ipu",))
    found = scatters(optimize(legal(str(lowered.compiler_ir())), memory).module.main.block)
    return found.count(True), found.count(False)


@pytest.mark.parametrize("case", CASES)
def test_values_and_where_sums_are_scattered(case):
    function, inside, outside = CASES[case]
    results = []
    for platform in ("ipu", "cpu"):
        mesh = Mesh(np.array(jax.devices(platform)[:4]), ("a",))
        results.append(np.asarray(mapped(function, mesh)(jax.device_put(X, NamedSharding(mesh, P("a"))))))
    tolerance = 2e-2 if case == "narrow ones" else 1e-5
    np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)
    assert places(function) == (inside, outside)


def test_a_value_that_would_take_too_much_memory_stays_in_parts():
    function, _, _ = CASES["added"]
    more = 4 * (N * N - N * N // 4)
    assert places(function, 16 * more) == (0, 1)
    assert places(function, 16 * more - 16) == (1, 0)


def test_a_step_over_micro_batches_with_split_weights():
    """The partitioner makes the reduce-scatters, of all-reduces of which each IPU keeps a part."""

    def step(w, xs):
        whole = jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P()))

        def trip(total, x):
            gradient = jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(whole)
            return total + jax.lax.with_sharding_constraint(gradient, split), None

        return w - 0.1 * jax.lax.scan(trip, jnp.zeros_like(w), xs)[0]

    mesh = AbstractMesh((4,), ("a",))
    split, rows = NamedSharding(mesh, P("a", None)), NamedSharding(mesh, P(None, "a", None))
    jitted = jax.jit(step, in_shardings=(split, rows), out_shardings=split)
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((512, 512), (2, 8, 512))]
    lowered = jitted.trace(*shapes).lower(lowering_platforms=("ipu",))
    found = scatters(optimize(legal(str(lowered.compiler_ir())), MEMORY).module.main.block)
    assert found == [False]
