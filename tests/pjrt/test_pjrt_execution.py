"""Asynchronous execution, serialised executables, caches, and the properties of devices and executables."""

import re
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import serialize_executable

import jax_ipu
from support.processes import output

ipu = jax.devices("ipu")[0]


@pytest.fixture(scope="module")
def long_program():
    """Returns a compiled program that keeps the device busy for much longer than a call takes."""
    x = jax.device_put(np.eye(256, dtype=np.float32), ipu)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda _, y: jnp.tanh(y @ y), x), backend="ipu")
    return loop.lower(x).compile(), x


def test_calls_return_before_the_device_is_done(long_program):
    program, x = long_program
    y = program(x)
    z = program(y)
    assert not z.is_ready()
    z.block_until_ready()
    assert y.is_ready() and z.is_ready()


def test_reading_waits_for_the_result(long_program):
    program, x = long_program
    y = program(x)
    direct = np.asarray(y)
    y.block_until_ready()
    np.testing.assert_array_equal(direct, y)


def test_python_runs_while_the_device_does(long_program):
    program, x = long_program
    counted = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    program(x).block_until_ready()
    after = len(counted)
    stop.set()
    thread.join()
    assert after > before


def test_results_of_queued_programs_stay_in_order(long_program):
    program, x = long_program
    step = jax.jit(lambda s, x: s + x, donate_argnums=0, backend="ipu")
    state = jax.device_put(np.zeros(4, np.float32), ipu)
    waiting = [program(x)]
    for _ in range(10):
        state = step(state, np.ones(4, np.float32))
    waiting.append(program(waiting[0]))
    np.testing.assert_array_equal(state, np.full(4, 10, np.float32))
    jax.block_until_ready(waiting)


def test_deleting_an_argument_while_it_is_used(long_program):
    program, x = long_program
    argument = jax.device_put(np.asarray(x), ipu)
    y = program(argument)
    argument.delete()
    np.testing.assert_array_equal(y, program(x))


def test_threads_share_the_device():
    f = jax.jit(lambda x: x * 3 + 1, backend="ipu")
    results = {}

    def work(i):
        value = np.full(100, i, np.float32)
        for _ in range(20):
            value = np.asarray(f(value)) % 1000
        results[i] = value

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(6):
        expected = np.full(100, i, np.float32)
        for _ in range(20):
            expected = (expected * 3 + 1) % 1000
        np.testing.assert_array_equal(results[i], expected)


def test_serialised_executable():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    compiled = jax.jit(lambda x: (x @ x.T, x * 2), backend="ipu").lower(x).compile()
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), backend="ipu", execution_devices=[ipu]
    )
    for actual, expected in zip(loaded(x), compiled(x), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_damaged_executable_is_refused():
    from jax._src.lib import _jax, xla_client

    compiled = jax.jit(lambda x: x + 1, backend="ipu").lower(np.ones(3, np.float32)).compile()
    data = ipu.client.serialize_executable(compiled.runtime_executable())
    with pytest.raises(jax.errors.JaxRuntimeError, match="Cannot load serialised IPU executable"):
        ipu.client.deserialize_executable(data[:-8] + b"damaged!", _jax.DeviceList((ipu,)), xla_client.CompileOptions())


CACHE = """
import jax, numpy as np
import jax_ipu.compiler as compiler
calls = []
original = compiler.compile
compiler.compile = lambda *args: (calls.append(1), original(*args))[1]
step = jax.jit(lambda s, x: s + 2 * x, backend="ipu", donate_argnums=0)
s = jax.device_put(np.zeros(8, np.float32), jax.devices("ipu")[0])
for _ in range(3):
    s = step(s, np.ones(8, np.float32))
print(len(calls), np.asarray(s).sum())
"""


def test_persistent_compilation_cache(tmp_path):
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    assert output(CACHE, **environment).split() == ["1", "48.0"]
    assert output(CACHE, **environment).split() == ["0", "48.0"]
    assert output(CACHE, **environment, JAX_IPU_MODEL_VERSION="ipu21").split() == ["1", "48.0"]


def test_without_a_cache_no_key_is_computed(monkeypatch):
    from jax._src import compilation_cache

    assert not jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(compilation_cache, "get_cache_key", None)
    assert jax.jit(lambda x: x - 3.25, backend="ipu")(np.float32(1)) == -2.25


def test_a_cache_without_a_directory_is_used(monkeypatch):
    """As JAX's own tests put one in."""
    from jax._src import compilation_cache, config
    from jax._src.compilation_cache_interface import CacheInterface

    stored = {}

    class Memory(CacheInterface):
        _path = None  # of the interface

        def get(self, key):
            return stored.get(key)

        def put(self, key, value):
            stored[key] = value

    compilation_cache.reset_cache()
    monkeypatch.setattr(compilation_cache, "_cache", Memory())
    with config.persistent_cache_min_compile_time_secs(0):
        assert jax.jit(lambda x: x - 4.25, backend="ipu")(np.float32(1)) == -3.25
    compilation_cache.reset_cache()
    assert stored


def test_export_and_call():
    exported = jax.export.export(jax.jit(lambda x: jnp.sin(x) * 2), platforms=["ipu"])(np.ones(5, np.float32))
    assert exported.platforms == ("ipu",)
    x = jax.device_put(np.arange(5, dtype=np.float32), ipu)
    y = jax.jit(exported.call)(x)
    assert y.devices() == {ipu}
    np.testing.assert_allclose(y, np.sin(np.arange(5)) * 2, rtol=1e-6)


def test_optimised_program_is_readable():
    @jax.jit(backend="ipu")
    def f(x):
        with jax.named_scope("outer"):
            return jnp.tanh(x) + 1

    text = f.lower(np.ones((2, 3), np.float32)).compile().as_text()
    assert "f32[2,3]" in text and "ENTRY" in text
    assert re.search(r'tanh.*op_name="jit\(f\)/outer/tanh"', text)
    assert Path(__file__).name in text


def test_arrays_never_share_the_memory_that_they_show():
    x = jax.device_put(np.arange(6, dtype=np.float32), ipu)
    y, z = jax.jit(lambda x: (x, x))(x)
    everywhere = [x, y, z, jnp.copy(x), jax.device_put(x, jax.devices("ipu")[1])]
    pointers = [a.unsafe_buffer_pointer() for a in everywhere]
    assert len(set(pointers)) == len(pointers)
    assert pointers == [a.unsafe_buffer_pointer() for a in everywhere]
    x.delete()
    for a in everywhere[1:]:
        np.testing.assert_array_equal(a, np.arange(6))


def test_layouts_are_row_major_by_default():
    compiled = jax.jit(lambda x, s: (x.T, s), backend="ipu").lower(np.ones((2, 3), np.float32), np.int32(1)).compile()
    (x, s), _ = compiled.input_formats
    assert x.layout.major_to_minor == (0, 1) and s.layout.major_to_minor == ()
    assert [f.layout.major_to_minor for f in compiled.output_formats] == [(0, 1), ()]
    assert jax.device_put(np.ones((2, 3, 4)), ipu).format.layout.major_to_minor == (0, 1, 2)


def test_errors_of_the_compiler_reach_the_user_and_the_device_works_on():
    unknown = jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"UNIMPLEMENTED.*no_such_target"):
        jax.jit(unknown, backend="ipu")(np.ones(3, np.float32))
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1, backend="ipu")(np.ones(3, np.float32)), np.full(3, 2))


TWO_DEVICES = """
import jax, numpy as np, jax_ipu
a, b = jax.devices("ipu")
f = jax.jit(lambda s, x: s + x, donate_argnums=0)
x = np.ones(4, np.float32)
on_b = f(jax.device_put(x, b), jax.device_put(x, b))
on_a = f(jax.device_put(x, a), jax.device_put(x, a))
moved = jax.device_put(on_b, a)
assert on_b.devices() == {b} and moved.devices() == {a}
assert np.array_equal(moved + on_a, [4, 4, 4, 4])
assert np.array_equal(f(on_b, jax.device_put(moved, b)), [4, 4, 4, 4])
print(jax_ipu.counters(a).runs, jax_ipu.counters(b).runs)
"""


def test_two_devices():
    assert output(TWO_DEVICES, JAX_IPU_DEVICE_COUNT="2").split() == ["2", "2"]


def test_clear_backends_frees_the_client():
    code = """
import jax, jax.extend, numpy as np, jax_ipu
f = lambda x: x + 1
y = jax.jit(f, backend="ipu")(np.ones(3, np.float32))
jax.clear_caches()
jax.extend.backend.clear_backends()
z = jax.jit(f, backend="ipu")(np.ones(3, np.float32))
print(np.asarray(z).sum(), jax_ipu.counters().runs)
"""
    assert output(code).split() == ["6.0", "1"]


def test_callback_of_a_client_that_was_replaced_ends_before_the_process():
    code = """
import threading, time
import jax, jax.extend, numpy as np
started = threading.Event()
def callback(x):
    started.set()
    time.sleep(1)
    return x
shape = jax.ShapeDtypeStruct((3,), np.float32)
f = jax.jit(lambda x: jax.experimental.io_callback(callback, shape, x), backend="ipu")
threading.Thread(target=lambda: f(np.ones(3, np.float32)).block_until_ready(), daemon=True).start()
started.wait()
jax.extend.backend.clear_backends()
print(jax.jit(lambda x: x + 1, backend="ipu")(np.ones(3, np.float32)).sum())
"""
    assert output(code).split() == ["6.0"]


def test_counters_of_an_unknown_device():
    with pytest.raises(ValueError, match="no IPU device with id 99"):
        jax_ipu.counters(99)


WAITING_CALLER = """
import jax, numpy as np
x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
square = jax.jit(lambda x: x @ x, backend="ipu")
on_ipu = jax.device_put(x, jax.devices("ipu")[0])
ready = []
for _ in range(40):
    y = square(on_ipu)
    ready.append(y.is_ready())
    y.block_until_ready()
np.testing.assert_allclose(y, x @ x, rtol=1e-3, atol=1e-3)
print(any(ready))
"""


def test_a_caller_that_waits_runs_the_program_itself():
    assert output(WAITING_CALLER, JAX_IPU_DEVICE_COUNT="1").split() == ["True"]
