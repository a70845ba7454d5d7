"""Layouts chosen by the caller: reported layouts, values, memory, donation; as on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import jax_ipu
from jax_ipu import _ipu, compiler
from support.modes import array, each_mode

ipu, cpu = jax.devices("ipu")[0], jax.devices("cpu")[0]


def ordered(*major_to_minor, device=ipu):
    return Format(Layout(major_to_minor), SingleDeviceSharding(device))


AUTO = Format(Layout.AUTO, SingleDeviceSharding(ipu))


def order(x):
    return x.format.layout.major_to_minor


TYPES = ["bool", "int4", "int8", "bfloat16", "float32", "complex64", "float64", "complex128"]
ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("major_to_minor", ORDERS, ids=str)
def test_device_put(dtype, major_to_minor):
    with jax.enable_x64(True):
        values = (np.arange(3 * 5 * 7) % 2).reshape(3, 5, 7).astype(dtype)
        x = jax.device_put(values, ordered(*major_to_minor))
        assert order(x) == major_to_minor and x.shape == (3, 5, 7) and x.devices() == {ipu}
        np.testing.assert_array_equal(np.asarray(x), values)
        np.testing.assert_array_equal(jax.device_put(x, cpu), values)


def test_a_copy_keeps_the_layout_on_an_ipu():
    x = jax.device_put(array(4, 6), ordered(1, 0))
    host = jax.device_put(x, x.sharding.with_memory_kind("pinned_host"))
    back = jax.device_put(host, ordered(0, 1))
    assert (order(host), order(back)) == ((1, 0), (0, 1))
    for copy in (host, back):
        np.testing.assert_array_equal(copy, x)


def test_memory_is_in_the_order_of_the_layout():
    values = array(4, 6)
    x = jax.device_put(values, ordered(1, 0))
    pointer = (np.ctypeslib.ctypes.c_float * values.size).from_address(x.unsafe_buffer_pointer())
    np.testing.assert_array_equal(np.asarray(pointer), values.T.reshape(-1))


# Name: the function, the layouts of its arguments, and the layout of its result.
PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) + 1, [(1, 0)], (1, 0)),
    "to row-major": (lambda x: x * 2, [(1, 0)], (0, 1)),
    "from row-major": (lambda x: x * 2, [(0, 1)], (1, 0)),
    "identity": (lambda x: x, [(1, 0)], (1, 0)),
    "transpose is free": (lambda x: x.T, [(1, 0)], (0, 1)),
    "product": (lambda x, y: x @ y.T, [(1, 0), (1, 0)], (1, 0)),
    "mixed": (lambda x, y: x - y, [(1, 0), (0, 1)], (1, 0)),
    "unused": (lambda x, y: x + 1, [(0, 1), (1, 0)], (0, 1)),
    "reduction": (lambda x: x.sum(0), [(1, 0)], (0,)),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * x + 1, x), [(1, 0)], (1, 0)),
    "rank 3": (lambda x: jnp.stack([x, x * 2]), [(1, 0)], (2, 0, 1)),
    "one row": (lambda x: x[:1] * 2, [(1, 0)], (1, 0)),
    "empty": (lambda x: x[:0] * 2, [(1, 0)], (1, 0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    function, ins, out = PROGRAMS[name]
    values = [array(4, 6, seed=i) for i in range(len(ins))]
    args = [jax.device_put(v, ordered(*i)) for v, i in zip(values, ins, strict=True)]
    compiled = jax.jit(function, in_shardings=tuple(ordered(*i) for i in ins), out_shardings=ordered(*out)).lower(*args)
    result = compiled.compile()(*args)
    assert order(result) == out
    np.testing.assert_allclose(result, jax.jit(function, backend="cpu")(*values), rtol=1e-5)


@each_mode
def test_programs_in_every_mode(mode):
    """The runtime's view: arguments and results in their memory layouts."""
    x, y = array(4, 6), array(4, 6, seed=1)
    function = jax.jit(
        lambda x, y: (x @ y.T, x + y), in_shardings=(ordered(1, 0), None), out_shardings=(None, ordered(1, 0))
    )
    execution, tiles = mode
    program = str(function.trace(x, y).lower(lowering_platforms=("ipu",)).compiler_ir("stablehlo")).encode()
    executable = compiler.compile(program, "mlir", b"", f"ipu2:{tiles}")
    assert executable.input_types == [("f32", (4, 6))] * 2
    product, total = (
        np.frombuffer(r, np.float32) for r in _ipu.run(executable, [x.T.tobytes(), y.tobytes()], execution)
    )
    np.testing.assert_allclose(product.reshape(4, 4), x @ y.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(total.reshape(6, 4).T, x + y)


# Name: the function of arrays (4, 6), and the layout of its result if the compiler chooses.
CHOICES = {
    "row-major": (lambda x: x * 2, (0, 1)),
    "transpose": (lambda x: x.T, (1, 0)),
    "elementwise after it": (lambda x: jnp.where(jnp.sin(x.T) > 0, x.T, 0.5), (1, 0)),
    "operands that differ": (lambda x: x.T + jnp.reshape(x, (6, 4)), (0, 1)),
    "two": (lambda x: jnp.transpose(jnp.stack([x, x]), (1, 2, 0)).astype(jnp.int32), (2, 0, 1)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_automatic_layout_of_a_result(name):
    function, expected = CHOICES[name]
    values = array(4, 6)
    compiled = jax.jit(function, in_shardings=AUTO, out_shardings=AUTO).lower(values).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (0, 1)
    assert compiled.output_formats.layout.major_to_minor == expected
    result = compiled(jax.device_put(values, compiled.input_formats[0][0]))
    assert order(result) == expected
    np.testing.assert_allclose(result, jax.jit(function, backend="cpu")(values), rtol=1e-5)


def test_an_array_whose_layout_jax_does_not_know_is_rearranged():
    values = array(4, 6)
    with jax.default_device(ipu):
        transposed = jax.jit(lambda x: x.T, out_shardings=Format(Layout.AUTO))(values)
    assert order(transposed) == (1, 0) and not transposed.committed
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1, backend="ipu")(transposed), values.T + 1)
    donated = jax.jit(lambda x: x + 1, backend="ipu", donate_argnums=0)(transposed)
    np.testing.assert_array_equal(donated, values.T + 1)
    assert transposed.is_deleted()


def test_state_in_a_layout_stays_in_sram():
    place = ordered(1, 0)
    step = jax.jit(lambda w, x: w + x, in_shardings=(place, None), out_shardings=place, donate_argnums=0)
    start, x = array(40, 60), jax.device_put(array(40, 60, seed=1), ipu)
    w = step(jax.device_put(start, place), x)
    before = jax_ipu.counters(ipu)
    for _ in range(3):
        w = step(w, x)
    after = jax_ipu.counters(ipu)
    assert (after.h2d_bytes, after.d2h_bytes) == (before.h2d_bytes, before.d2h_bytes)  # x does not move again either
    assert order(w) == (1, 0)
    np.testing.assert_allclose(w, start + 4 * np.asarray(x), rtol=1e-5)


def test_state_over_several_ipus():
    mesh = Mesh(np.array(jax.devices("ipu")[:4]).reshape(2, 2), ("a", "b"))
    place = Format(Layout((1, 0)), NamedSharding(mesh, PartitionSpec("a", "b")))
    start = array(8, 12)
    w = jax.device_put(start, place)
    step = jax.jit(lambda w: (w * 2, w.sum()), in_shardings=place, out_shardings=(place, None), donate_argnums=0)
    for _ in range(2):
        old, (w, total) = w, step(w)
        assert old.is_deleted()
    assert order(w) == (1, 0) and {order(s.data) for s in w.addressable_shards} == {(1, 0)}
    np.testing.assert_array_equal(w, 4 * start)
    np.testing.assert_allclose(total, 2 * start.sum(), rtol=1e-5)


def test_serialised_program_keeps_its_layouts():
    from jax.experimental import serialize_executable

    place, values = ordered(1, 0), array(4, 6)
    lowered = jax.jit(lambda x: x + 1, in_shardings=place, out_shardings=place).lower(values)
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(lowered.compile()), backend="ipu", execution_devices=[ipu]
    )
    assert loaded.input_formats[0][0].layout.major_to_minor == (1, 0)
    result = loaded(jax.device_put(values, place))
    assert order(result) == (1, 0)
    np.testing.assert_array_equal(result, values + 1)


def test_tiled_layouts_are_refused():
    tiled = Format(Layout((0, 1), ((8, 128),)), SingleDeviceSharding(ipu))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"UNIMPLEMENTED: argument 0 .* leave out tiling"):
        jax.jit(lambda x: x + 1, in_shardings=tiled).lower(array(8, 128)).compile()
