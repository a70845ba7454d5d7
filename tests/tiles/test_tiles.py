"""jax_ipu.tile: arrays on named tiles and vertices there, in every execution mode, against the reference on CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, estimate, report, tile
from support import processes
from support.modes import array, check, each_mode, run_ipu
from support.tile_programs import add_to_p, demo_p

ipu = jax.devices("ipu")[0]
TILES = (5, 0, 3)


def demo(x):
    first, second = tile.tile_map(demo_p, tile.tile_put_sharded(x, TILES), scale_value=1.25)
    return first.array, second.array


def in_a_loop(acc, x):
    def step(_, carried):
        acc, total = carried
        acc, first = tile.tile_map(add_to_p, acc, x_on_tiles)
        return acc, total + first.array

    x_on_tiles = tile.tile_put_replicated(x, TILES)
    acc, total = jax.lax.fori_loop(0, 4, step, (tile.tile_put_sharded(acc, TILES), jnp.zeros(3, np.float32)))
    return acc.array, total


def keeps_the_operand(acc, x):
    before = tile.tile_put_sharded(acc, TILES)
    after, _ = tile.tile_map(add_to_p, before, tile.tile_put_sharded(x, TILES))
    again, _ = tile.tile_map(add_to_p, after, after)
    return before.array, after.array, again.array


def other_tiles(x):
    """Parts move between tiles, through ordinary operations, and take part in a product."""
    a = tile.tile_put_sharded(x, TILES)
    b = tile.tile_gather(a, (2, 2, 0, 1), tiles=(7, 1, 2, 4))
    c = tile.tile_put_sharded(jnp.sin(b.array) @ jnp.ones((x.shape[-1], 4), x.dtype), (4, 4, 0, 1))
    d = tile.tile_map(jax.lax.mul_p, c, tile.tile_gather(c, (3, 2, 1, 0), (4, 4, 0, 1)))
    return b.array, d.array, tile.tile_gather(a, range(3), TILES, copy=True).array


def constants(x):
    a = tile.tile_constant_sharded(np.arange(12, dtype=np.float32).reshape(3, 4), TILES)
    b = tile.tile_constant_replicated(np.float32([1, 2, 3, 4]), TILES)
    c = tile.tile_map(jax.lax.add_p, tile.tile_map(jax.lax.mul_p, a, b), tile.tile_put_sharded(x, TILES))
    filled = tile.tile_fill((4,), 2.5, np.float32, TILES)
    return tile.tile_map(jax.lax.sub_p, *tile.tile_barrier(c, filled)).array, tile.tile_copy(c).array


def in_branches(x):
    on_tiles = tile.tile_put_sharded(x, TILES)
    chosen = jax.lax.cond(
        x[0, 0] > 0,
        lambda a: tile.tile_map(jax.lax.sin_p, a),
        lambda a: tile.tile_map(tile.mul_inplace_p, a, a),
        on_tiles,
    )
    return chosen.array, on_tiles.array


PROGRAMS = {
    "demo": (demo, (array(3, 4, 6),)),
    "demo_f16": (demo, (array(3, 4, 6, dtype="float16", low=0.1, high=1.0),)),
    "in_a_loop": (in_a_loop, (array(3, 5), array(5, seed=1))),
    "keeps_the_operand": (keeps_the_operand, (array(3, 5), array(3, 5, seed=1))),
    "other_tiles": (other_tiles, (array(3, 4),)),
    "in_branches": (in_branches, (array(3, 4),)),
    "in_other_branch": (in_branches, (-np.abs(array(3, 4)),)),
    "constants": (constants, (array(3, 4),)),
}


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, mode):
    function, args = PROGRAMS[name]
    check(function, *args, mode=mode)


UNARY = ("abs", "ceil", "cos", "exp", "expm1", "floor", "is_finite", "logistic", "neg", "sign", "sin", "square", "tan")
UNARY_POSITIVE = ("cbrt", "log", "log1p", "rsqrt", "sqrt", "tanh", "erf")
BINARY = ("add", "atan2", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul", "ne", "sub")


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_elementwise_primitives(dtype, mode):
    """One program, so that its codelets are compiled once."""

    def f(x, y, positive):
        on = [tile.tile_put_sharded(v, TILES) for v in (x, y, positive)]
        results = [tile.tile_map(getattr(jax.lax, f"{name}_p"), on[0]) for name in UNARY]
        results += [tile.tile_map(getattr(jax.lax, f"{name}_p"), on[2]) for name in UNARY_POSITIVE]
        results += [tile.tile_map(getattr(jax.lax, f"{name}_p"), *on[:2]) for name in BINARY]
        results.append(tile.tile_map(jax.lax.pow_p, on[2], on[1]))
        less = tile.tile_map(jax.lax.lt_p, on[0], on[1])
        results.append(tile.tile_map(jax.lax.select_n_p, less, on[0], on[1]))
        return [r.array for r in results]

    x, y = array(3, 7, dtype=dtype), array(3, 7, dtype=dtype, seed=1)
    x[0, 0] = y[0, 0]
    check(f, x, y, array(3, 7, dtype=dtype, low=0.5, high=2.0), mode=mode)


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
def test_array_primitives(mode):
    def f(x, y, scale, rows, updates, bits):
        x, y, scale, rows, updates, bits = (tile.tile_put_sharded(v, TILES) for v in (x, y, scale, rows, updates, bits))
        results = [
            tile.tile_map(tile.scaled_add_p, x, y, scale),
            tile.tile_map(tile.scaled_sub_p, x, y, scale),
            tile.tile_map(tile.gather_rows_p, x, rows),
            tile.tile_map(tile.scatter_rows_p, x, rows, updates),
            tile.tile_map(tile.scatter_add_rows_p, x, rows, updates),
            tile.tile_map(tile.mul_inplace_p, x, y),
            tile.tile_map(tile.exp_inplace_p, x),
            tile.tile_map(jax.lax.cumsum_p, x),
            tile.tile_map(jax.lax.cummax_p, x, axis=1, reverse=True),
            tile.tile_map(jax.lax.cumprod_p, x, axis=1),
            tile.tile_map(jax.lax.reduce_sum_p, x, axes=(1,)),
            tile.tile_map(jax.lax.reduce_max_p, x, axes=(0,)),
            tile.tile_map(jax.lax.reduce_min_p, x, axes=(0, 1)),
            tile.tile_map(jax.lax.and_p, bits, bits),
            tile.tile_map(jax.lax.xor_p, bits, tile.tile_map(jax.lax.neg_p, bits)),
        ]
        return [r.array for r in results]

    rows = np.array([[3, 0], [1, -1], [2, 3]], np.int32)
    args = array(3, 4, 3), array(3, 4, 3, seed=1), array(3, 1), rows, array(3, 2, 3, seed=2), array(3, 4, dtype="int32")
    check(f, *args, mode=mode)


def test_parts_lie_where_the_user_says():
    """Of a compiled program: each variable that holds an array on tiles has part i, in one run, on tiles[i]."""
    graph = _ipu.Graph(_ipu.Target("ipu2", 8))
    tensor = graph.add_variable("f32", (3, 2, 2), "x")
    _ipu.map_to_tiles(graph, tensor, TILES)
    assert graph.get_tile_mapping(tensor)[:6] == [[(4, 8)], [], [], [(8, 12)], [], [(0, 4)]]
    assert _ipu.is_on_tiles(graph, tensor, TILES)
    assert _ipu.is_on_tiles(graph, tensor.reshape((3, 4)), TILES)
    assert not _ipu.is_on_tiles(graph, tensor, (5, 3, 0))
    assert not _ipu.is_on_tiles(graph, tensor.dim_shuffle((0, 2, 1)), TILES)
    assert not _ipu.is_on_tiles(graph, tensor.reverse(1), TILES)


def test_one_superstep_of_one_vertex_on_each_tile():
    """Operands that are on their tiles are not exchanged, and the state is updated in place: no copy."""
    x = np.ones((8, 64), np.float32)

    def step(acc, x):
        tiles = tuple(range(8))
        acc, first = tile.tile_map(add_to_p, tile.tile_put_sharded(acc, tiles), tile.tile_put_sharded(x, tiles))
        return acc.array, first.array

    report = estimate(step, x, x, target="ipu2:8", donate_argnums=0)
    (operation,) = [o for o in report.operations if o.kind == "poplar::execute"]
    assert operation.tiles == 8 and operation.executions == 1 and operation.exchange_bytes == 0
    assert operation.sync_cycles == 0
    assert operation.codelets == ("AddTo<float> (cycles: from the compiled loop)",)
    assert [o.kind for o in report.operations] == ["poplar::execute"]


def test_a_superstep_of_vertices_has_the_line_that_it_comes_from():
    def double(x):
        put = tile.tile_put_sharded(x, tuple(range(8)))
        return tile.tile_map(add_to_p, put, put)[1].array

    rows = report(double, np.ones((8, 64), np.float32), target="ipu2:8").as_dict()["operations"]
    (row,) = [row for row in rows if row["kind"] == "poplar::execute"]
    assert row["line"] is not None and row["scope"].startswith("jit(double)"), row


@pytest.mark.parametrize("sync", [False, True])
def test_cycles_are_those_of_the_vertex(sync):
    def f(x):
        x, start = tile.ipu_cycle_count(tile.tile_put_sharded(x, TILES))
        first, _ = tile.tile_map(demo_p, x, scale_value=2.0)
        first, end = tile.ipu_cycle_count(first, sync=sync)
        return first.array, start.array, end.array

    overhead = tile.ipu_cycle_count_overhead()
    for mode in (("fast", 8), ("tile", 8)):
        _, start, end = run_ipu(f, (array(3, 4, 6),), mode)
        assert start.dtype == np.uint32 and start.shape == (3, 2)
        assert (start == start[0]).all() and (end == end[0]).all()
        # The vertex has an estimate of 12 cycles for each of 24 elements; one worker of six runs it.
        assert end[0, 0] - start[0, 0] == overhead + 6 * 12 * 24 + (126 if sync else 0)


def test_cycles_in_loops():
    """Counts follow the trips that loops make, and the count at each trip is that of a run until then."""

    def f(x, n):
        def body(state):
            i, x, counts = state
            x = tile.tile_map(jax.lax.sin_p, x)
            x, count = tile.ipu_cycle_count(x)
            return i + 1, x, counts.at[i].set(count.array[0, 0])

        x = tile.tile_put_sharded(x, TILES)
        _, x, unknown = jax.lax.while_loop(lambda state: state[0] < n, body, (0, x, jnp.zeros(6, jnp.uint32)))
        x, between = tile.ipu_cycle_count(x)
        _, x, known = jax.lax.fori_loop(0, 6, lambda _, state: body(state), (0, x, jnp.zeros(6, jnp.uint32)))
        x, end = tile.ipu_cycle_count(x)
        return unknown, between.array[0, 0], known, end.array[0, 0]

    results = {}
    for n in (0, 3, 6):
        fast, slow = (run_ipu(f, (array(3, 4), np.int32(n)), mode) for mode in (("fast", 8), ("tile", 8)))
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_array_equal(a, b)
        unknown, between, known, end = fast
        results[n] = int(between)
        trips = np.diff(np.r_[unknown[:n], between].astype(np.int64))
        assert (unknown[n:] == 0).all() and (trips > 0).all() and len(set(trips[:-1])) <= 1
        steps = np.diff(np.r_[between, known, end].astype(np.int64))
        assert (steps > 0).all() and len(set(steps[1:-1])) == 1
    assert results[6] - results[3] == results[3] - results[0] > 0


def test_gradients_are_those_that_the_user_gives():
    """Of a primitive of jax.lax, of the reference implementation, and of custom_vjp."""

    @jax.custom_vjp
    def doubled(x):
        x = tile.tile_put_sharded(x, TILES)
        return tile.tile_map(jax.lax.add_p, x, x).array

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, ct: (20 * ct,))

    def f(x):
        y = tile.tile_map(jax.lax.sin_p, tile.tile_put_sharded(x, TILES))
        y = tile.tile_map(jax.lax.mul_p, y, tile.tile_gather(y, (1, 2, 0), TILES))
        first, second = tile.tile_map(demo_p, y, scale_value=0.5)
        return jnp.sum(first.array * jnp.cos(second.array))

    check(jax.grad(lambda x: f(x) + jnp.sum(doubled(x))), array(3, 4, 6), mode=("fast", 8))
    check(jax.vmap(lambda x: jax.jvp(f, (x,), (x,))), array(2, 3, 4, 6), mode=("tile", 8))


def test_primitive_without_rule_has_no_gradient():
    bare_p = tile.create_ipu_tile_primitive("bare", "Bare", ["x"], {"y": 0})
    with pytest.raises(NotImplementedError, match=r"'bare' has no reference implementation.*def_impl"):
        jax.grad(lambda x: tile.tile_map(bare_p, tile.tile_put_sharded(x, TILES)).array.sum())(array(3, 4))


def test_estimates_need_no_device():
    assert estimate(demo, jax.ShapeDtypeStruct((3, 4, 6), jnp.float32), target="bow").cycles > 0


def test_runs_under_jit_and_eagerly():
    x = jax.device_put(array(3, 4, 6), ipu)
    expected = jax.jit(demo, backend="cpu")(array(3, 4, 6))
    for actual in (jax.jit(demo)(x), demo(x)):
        for a, e in zip(actual, expected, strict=True):
            assert a.devices() == {ipu}
            np.testing.assert_allclose(a, e, rtol=1e-6)


def test_stored_programs_run_only_codelets_that_the_process_has_compiled(tmp_path):
    """A cached program of another process is compiled again: its C++ would run with the rights of this one."""
    program = """
        import warnings
        import jax, numpy as np
        from jax.experimental import serialize_executable
        from jax_ipu import tile

        jax.config.update("jax_compilation_cache_dir", "cache")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

        def f(x):
            return tile.tile_map(jax.lax.add_p, *[tile.tile_put_sharded(x, (0, 1))] * 2).array

        x = jax.device_put(np.ones((2, 3), np.float32), jax.devices("ipu")[0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(jax.jit(f)(x).sum())
        refused = [w for w in caught if "codelets" in str(w.message)]
        print(len(refused), "refused")
        stored = serialize_executable.serialize(jax.jit(f).lower(x).compile())
        print(serialize_executable.deserialize_and_load(*stored, backend="ipu")(x).sum())
    """
    results = [processes.output(program, tmp_path).split() for _ in range(2)]
    assert results[0] == ["12.0", "0", "refused", "12.0"] and results[1] == ["12.0", "1", "refused", "12.0"]


def test_each_ipu_has_its_own_tiles():
    mesh = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,), devices=jax.devices("ipu")[:2])

    def f(x):
        return tile.tile_map(jax.lax.exp_p, tile.tile_put_sharded(x, TILES)).array + jax.lax.axis_index("i")

    spec = jax.sharding.PartitionSpec("i")
    x = array(6, 4)
    result = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    np.testing.assert_allclose(result, np.exp(x) + np.repeat([[0], [1]], 3, axis=0), rtol=1e-6)


def test_array_on_tiles_is_a_pytree():
    x = tile.tile_put_sharded(array(4, 2, 6), (0, 1, 2, 3))
    assert jax.tree.map(lambda a: a, x).tiles == x.tiles and len(x) == 4 and x.tile_aval.shape == (2, 6)
    assert x[1:3].tiles == (1, 2) and x[2].shape == (1, 2, 6) and x[:, 1, 2:4].shape == (4, 2)
    assert x.reshape((-1, 12)).shape == (4, 12) and x.tile_reshape((3, 4)).tile_shape == (3, 4)
    assert x[:, :1].squeeze().shape == (4, 6)
    both = tile.TileShardedArray.concatenate([x[2:], x[:2]])
    assert both.tiles == (2, 3, 0, 1) and np.asarray(both).shape == (4, 2, 6)
    with pytest.raises(ValueError, match="several pieces"):
        x[:, :, 2:4]
    with pytest.raises(ValueError, match="first dimension"):
        x.reshape((8, 6))
