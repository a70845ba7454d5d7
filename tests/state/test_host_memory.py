"""Values in host memory stay there: programs read them where they use them, and write them where they make them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler.ir import LOOPS
from jax_ipu.compiler.options import compile_options, serialize_options
from jax_ipu.integration.programs import artifact
from support.host_memory import HOST, SRAM, compiled, in_host, layers, on_device, shaped
from support.host_memory_programs import (
    BATCH,
    FLOATS,
    LAYERS,
    PROGRAMS,
    WEIGHTS,
    X,
    adam,
    offload_in_a_trip,
    train,
    unknown_trips,
)
from support.modes import array, close, on_cpu
from support.stages import mapped

ipu = jax.devices("ipu")[0]


def flat_on_cpu(function, args):
    return [np.asarray(x) for x in jax.tree.leaves(on_cpu(function, args))]


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


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,), (2, 0, 4)])
def test_arrays_without_elements(shape):
    """Their buffers, streams and rows have no bytes, and their loops may have no trips."""

    def program(rows, x):
        total, scanned = jax.lax.scan(lambda c, row: (c + 1, on_device(row) + c), jnp.float32(0), rows)
        return in_host(on_device(rows) * 2), scanned, jnp.concatenate([x, x]).sum(0), total, x[:0]

    args = np.zeros(shape, np.float32), np.ones(shape, np.float32)
    expected = flat_on_cpu(program, args)
    out = (HOST, *[SRAM] * 4)
    jitted = jax.jit(program, in_shardings=(HOST, SRAM), out_shardings=out, donate_argnums=0)
    for actual, wanted in zip(jitted(*jax.device_put(args, (HOST, SRAM))), expected, strict=True):
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(np.asarray(actual), wanted)
