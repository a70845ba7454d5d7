"""jit over sharded arrays: values and shardings as on CPU devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.devices import compare
from support.modes import array


def over_mesh(function, *specs, shape=(2, 2), reverse=False, **options):
    """Places the arguments by `specs` over a mesh with axes a and b, then runs the jitted function."""

    def build(devices):
        mesh = Mesh(np.array(devices[::-1] if reverse else devices).reshape(shape), ("a", "b"))
        places = [NamedSharding(mesh, spec) for spec in specs]
        jitted = jax.jit(function, **{k: NamedSharding(mesh, v) for k, v in options.items()})
        return lambda *args: jitted(*[jax.device_put(v, p) for v, p in zip(args, places, strict=True)])

    return build


@pytest.mark.parametrize("left", [P("a"), P(None, "b"), P("a", "b"), P(("a", "b")), P()], ids=str)
@pytest.mark.parametrize("right", [P("a"), P(None, "b"), P()], ids=str)
def test_matmul(left, right):
    compare(over_mesh(lambda x, w: x @ w, left, right), array(16, 12), array(12, 8, seed=1))


PROGRAMS = {
    "reductions": lambda x: (x.sum(), x.max(0), jnp.argmax(x), x.mean(1)),
    "sort": lambda x: jnp.sort(x, 0),
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "softmax": lambda x: jax.nn.softmax(x @ x.T),
    "uneven slice": lambda x: x[:7] * 2,
    "roll": lambda x: jnp.roll(x, 1, 0),
    "transpose": lambda x: x.T + 1,
    "gather": lambda x: x[jnp.array([3, 1, 15])],
    "scatter": lambda x: x.at[3:5].set(1.0),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (x.argmax() % 5, 0), (3, 4)),
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x),
    "while": lambda x: lax.while_loop(lambda v: v.sum() < 100, lambda v: v + 1, x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda v: v + 1, lambda v: v.max(0, keepdims=True) + v, x),
    "concatenate": lambda x: jnp.concatenate([x, x[:3]]),
    "convolution": lambda x: jnp.convolve(x[:, 0], x[0]),
    "reshape": lambda x: x.reshape(-1),
    "random": lambda x: jax.random.normal(jax.random.key(0), x.shape) + x,
    "gradient": jax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T) ** 2)),
    "error function": lax.erf,
    "largest of each row": lambda x: lax.top_k(x, 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    compare(over_mesh(PROGRAMS[name], P("a", "b")), array(16, 12), rtol=2e-4, atol=2e-4)


def update_slice(x, place):
    return lax.dynamic_update_slice_in_dim(x, x[:2], place, 0)


def scatter(x, place):
    return x.at[place % 5 + jnp.array([0, 2])].add(x[:2])


@pytest.mark.parametrize("update", [update_slice, scatter])
@pytest.mark.parametrize("columns", [8, 5])
def test_updates_over_what_ipus_sent(update, columns):
    """Rows whose parts lie in several variables, because they came from several IPUs, are copied before an update."""

    def build(devices):
        mesh = Mesh(np.array(devices), ("a",))
        by_column, by_row = NamedSharding(mesh, P(None, "a")), NamedSharding(mesh, P("a"))

        def step(x):
            x = lax.with_sharding_constraint(x, by_column)
            return lax.with_sharding_constraint(update(x, jnp.argmin(x[:, 0])), by_row)

        return jax.jit(step)

    compare(build, array(12, columns))


CALLBACKS = {
    "debug": lambda record, x: jax.debug.callback(record, x),
    "no results": lambda record, x: io_callback(record, None, x),
    "ordered": lambda record, x: io_callback(record, None, x, ordered=True),
    "result": lambda record, x: io_callback(record, jax.ShapeDtypeStruct((), jnp.float32), x),
    "ordered result": lambda record, x: io_callback(record, jax.ShapeDtypeStruct((), jnp.float32), x, ordered=True),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_callback_is_called_once_with_the_whole_array(name):
    seen = []

    def record(x):
        seen.append(np.asarray(x))
        return np.float32(3) if "result" in name.split() else None

    program = over_mesh(lambda x: CALLBACKS[name](record, x * 2), P("a", "b"))
    result = program(jax.devices("ipu")[:4])(array(16, 12))
    jax.block_until_ready(result)
    jax.effects_barrier()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], array(16, 12) * 2)
    assert result is None or float(result) == 3


def test_callback_with_shards():
    """Every device calls it with its part of each operand; replicated operands are whole."""
    seen = []

    def record(*shards):
        seen.append(shards)

    def program(x, scale, key):
        jax.debug.callback(record, x * scale, x.sum(1), scale, x[:0], key, partitioned=True)

    x, key = array(16, 12), jax.random.key(3)
    over_mesh(program, P("a", "b"), P(), P())(jax.devices("ipu")[:4])(x, np.float32(2), key)
    jax.effects_barrier()
    expected = {(i, j): 2 * x[i * 8 : (i + 1) * 8, j * 6 : (j + 1) * 6] for i in range(2) for j in range(2)}
    for product, total, scale, empty, shard_key in seen:
        at = next(k for k, v in expected.items() if np.array_equal(product, v))
        del expected[at]
        np.testing.assert_allclose(total, x.sum(1)[at[0] * 8 : at[0] * 8 + 8], rtol=1e-5, atol=1e-5)
        assert scale == 2 and empty.shape[0] == 0 and np.array_equal(np.asarray(shard_key).ravel(), [0, 3])
    assert not expected


def test_ordered_callback_with_shards_is_refused():
    program = over_mesh(lambda x: jax.debug.callback(print, x, partitioned=True, ordered=True), P("a"))
    with pytest.raises((NotImplementedError, ValueError), match=r"jax\.shard_map|[Oo]rdered"):
        program(jax.devices("ipu")[:4])(array(16, 12))


def test_cholesky_of_a_sharded_matrix():
    """XLA partitions the CPU's operation, but gathers the matrix for this one: only the values are equal."""
    spd = array(16, 16) @ array(16, 16).T + 20 * np.eye(16, dtype=np.float32)
    mesh = Mesh(np.array(jax.devices("ipu")[:4]).reshape(2, 2), ("a", "b"))
    result = jax.jit(jnp.linalg.cholesky)(jax.device_put(spd, NamedSharding(mesh, P("a", "b"))))
    np.testing.assert_allclose(result, np.linalg.cholesky(spd), rtol=1e-4, atol=1e-5)


DECOMPOSITIONS = {
    "lu": lambda x: lax.linalg.lu(x)[0],
    "qr": jnp.linalg.qr,
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "eigh": lambda x: jnp.linalg.eigh(x + x.mT)[0],
    "eigvals": jnp.linalg.eigvals,
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.parametrize("explicit", [False, True], ids=["manual", "explicit"])
def test_decomposition_of_a_batch_over_ipus(name, explicit):
    decompose, x = DECOMPOSITIONS[name], array(4, 5, 5)
    kind = AxisType.Explicit if explicit else AxisType.Auto
    mesh = jax.make_mesh((2,), ("a",), axis_types=(kind,), devices=jax.devices("ipu")[:2])
    program = decompose if explicit else jax.shard_map(decompose, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    with jax.set_mesh(mesh):
        result = jax.jit(program)(jax.device_put(x, NamedSharding(mesh, P("a"))))
    with jax.default_device(jax.devices("cpu")[0]):
        expected = decompose(x)
    for got, want in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shardy", [True, False])
@pytest.mark.parametrize("name", ["hessenberg", "lu", "qr", "tridiagonal"])
def test_decompositions_gather_a_matrix_once_and_leave_batches_where_they_are(name, shardy):
    function = getattr(lax.linalg, name)
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("a",))
    rows = NamedSharding(mesh, P("a"))
    x = array(8, 8) @ array(8, 8).T
    batch = np.stack([x + k * np.eye(8, dtype=np.float32) for k in range(4)])
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        for value, moved in ((x, 3 * x.nbytes // 4), (batch, 0)):
            compiled = jax.jit(function).lower(jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=rows)).compile()
            assert compiled.cost_analysis()["link bytes"] == moved
            expected = jax.jit(function, backend="cpu")(value)
            for a, e in zip(
                jax.tree.leaves(compiled(jax.device_put(value, rows))), jax.tree.leaves(expected), strict=True
            ):
                np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-4)
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


ITERATIONS = {
    "eig": lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False),
    "eigh": jnp.linalg.eigh,
    "eigh in a mapped function": jax.vmap(jnp.linalg.eigh),
    "schur": lax.linalg.schur,
    "svd": jnp.linalg.svd,
    "tangent of eigh": lambda x: jax.jvp(jnp.linalg.eigh, (x,), (jnp.ones_like(x),)),
}


@pytest.mark.parametrize("size", [6, 14])
@pytest.mark.parametrize("name", ITERATIONS)
def test_ipus_iterate_on_their_own_parts_of_a_batch(name, size):
    """Nothing is sent between IPUs, even if the parts need different numbers of steps; one IPU gives equal results."""
    half = array(4, size, size)
    x = half + half.mT + 3 * np.diag(np.arange(size, dtype=np.float32))
    x[1] = np.diag(np.arange(size))
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("a",))
    x = jax.device_put(x, NamedSharding(mesh, P("a")))
    compiled = jax.jit(ITERATIONS[name]).lower(x).compile()
    assert compiled.cost_analysis()["link bytes"] == 0
    assert "all-" not in compiled.as_text()
    expected = jax.jit(ITERATIONS[name])(jax.device_put(x, jax.devices("ipu")[0]))
    for got, want in zip(jax.tree.leaves(compiled(x)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_shardy_and_gspmd():
    function = over_mesh(lambda x, w: jnp.tanh(x @ w).sum(0), P("a", "b"), P("b"))
    before = jax.config.jax_use_shardy_partitioner
    try:
        for shardy in (True, False):
            jax.config.update("jax_use_shardy_partitioner", shardy)
            compare(function, array(16, 12), array(12, 8, seed=1))
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def test_reversed_mesh_and_submesh():
    program = over_mesh(lambda x: x @ x.T, P("a", "b"), reverse=True)
    compare(program, array(8, 8))
    result = compare(over_mesh(lambda x: x + 1, P("a"), shape=(2, 1), reverse=True), array(4, 3), count=2)
    assert [d.id for d in result.sharding.mesh.devices.ravel()] == [1, 0]
    upper = Mesh(np.array(jax.devices("ipu")[6:8]), ("d",))
    x = jax.device_put(np.arange(4.0, dtype=np.float32), NamedSharding(upper, P("d")))
    assert float(jax.jit(jnp.sum)(x)) == 6


def test_constraint_and_output_shardings():
    devices = np.array(jax.devices("ipu")[:4]).reshape(2, 2)
    mesh = Mesh(devices, ("a", "b"))
    place = NamedSharding(mesh, P(None, "b"))
    x = jax.device_put(array(4, 6), NamedSharding(mesh, P("a")))
    result = jax.jit(lambda v: lax.with_sharding_constraint(v * 2, place))(x)
    assert result.sharding.is_equivalent_to(place, 2)
    np.testing.assert_array_equal(result, array(4, 6) * 2)
    fixed = jax.jit(lambda v: v + 1, out_shardings=NamedSharding(mesh, P("b", "a")))(x)
    assert fixed.sharding.is_equivalent_to(NamedSharding(mesh, P("b", "a")), 2)
    np.testing.assert_array_equal(fixed, array(4, 6) + 1)


def test_donated_state_stays_on_every_ipu():
    """Data-parallel training: weights and momentum are resident; only the batch crosses the host link."""
    devices = jax.devices("ipu")[:4]
    mesh = Mesh(np.array(devices), ("batch",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))

    def step(state, x, y):
        w, momentum = state
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        momentum = 0.9 * momentum + gradient
        return (w - 0.01 * momentum, momentum), loss

    jitted = jax.jit(step, donate_argnums=0)
    x, y = array(32, 16), array(32, 4, seed=1)
    expected = state = (array(16, 4, seed=2), np.zeros((16, 4), np.float32))
    state = jax.device_put(state, everywhere)
    losses = []
    for i in range(6):
        batch = jax.device_put((x, y), split)
        if i == 2:
            jax.block_until_ready(state)
            before = [jax_ipu.counters(d) for d in devices]
        state, loss = jitted(state, *batch)
        losses.append(loss)
    jax.block_until_ready(state)
    moved = [
        (c.h2d_bytes - b.h2d_bytes, c.d2h_bytes - b.d2h_bytes)
        for c, b in zip(map(jax_ipu.counters, devices), before, strict=True)
    ]
    assert moved == [(4 * (8 * 16 + 8 * 4) * 4, 4 * 4)] * 4
    for value in losses:
        expected, wanted = jax.jit(step, backend="cpu")(expected, x, y)
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_allclose(state[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [3, 12])
@pytest.mark.parametrize("known", [True, False], ids=["shardings given", "shardings inferred"])
def test_sharded_states_change_places_on_every_ipu(count, known):
    devices = jax.devices("ipu")[:4]
    mesh = Mesh(np.array(devices), ("d",))
    places = [NamedSharding(mesh, spec) for spec in (P("d"), P(None, "d"), P())] * count
    n = len(places)
    values = [array(8, 4, seed=i) for i in range(n)]
    options = {"in_shardings": tuple(places), "out_shardings": places[::-1]} if known else {}
    step = jax.jit(lambda *s: [s[i] + i for i in reversed(range(n))], donate_argnums=range(n), **options)
    other = jax.jit(lambda x: x * 2)
    states = [jax.device_put(v, p) for v, p in zip(values, places, strict=True)]
    to = np.arange(n).reshape(count, 3)[np.random.default_rng(count).permutation(count)].reshape(-1)
    # The bytes of the states of 128 bytes on one IPU.
    resident = count * (32 + 32 + 128)
    for call in range(5):
        before = [jax_ipu.counters(d) for d in devices]
        results = jax.block_until_ready(step(*states))[::-1]
        counters = zip([jax_ipu.counters(d) for d in devices], before, strict=True)
        moved = [(c.h2d_bytes - b.h2d_bytes, c.d2h_bytes - b.d2h_bytes) for c, b in counters]
        assert moved == [(resident if call in (0, 3) else 0, 0)] * 4
        values = [v + np.float32(i) for i, v in enumerate(values)]
        states, values = [results[i] for i in to], [values[i] for i in to]
        if call == 2:
            jax.block_until_ready(other(jax.device_put(array(4), NamedSharding(mesh, P()))))
    for state, value in zip(states, values, strict=True):
        np.testing.assert_array_equal(state, value)


def test_sharded_state_is_donated_without_known_output_shardings():
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), ("d",))
    x = jax.device_put(array(8, 4), NamedSharding(mesh, P("d")))
    result = jax.jit(lambda v: v * 2, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(result, array(8, 4) * 2)


def test_results_with_layouts_of_their_own():
    sharding = NamedSharding(Mesh(np.array(jax.devices("ipu")[:2]), "a"), P("a"))
    rows, columns = [Format(Layout(major_to_minor=order), sharding) for order in ((0, 1), (1, 0))]

    @jax.jit(out_shardings=(Format(Layout.AUTO, sharding), columns))
    def f(x):
        return lax.with_sharding_constraint(x.T, rows), x + 1

    y, z = f(jax.device_put(array(8, 4), sharding))
    assert z.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(y, array(8, 4).T)
    np.testing.assert_array_equal(z, array(8, 4) + 1)


DONATED = [(lambda x: x + 1, 1, "{}: (0, "), (lambda x, y: (x + 1, -y), 2, "{0}: (0, {}, may-alias), {1}: (1, ")]


@pytest.mark.parametrize(("function", "count", "aliases"), DONATED)
def test_text_of_a_program_names_the_results_that_replace_arguments(function, count, aliases):
    sharding = NamedSharding(Mesh(np.array(jax.devices("ipu")[:2]), "a"), P("a"))
    x = jax.device_put(array(8, 2), sharding)
    step = jax.jit(function, donate_argnums=range(count), out_shardings=sharding)
    assert f"input_output_alias={{ {aliases}" in step.lower(*[x] * count).compile().as_text()


@pytest.mark.parametrize(("function", "kept"), [(lambda x: x @ x.T, True), (lambda x: x.reshape(-1) + 1, False)])
def test_donation_is_undone_when_no_result_has_the_size(function, kept):
    mesh = Mesh(np.array(jax.devices("ipu")[:2]), "a")
    x = jax.device_put(array(8, 2), NamedSharding(mesh, P("a")))
    jax.block_until_ready(jax.jit(function, donate_argnums=0)(x))
    assert x.is_deleted() != kept


def test_cost_counts_the_links():
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("d",))
    x = jax.device_put(array(64, 256), NamedSharding(mesh, P(None, "d")))
    w = jax.device_put(array(256, 64), NamedSharding(mesh, P("d")))
    cost = jax.jit(lambda x, w: x @ w).lower(x, w).compile().cost_analysis()
    # Each IPU receives three quarters of the result twice: first parts to reduce, then reduced parts.
    assert cost["link bytes"] == 2 * 3 / 4 * 64 * 64 * 4
