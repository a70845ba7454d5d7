"""Sums over IPUs of which each keeps a part are reduce-scatters, with the values of the whole sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu

N = 512  # of a matrix that is large enough, as small sums are combined instead


def own_part(total, axis, dim=0, shift=0):
    rows = total.shape[dim] // jax.lax.axis_size(axis)
    return jax.lax.dynamic_slice_in_dim(total, jax.lax.axis_index(axis) * rows + shift, rows, dim)


def transposed(x):
    return own_part(jax.lax.psum(x[0], "a").T, "a")


def in_two_uses(x):
    total = jax.lax.psum(x[0], "a")
    return own_part(total, "a") + 2 * own_part(total, "a")


def in_a_branch(x):
    """Only some IPUs take the branch, so nothing may be sent there."""
    total = jax.lax.psum(x[0], "a")
    return jax.lax.cond(jax.lax.axis_index("a") > 1, lambda: own_part(total, "a"), lambda: x[0, :128] * 2)


def in_a_loop(x):
    total = jax.lax.psum(x[0], "a")
    return jax.lax.fori_loop(0, 3, lambda i, s: s * 0.5 + own_part(total, "a"), x[0, :128])


# A function of the rows of one IPU, how the result is split, and whether the sum is scattered.
CASES = {
    "rows": (lambda x: own_part(jax.lax.psum(x[0], "a"), "a"), P("a"), True),
    "columns": (lambda x: own_part(jax.lax.psum(x[0], "a"), "a", 1), P(None, "a"), True),
    "transposed": (transposed, P("a"), True),
    "two uses": (in_two_uses, P("a"), True),
    "maximum": (lambda x: own_part(jax.lax.pmax(x[0], "a"), "a"), P("a"), True),
    "another part": (lambda x: own_part(jax.lax.psum(x[0], "a"), "a", shift=1), P("a"), False),
    "also whole": (lambda x: (t := jax.lax.psum(x[0], "a")).sum() + own_part(t, "a"), P("a"), False),
    "in a branch": (in_a_branch, P("a"), False),
    "in a loop": (in_a_loop, P("a"), False),
    "small": (lambda x: own_part(jax.lax.psum(x[0, :64, :64], "a"), "a"), P("a"), False),
}
X = np.random.default_rng(0).normal(size=(4, N, N)).astype(np.float32)


ROWS = P("a")


def mapped(function, out, mesh, rows=ROWS):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=rows, out_specs=out, check_vma=False))


def scatters(function, *arguments):
    estimate = jax_ipu.estimate(function, *arguments)
    return "reduce_scatter" in str(estimate)


@pytest.mark.parametrize("case", CASES)
def test_values_and_what_is_sent(case):
    function, out, scattered = CASES[case]
    results = []
    for platform in ("ipu", "cpu"):
        mesh = Mesh(np.array(jax.devices(platform)[:4]), ("a",))
        results.append(np.asarray(mapped(function, out, mesh)(jax.device_put(X, NamedSharding(mesh, P("a"))))))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)
    program = mapped(function, out, AbstractMesh((4,), ("a",)))
    assert scatters(program, jax.ShapeDtypeStruct(X.shape, jnp.float32)) == scattered


def test_groups_of_two_axes():
    results = []
    for platform in ("ipu", "cpu"):
        mesh = Mesh(np.array(jax.devices(platform)[:4]).reshape(2, 2), ("b", "a"))
        function = mapped(lambda x: own_part(jax.lax.psum(x[0], "a"), "a")[None], P("b", "a"), mesh, P(("b", "a")))
        results.append(np.asarray(function(jax.device_put(X, NamedSharding(mesh, P(("b", "a")))))))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_gradients_of_split_weights():
    """A step of training with the batch and the weights split over the IPUs."""

    def step(w, x):
        def loss(w):
            whole = jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P()))
            return (jnp.tanh(x @ whole) ** 2).mean()

        value, gradient = jax.value_and_grad(loss)(w)
        return w - 0.1 * gradient, value

    w, x = X[0] / 20, X[1]
    split = P("a", None)
    mesh = AbstractMesh((4,), ("a",))
    places = NamedSharding(mesh, split)
    jitted = jax.jit(step, in_shardings=(places, places), out_shardings=(places, None))
    assert scatters(jitted, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (w, x)))
    results = []
    for platform, count in (("ipu", 4), ("cpu", 1)):
        mesh = Mesh(np.array(jax.devices(platform)[:count]), ("a",))
        places = NamedSharding(mesh, split)
        jitted = jax.jit(step, in_shardings=(places, places), out_shardings=(places, None))
        results.append([np.asarray(a) for a in jitted(*jax.device_put((w, x), places))])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
