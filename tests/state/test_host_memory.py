"""Values in host memory stay there: programs read them where they use them, and write them where they make them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler.ir import LOOPS
from jax_ipu.compiler.options import compile_options, serialize_options
from jax_ipu.integration.programs import artifact
from support.host_memory import HOST, SRAM, compiled, in_host, layers, on_device, shaped
from support.modes import array, close, on_cpu
from support.stages import mapped

ipu = jax.devices("ipu")[0]
LAYERS, BATCH, WIDTH = 5, 4, 16
WEIGHTS, X = array(LAYERS, WIDTH, WIDTH) / 6, array(BATCH, WIDTH)


def flat_on_cpu(function, args):
    return [np.asarray(x) for x in jax.tree.leaves(on_cpu(function, args))]


def unknown_trips(weights, x, count):
    """As many layers as an argument says."""

    def layer(i, h):
        return jnp.tanh(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))

    return jax.lax.fori_loop(0, count, layer, x)


def until_large(weights, x):
    """How many trips there are follows from what they compute."""

    def layer(state):
        i, h = state
        return i + 1, h + abs(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))

    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < LAYERS), layer, (0, x))


def written_until_large(x):
    """The rows that a loop makes until what it computes is large; the others stay as they are."""

    def trip(state):
        i, h, rows = state
        h = h * 1.5
        return i + 1, h, jax.lax.dynamic_update_index_in_dim(rows, in_host(h), i, 0)

    rows = in_host(jnp.full((2 * LAYERS, *x.shape), 7, x.dtype))
    return jax.lax.while_loop(lambda state: abs(state[1]).sum() < 200, trip, (0, x, rows))[1:]


def written_beyond_the_end(x, count):
    """The last row is written again by each trip beyond it."""
    body = lambda i, rows: jax.lax.dynamic_update_index_in_dim(rows, in_host(x * i), i, 0)  # noqa: E731
    return jax.lax.fori_loop(0, count, body, in_host(jnp.zeros((3, *x.shape), x.dtype)))


def read_and_written_until_large(weights, x):
    def trip(state):
        i, h, rows = state
        h = h + abs(h @ on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False)))
        return i + 1, h, jax.lax.dynamic_update_index_in_dim(rows, in_host(h), i, 0)

    rows = in_host(jnp.zeros((LAYERS, *x.shape), x.dtype))
    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < LAYERS), trip, (0, x, rows))


def replaced_until_large(weights, x, rows=LAYERS):
    """Each trip reads a row, and makes one of the same shape for another array; `rows`: at which the loop ends."""

    def trip(state):
        i, h, made = state
        w = on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False))
        return i + 1, h + abs(h @ w), jax.lax.dynamic_update_index_in_dim(made, in_host(w * 0.9 + h[0]), i, 0)

    start = 0, x, in_host(jnp.zeros_like(weights))
    return jax.lax.while_loop(lambda state: (state[1].sum() < 50) & (state[0] < rows), trip, start)


def rounds(weights, x):
    """A loop around the loop over layers."""
    return jax.lax.fori_loop(0, 3, lambda i, h: layers(weights, h) + i, x)


def rounds_until_large(weights, x):
    body = lambda h: abs(layers(weights, h)) + h  # noqa: E731
    return jax.lax.while_loop(lambda h: h.sum() < 100, body, x)


def offload_in_a_trip(x):
    """What one trip puts into host memory and takes back."""

    def trip(total, row):
        kept = in_host(jnp.sin(row))
        wide = jnp.cos(jnp.outer(row, row + total))
        return jnp.tanh(wide @ on_device(kept)), None

    return jax.lax.scan(trip, x[0], x)[0]


def train(weights, momentum, x):
    """One layer at a time: forward, backward, update."""

    def loss(weights):
        layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ on_device(w)), None))
        return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()

    def update(_, layer):
        w, m, g = map(on_device, layer)
        m = 0.9 * m + g
        return None, (in_host(w - 0.1 * m), in_host(m))

    value, gradients = jax.value_and_grad(loss)(weights)
    _, (weights, momentum) = jax.lax.scan(update, None, (weights, momentum, gradients))
    return value, weights, momentum


def adam(parameters, first, second, x):
    """The state of the optimiser comes in and leaves leaf by leaf."""

    def loss(parameters):
        h = x
        for w in parameters:
            h = jnp.tanh(h @ w)
        return (h**2).mean()

    results = []
    for w, m, v, g in zip(parameters, first, second, jax.grad(loss)(parameters), strict=True):
        m, v = 0.9 * on_device(m) + 0.1 * g, 0.99 * on_device(v) + 0.01 * g * g
        results.append((w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), in_host(m), in_host(v)))
    return tuple(zip(*results, strict=True))


OFFLOAD = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["h"],
    offload_src="device",
    offload_dst="pinned_host",
)


def two_products(h, w):
    return jnp.sin(jnp.tanh(checkpoint_name(h, "h") @ w) @ w)


def offloaded_scan(weights, x):
    layer = jax.checkpoint(lambda h, w: (two_products(h, w), None), policy=OFFLOAD)
    return jax.grad(lambda weights: (jax.lax.scan(layer, x, weights)[0] ** 2).mean())(weights)


def offloaded_layers(weights, x):
    def model(weights):
        h = x
        for w in weights:
            h = two_products(h, w)
        return (h**2).mean()

    return jax.grad(jax.checkpoint(model, policy=OFFLOAD))(weights)


def rows_by_index(table, i):
    return on_device(jax.lax.dynamic_slice_in_dim(table, i, 2)), on_device(table[-1]) * 2, on_device(table[1:4:2]) + 1


def rows_and_whole(table, x):
    total = jax.lax.fori_loop(0, LAYERS, lambda i, s: s + on_device(table[i]) * x, jnp.zeros((WIDTH, WIDTH)))
    return total, on_device(table).sum(1)


def half_of_the_rows(x):
    return jax.lax.fori_loop(0, 3, lambda i, s: s.at[i].set(x * i), jnp.ones((6, *x.shape)))


def read_again(x):
    """A stacked result that the program reads again, row by row."""
    rows = jax.lax.scan(lambda h, _: (h * 0.5, in_host(h)), x, length=LAYERS)[1]
    return rows, jax.lax.scan(lambda s, row: (s + on_device(row), None), jnp.zeros_like(x), rows, reverse=True)[0]


def loops_in_loops(x):
    """What the inner loop stacks in host memory is a row of what the outer loop stacks there."""

    def inner(h, _):
        h = jnp.sin(h + 1)
        return h, in_host(h)

    return jax.lax.scan(lambda h, _: jax.lax.scan(inner, h, length=4), x, length=3)


def offloaded_loops_in_loops(weights, x):
    layer = jax.checkpoint(lambda h, w: (two_products(h, w), None), policy=OFFLOAD)
    groups = jnp.stack([weights, weights / 2])
    return jax.grad(lambda w: (jax.lax.scan(lambda h, w: jax.lax.scan(layer, h, w), x, w)[0] ** 2).mean())(groups)


def put_and_taken(x):
    away = in_host(jnp.sin(x))
    return jnp.cos(x).sum() * on_device(away), away


FLOATS, WORDS = array(6, 3, 5), np.arange(24, dtype=np.int32).reshape(6, 4)
# Name -> function, arguments, which of them are in host memory, which results are (by position, flat).
PROGRAMS = {
    "layers": (layers, (WEIGHTS, X), {0}, set()),
    "training": (train, (WEIGHTS, array(*WEIGHTS.shape), X), {0, 1}, {1, 2}),
    "optimiser": (
        adam,
        (list(WEIGHTS), list(0 * WEIGHTS), list(abs(WEIGHTS)), X),
        set(range(5, 15)),
        set(range(5, 15)),
    ),
    "offload in a scan": (offloaded_scan, (WEIGHTS, X), set(), set()),
    "offload in layers": (offloaded_layers, (WEIGHTS, X), set(), set()),
    "loops in loops": (loops_in_loops, (X,), set(), {1}),
    "offload in loops in loops": (offloaded_loops_in_loops, (WEIGHTS, X), set(), set()),
    "rows by index": (rows_by_index, (FLOATS, np.int32(3)), {0}, set()),
    "rows by an index beyond the end": (rows_by_index, (FLOATS, np.int32(7)), {0}, set()),
    "rows by a negative index": (rows_by_index, (FLOATS, np.int32(-9)), {0}, set()),
    "rows and the whole": (rows_and_whole, (WEIGHTS, X[0]), {0}, set()),
    "half of the rows": (half_of_the_rows, (X,), set(), {0}),
    "reverse": (
        lambda xs: jax.lax.scan(lambda c, x: (c + on_device(x), in_host(c)), jnp.zeros(4), xs, reverse=True),
        (array(6, 4),),
        {0},
        {1},
    ),
    "read again": (read_again, (X,), set(), {0}),
    "put and taken": (put_and_taken, (X,), set(), {1}),
    "integers": (
        lambda xs: jax.lax.scan(lambda c, x: (c + on_device(x), c > 7), jnp.zeros(4, jnp.int32), xs),
        (WORDS,),
        {0},
        {1},
    ),
    "half precision": (
        lambda xs: jax.lax.scan(lambda c, x: (c * on_device(x), c), jnp.ones(5, jnp.float16), xs),
        (array(6, 5).astype(np.float16),),
        {0},
        {1},
    ),
    "an argument twice": (lambda x: (on_device(x) @ on_device(x).T, on_device(x)), (X,), {0}, set()),
    "scalars and vectors": (
        lambda a, b: (on_device(a) * on_device(b), in_host(on_device(b) + 1)),
        (X[0], X[0, 0]),
        {0, 1},
        {1},
    ),
    "unknown trips": (unknown_trips, (WEIGHTS, X, np.int32(3)), {0}, set()),
    "no trips": (unknown_trips, (WEIGHTS, X, np.int32(0)), {0}, set()),
    "until it is large": (until_large, (WEIGHTS, X), {0}, set()),
    "offload in a trip": (offload_in_a_trip, (X,), set(), set()),
    "written until it is large": (written_until_large, (X,), set(), {1}),
    "written in no trip": (written_until_large, (100 * X,), set(), {1}),
    "written beyond the end": (written_beyond_the_end, (X, np.int32(5)), set(), {0}),
    "read and written until it is large": (read_and_written_until_large, (WEIGHTS, X), {0}, {2}),
    "replaced until it is large": (replaced_until_large, (WEIGHTS, X), {0}, {2}),
    "replaced beyond the end": (partial(replaced_until_large, rows=LAYERS + 2), (WEIGHTS, X / 1e3), {0}, {2}),
    "rounds": (rounds, (WEIGHTS, X), {0}, set()),
    "rounds until it is large": (rounds_until_large, (WEIGHTS, X), {0}, set()),
    "nothing": (lambda x: on_device(x) + 1, (np.zeros((0, 4), np.float32),), {0}, {0}),
}


def lowered(name):
    function, args, hosts, host_results = PROGRAMS[name]
    leaves, structure = jax.tree.flatten(args)
    shardings = jax.tree.unflatten(structure, [HOST if i in hosts else SRAM for i in range(len(leaves))])
    results, result_structure = jax.tree.flatten(jax.eval_shape(function, *args))
    out = jax.tree.unflatten(result_structure, [HOST if i in host_results else SRAM for i in range(len(results))])
    return jax.jit(function, in_shardings=shardings, out_shardings=out), leaves, shardings


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    function, args, _, host_results = PROGRAMS[name]
    jitted, leaves, shardings = lowered(name)
    expected = flat_on_cpu(function, args)
    results = jax.tree.leaves(jitted(*jax.device_put(args, shardings)))
    for position, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
        assert actual.sharding.memory_kind == ("pinned_host" if position in host_results else "device")
        close(np.asarray(actual), wanted, rtol=1e-4)
    program = str(jitted.lower(*args).compiler_ir("stablehlo")).encode()
    for io_tiles, modes in ((0, ("fast", "tile")), (2, ("fast", "tile", "codelets"))):
        executable = compiler.compile(program, "mlir", with_io_tiles(io_tiles), "ipu2:8")
        for mode in modes:
            for raw, wanted in zip(_ipu.run(executable, [a.tobytes() for a in leaves], mode), expected, strict=True):
                close(np.frombuffer(raw, wanted.dtype).reshape(wanted.shape), wanted, rtol=1e-4)


def with_io_tiles(count):
    return serialize_options({"ipu_io_tiles": str(count)}) if count else b""


def moved_by(call):
    """Bytes moved between host and tiles by a call: to the device, from the device."""
    before = jax_ipu.counters(ipu)
    jax.block_until_ready(call())
    after = jax_ipu.counters(ipu)
    return after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes


# Name -> bytes to and from the IPU, of what the schedule of the program needs.
W, H = WEIGHTS.nbytes, X.nbytes
MOVED = {
    "layers": (W + H, H),
    # Weights for forward, backward and update, momentum and gradients; gradients, weights, momentum, and the loss.
    "training": (5 * W + H, 3 * W + 4),
    "optimiser": (3 * W + H, 3 * W),
    "offload in a scan": (W + H + LAYERS * H, W + LAYERS * H),
    "rows by index": (4 + FLOATS.nbytes // 6 * 5, FLOATS.nbytes // 6 * 5),
    "reverse": (6 * 16, 6 * 16 + 16),
    "read again": (H + LAYERS * H, LAYERS * H + H),
    "unknown trips": (3 * W // LAYERS + H + 4, H),
    "no trips": (H + 4, H),
    "offload in a trip": (2 * H, H + H // BATCH),
    "written until it is large": (H, H + 2 * LAYERS * H),
    "written in no trip": (H, H + 2 * LAYERS * H),
    "rounds": (3 * W + H, H),
}


@pytest.mark.parametrize("options", [{}, {"ipu_io_tiles": 32}], ids=["", "read ahead"])
@pytest.mark.parametrize("name", MOVED)
def test_moves_what_the_schedule_needs(name, options):
    _, args, _, _ = PROGRAMS[name]
    jitted, _, shardings = lowered(name)
    arguments = jax.device_put(args, shardings)
    jax.block_until_ready(arguments)
    program = jitted.lower(*args).compile(options)
    assert moved_by(lambda: program(*arguments)) == MOVED[name]


@pytest.mark.parametrize(
    "name", ["until it is large", "read and written until it is large", "replaced until it is large"]
)
def test_a_loop_that_ends_on_a_value_reads_one_row_more(name):
    """The row of the trip that it does not have; beyond the last row there is none."""
    _, args, _, _ = PROGRAMS[name]
    jitted, _, shardings = lowered(name)
    arguments = jax.device_put(args, shardings)
    jax.block_until_ready(arguments)
    programs = [jitted.lower(*args).compile({"ipu_io_tiles": tiles}) for tiles in (0, 32)]
    waits, beside = (moved_by(lambda p=p: p(*arguments)) for p in programs)
    trips = int(programs[0](*arguments)[0])
    assert 0 < trips < LAYERS
    assert (beside[0] - waits[0], beside[1] - waits[1]) == (W // LAYERS, 0)


# How many reads of rows the loops of a program start a trip ahead.
AHEAD = {"layers": 1, "training": 5, "reverse": 1, "read again": 1, "integers": 1, "half precision": 1}
AHEAD |= {"unknown trips": 1, "no trips": 1, "until it is large": 1, "offload in a trip": 1}
AHEAD |= {"read and written until it is large": 1, "rounds": 1, "rounds until it is large": 1}
AHEAD |= {"replaced until it is large": 1, "replaced beyond the end": 0}


@pytest.mark.parametrize("name", AHEAD)
def test_rows_are_read_ahead(name):
    _, args, _, _ = PROGRAMS[name]
    jitted, _, _ = lowered(name)
    program = artifact(jitted.lower(*args).compiler_ir("stablehlo"))
    takes = []
    for count in (0, 2):
        module = mapped(program, compile_options(with_io_tiles(count)), num_tiles=8).module
        loops = [op.regions[-1] for op in module.main.block.walk() if op.name in LOOPS]
        takes.append(sum(op.name == "ipu.take_ahead" for body in loops for op in body.ops))
    assert takes == [0, AHEAD[name]]


@pytest.mark.parametrize("name", ["replaced until it is large", "replaced beyond the end"])
def test_rows_replaced_in_the_memory_of_the_argument(name):
    """The result takes the place of the donated weights."""
    function, args, _, _ = PROGRAMS[name]
    jitted = jax.jit(function, donate_argnums=0, out_shardings=(SRAM, SRAM, HOST))
    arguments = jax.device_put(args, (HOST, SRAM))
    expected = flat_on_cpu(function, args)
    for actual, wanted in zip(
        jitted.lower(*arguments).compile({"ipu_io_tiles": 32})(*arguments), expected, strict=True
    ):
        close(np.asarray(actual), wanted, rtol=1e-4)


def test_the_row_of_the_next_trip_arrives_beside_the_computation():
    """A layer computes longer than the next one takes to arrive."""
    shapes = ((16, 256, 256), HOST), ((4096, 256), SRAM)
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding) for shape, sharding in shapes]
    waits = jax_ipu.estimate(layers, *arguments)
    beside = jax_ipu.estimate(layers, *arguments, compiler_options={"ipu_io_tiles": 32})
    assert waits.overlapped_seconds == 0 and waits.call_seconds == waits.seconds + waits.host_seconds
    assert (beside.host_bytes_in, beside.host_bytes_out) == (waits.host_bytes_in, waits.host_bytes_out)
    # The last trip reads nothing ahead, and nothing is beside the first read.
    of_layers = beside.host_seconds - jax_ipu.estimate(lambda x: x + 1, arguments[1]).host_seconds
    assert beside.overlapped_seconds == pytest.approx(of_layers * 15 / 16, rel=0.01)
    assert beside.call_seconds < waits.call_seconds
    assert "beside the program" in str(beside) and "beside" not in str(waits)
    assert beside.streaming_seconds == pytest.approx(of_layers)
    for estimate in (waits, beside):
        assert estimate.streaming_bytes_in == 16 * 256 * 256 * 4
        assert "streaming memory" in str(estimate)
    assert "streaming memory" not in str(jax_ipu.estimate(lambda x: x + 1, arguments[1]))


def test_rows_arrive_beside_the_computation_where_trips_are_unknown():
    """A loop of unknown length is counted as one trip, which starts one transfer."""
    shapes = (((16, 256, 256), HOST), ((4096, 256), SRAM))
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding) for shape, sharding in shapes]
    count = jax.ShapeDtypeStruct((), jnp.int32, sharding=SRAM)
    options = {"compiler_options": {"ipu_io_tiles": 32}}
    known = jax_ipu.estimate(layers, *arguments, **options)
    unknown = jax_ipu.estimate(unknown_trips, *arguments, count, **options)
    assert unknown.overlapped_seconds == pytest.approx(known.overlapped_seconds / 15, rel=0.05)


def test_what_a_trip_offloads_arrives_beside_its_computation():
    def of(io_tiles):
        x = jax.ShapeDtypeStruct((4, 1024), jnp.float32, sharding=SRAM)
        return jax_ipu.estimate(offload_in_a_trip, x, compiler_options={"ipu_io_tiles": io_tiles})

    assert of(0).overlapped_seconds == 0 and of(32).overlapped_seconds > 0
    assert of(32).host_bytes_in == of(0).host_bytes_in


def test_the_row_of_the_trip_before_leaves_beside_the_computation():
    def decay(weights, x):
        def layer(h, w):
            w = on_device(w)
            return jnp.tanh(h @ w), in_host(w * 0.9)

        return jax.lax.scan(layer, x, weights)

    arguments = shaped([(16, 256, 256), (8192, 256)], {0})
    options = {"compiler_options": {"ipu_io_tiles": 32}}
    reads = jax_ipu.estimate(layers, *arguments, **options)
    both = jax_ipu.estimate(jax.jit(decay, out_shardings=(SRAM, HOST)), *arguments, **options)
    assert both.overlapped_seconds == pytest.approx(2 * reads.overlapped_seconds, rel=0.01)


def test_rows_of_several_arrays_arrive_beside_the_computation():
    """No transfer waits for another one."""

    def two(weights, others, x):
        def layer(h, w):
            return jnp.tanh(h @ on_device(w[0]) + h @ on_device(w[1])), None

        return jax.lax.scan(layer, x, (weights, others))[0]

    options = {"compiler_options": {"ipu_io_tiles": 32}}
    one = jax_ipu.estimate(layers, *shaped([(16, 256, 256), (8192, 256)], {0}), **options)
    both = jax_ipu.estimate(two, *shaped([(16, 256, 256), (16, 256, 256), (8192, 256)], {0, 1}), **options)
    assert both.overlapped_seconds == pytest.approx(2 * one.overlapped_seconds, rel=0.01)


def test_rows_leave_beside_the_computation_where_trips_are_unknown():
    """A loop of unknown length is counted as one trip, which starts a read, and a write of half as much."""

    def decay(weights, x):
        def trip(state):
            i, h, rows = state
            w = on_device(jax.lax.dynamic_index_in_dim(weights, i, keepdims=False))
            return i + 1, jnp.tanh(h @ w), jax.lax.dynamic_update_index_in_dim(rows, in_host(w[:128] * 0.9), i, 0)

        rows = in_host(jnp.zeros((16, 128, 256)))
        return jax.lax.while_loop(lambda state: abs(state[1]).sum() < 50, trip, (0, x, rows))[1:]

    arguments = shaped([(16, 256, 256), (8192, 256)], {0})
    options = {"compiler_options": {"ipu_io_tiles": 32}}
    reads = jax_ipu.estimate(layers, *arguments, **options)
    both = jax_ipu.estimate(jax.jit(decay, out_shardings=(SRAM, HOST)), *arguments, **options)
    assert both.overlapped_seconds > 1.4 * reads.overlapped_seconds / 15


def test_a_row_that_the_tiles_do_not_hold_is_read_when_it_is_used(caplog):
    program = jax.jit(layers).lower(*shaped([(4, 1024, 1024), (8, 1024)], {0})).compiler_ir("stablehlo")
    executable = compiler.compile(artifact(program), "mlir", with_io_tiles(2), "ipu2:64")
    assert "is not read ahead: a row takes 4.0 MiB, and 1.1 MiB are free" in caplog.text
    assert executable.memory.total_bytes > 0


def test_rows_that_the_loop_writes_for_a_later_trip_are_not_read_ahead():
    """Each trip reads what the one before has written."""

    def powers(rows):
        def step(i, rows):
            row = on_device(jax.lax.dynamic_slice_in_dim(rows, i, 1))
            return jax.lax.dynamic_update_slice_in_dim(rows, in_host(row * 2), i + 1, 0)

        return jax.lax.fori_loop(0, 5, step, in_host(rows))

    rows = array(6, 4)
    program = artifact(jax.jit(powers, in_shardings=HOST, out_shardings=HOST).lower(rows).compiler_ir("stablehlo"))
    executable = compiler.compile(program, "mlir", with_io_tiles(2), "ipu2:8")
    (raw,) = _ipu.run(executable, [rows.tobytes()], "tile")
    close(np.frombuffer(raw, np.float32).reshape(6, 4), rows[0] * 2 ** np.arange(6, dtype=np.float32)[:, None])


@pytest.mark.parametrize(
    ("text", "message"),
    [("64", "leaves none of 64 tiles"), ("-1", "use a number of tiles"), ("many", "use a number of tiles")],
)
def test_a_wrong_number_of_io_tiles_is_refused(text, message):
    program = artifact(jax.jit(jnp.sin).lower(jnp.ones(3)).compiler_ir("stablehlo"))
    with pytest.raises(compiler.CompileError, match=message):
        compiler.compile(program, "mlir", serialize_options({"ipu_io_tiles": text}), "ipu2:64")


def test_training_of_layers_larger_than_the_memory_fits():
    shape = (256, 256, 256)
    out = (SRAM, HOST, HOST)
    memory = compiled(train, [shape, shape, (8, 256)], {0, 1}, out_shardings=out).memory
    # The activations of all layers are 2 MiB.
    assert memory.total_bytes < 12 << 20


def test_state_of_an_optimiser_fits_leaf_by_leaf():
    """Parameters are half of the memory, the state of the optimiser as much again as the memory."""
    leaves, shape = 20, (512, 512)

    def step(*arrays):
        return adam(arrays[:leaves], arrays[leaves : 2 * leaves], arrays[2 * leaves : 3 * leaves], arrays[-1])

    shapes = [*[shape] * (3 * leaves), (8, 512)]
    hosts = set(range(leaves, 3 * leaves))
    out = tuple((sharding,) * leaves for sharding in (SRAM, HOST, HOST))
    options = {"out_shardings": out, "donate_argnums": tuple(range(leaves))}
    compiled(step, shapes, hosts, **options)
    with pytest.raises(Exception, match="out of IPU memory"):
        compiled(step, shapes, set(), **options)


def test_an_update_is_computed_in_the_storage_of_what_it_read():
    """One leaf that takes a third of the memory, and its update."""
    shape = (3400, 1024)
    decay = lambda m, g: in_host(0.9 * on_device(m) + 0.1 * g)  # noqa: E731
    compiled(decay, [shape, shape], {0}, out_shardings=HOST)
    with pytest.raises(Exception, match="out of IPU memory"):
        compiled(lambda m, g: (decay(m, g), in_host(on_device(m) * 2)), [shape, shape], {0}, out_shardings=HOST)


def test_an_executable_with_values_in_host_memory_is_serialised():
    from jax.experimental import serialize_executable

    jitted, _, shardings = lowered("training")
    _, args, _, _ = PROGRAMS["training"]
    payload, in_tree, out_tree = serialize_executable.serialize(jitted.lower(*args).compile())
    loaded = serialize_executable.deserialize_and_load(
        payload, in_tree, out_tree, backend="ipu", execution_devices=[ipu]
    )
    for actual, wanted in zip(loaded(*jax.device_put(args, shardings)), flat_on_cpu(train, args), strict=True):
        close(np.asarray(actual), wanted, rtol=1e-4)


def test_an_array_of_another_layout_is_read_whole():
    transposed = Format(Layout((2, 1, 0)), HOST)
    weights = jax.device_put(WEIGHTS, transposed)
    close(
        np.asarray(jax.jit(layers)(weights, jax.device_put(X, SRAM))), flat_on_cpu(layers, (WEIGHTS, X))[0], rtol=1e-4
    )


def test_shards_of_layers_are_read_by_rows():
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("x",))
    columns = NamedSharding(mesh, P(None, None, "x"), memory_kind="pinned_host")
    rows = NamedSharding(mesh, P("x"))
    weights, x = jax.device_put(WEIGHTS, columns), jax.device_put(X, rows)
    jitted = jax.jit(layers, out_shardings=rows)
    expected = flat_on_cpu(layers, (WEIGHTS, X))[0]
    assert moved_by(lambda: close(np.asarray(jitted(weights, x)), expected, rtol=1e-4)) == ((W + H) // 4, H // 4)


def test_the_argument_is_not_written():
    """A donated state that is updated row by row has a buffer of its own."""
    jitted = jax.jit(train, donate_argnums=(0, 1), out_shardings=(SRAM, HOST, HOST))
    momentum = array(*WEIGHTS.shape)
    state = jax.device_put((WEIGHTS, momentum), HOST)
    expected = WEIGHTS, momentum
    for _ in range(3):
        _, *state = jitted(*state, jax.device_put(X, SRAM))
        _, *expected = flat_on_cpu(train, (*expected, X))
        for actual, wanted in zip(state, expected, strict=True):
            close(np.asarray(actual), wanted, rtol=1e-4)


def test_estimate_counts_what_moves():
    arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s) for a, s in ((WEIGHTS, HOST), (X, SRAM))]
    assert jax_ipu.estimate(layers, *arguments).host_bytes_in == W + H
