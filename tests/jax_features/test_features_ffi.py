"""Foreign functions (jax.ffi), whose handlers run on the host. The library of handlers is compiled here."""

import ctypes
import shutil
import subprocess
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import ffi
from jax.experimental import serialize_executable
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from support.devices import compare
from support.modes import array, each_mode, run_ipu

SOURCE = Path(__file__).parents[1] / "support" / "ffi_handlers.cc"
HANDLERS = ("Reverse", "Attributes", "RowSums", "Increment", "Note", "Fail", "Later")
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="compiles a library of handlers with c++")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library, with its handlers registered as test_NAME on ipu and on the CPU."""
    path = tmp_path_factory.mktemp("ffi") / "handlers.so"
    command = [COMPILER, "-std=c++17", "-O0", "-w", "-shared", "-fPIC", f"-I{ffi.include_dir()}"]
    subprocess.run([*command, str(SOURCE), "-o", str(path)], check=True)
    loaded = ctypes.CDLL(str(path))
    for name in HANDLERS:
        for platform in ("ipu", "cpu"):
            ffi.register_ffi_target(f"test_{name}", ffi.pycapsule(getattr(loaded, name)), platform=platform)
    ffi.register_ffi_target("test_ContextOf", ffi.pycapsule(loaded.ContextOf), platform="ipu")
    for function in (loaded.CounterId, loaded.CounterInfo):
        function.restype = ctypes.c_void_p
    functions = {"type_id": loaded.CounterId, "type_info": loaded.CounterInfo}
    types = {key: ffi.pycapsule(ctypes.c_void_p(function())) for key, function in functions.items()}
    ffi.register_ffi_type("test_Counter", types, platform="ipu")
    stages = {"instantiate": ffi.pycapsule(loaded.CounterNew), "execute": ffi.pycapsule(loaded.Count)}
    ffi.register_ffi_target("test_Count", stages, platform="ipu")
    return loaded


def call(name, *args, like=None, **options):
    """Calls test_NAME; the result has the type of `like`, by default of the first argument."""
    attributes = options.pop("attributes", {})
    like = args[0] if like is None else like
    result = jax.ShapeDtypeStruct(jnp.shape(like), jnp.result_type(like))
    return ffi.ffi_call(f"test_{name}", result, **options)(*args, **attributes)


def on_ipu(function, *args):
    device = jax.devices("ipu")[0]
    return jax.jit(function)(*(jax.device_put(a, device) for a in args))


def same(function, *args):
    """Checks equality with the CPU to the last bit: the same handler computes both."""
    expected = jax.jit(function, backend="cpu")(*args)
    for a, e in zip(jax.tree.leaves(on_ipu(function, *args)), jax.tree.leaves(expected), strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape and {d.platform for d in a.devices()} == {"ipu"}
        np.testing.assert_array_equal(np.asarray(a), np.asarray(e))


class TestBuffers:
    @each_mode
    def test_value_between_device_operations(self, library, mode):
        x = array(5, 7)
        (y,) = run_ipu(lambda x: 1 + call("Reverse", 2 * x), (x,), mode)
        np.testing.assert_array_equal(y, 1 + (2 * x).reshape(-1)[::-1].reshape(5, 7))

    @pytest.mark.parametrize(
        "dtype",
        "bool int4 uint4 int8 uint8 int16 uint16 int32 uint32 float8_e4m3fn float8_e5m2 float8_e8m0fnu float4_e2m1fn "
        "float16 bfloat16 float32 complex64".split(),
    )
    def test_dtypes(self, library, dtype):
        """Elements of less than a byte take one byte each, as in the interface's header; XLA:CPU packs them."""
        x = np.asarray(jnp.arange(1, 7).reshape(2, 3).astype(dtype))
        y = np.asarray(on_ipu(partial(call, "Reverse"), x))
        assert y.dtype == x.dtype
        assert y.tobytes() == x.reshape(-1)[::-1].tobytes()

    @pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
    def test_wide_dtypes(self, library, dtype):
        with jax.enable_x64(True):
            same(partial(call, "Reverse"), np.arange(5).astype(dtype) * 3)

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 1, 2, 1, 2)])
    def test_shapes(self, library, shape):
        same(partial(call, "Reverse"), array(*shape))

    def test_several_calls_in_a_loop(self, library):
        def function(x):
            return jax.lax.fori_loop(0, 3, lambda _, y: call("Reverse", y) + call("Reverse", call("Reverse", y)), x)

        same(function, np.arange(4, dtype=np.float32))

    @pytest.mark.parametrize("layout", [(0, 1), (1, 0)])
    def test_layouts(self, library, layout):
        """The handler adds up rows: as many consecutive elements as the last dimension has."""

        def function(x):
            return call("RowSums", x, like=x[:, 0], input_layouts=[layout])

        same(function, array(3, 5))

    def test_layout_of_a_result(self, library):
        same(lambda x: call("Reverse", x, input_layouts=[(0, 1)], output_layouts=(1, 0)), array(3, 5))

    def test_alias(self, library):
        same(lambda x: (call("Increment", x, input_output_aliases={0: 0}), x), array(2, 3))

    def test_without_an_alias_the_memory_differs(self, library):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"INTERNAL: not in place.*'test_Increment'"):
            on_ipu(partial(call, "Increment"), array(3))


ATTRIBUTES = {
    "scale": np.float32(1.5),
    "offsets": np.array([1, 2, 3]),
    "text": "twice",
    "flag": True,
    "pair": {"a": 0.25, "b": np.int64(-3)},
    "sign": np.int32(-1),
}


class TestAttributes:
    def test_all_kinds(self, library):
        same(partial(call, "Attributes", attributes=ATTRIBUTES), array(6))
        y = on_ipu(partial(call, "Attributes", attributes=ATTRIBUTES), np.float32([2]))
        np.testing.assert_array_equal(y, [-2 * (1.5 * 2 + 6 + 0.25 - 3)])

    @pytest.mark.parametrize(
        "change, message",
        [
            ({"scale": 1.5}, "Wrong scalar data type"),
            ({"other": 1}, "Wrong number of attributes"),
            ({"sign": np.complex64([1])}, "the attribute 'sign' is an array of complex numbers"),
            ({"sign": (1, 2)}, "the attribute 'sign' is"),
        ],
    )
    def test_wrong(self, library, change, message):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message):
            on_ipu(partial(call, "Attributes", attributes=ATTRIBUTES | change), array(6))


class TestTransformations:
    @pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
    def test_vmap(self, library, method):
        def function(x):
            return call("RowSums", x, like=x[:, 0], vmap_method=method)

        same(jax.vmap(function), array(4, 3, 5))

    def test_gradient(self, library):
        @jax.custom_vjp
        def reverse(x):
            return call("Reverse", x)

        reverse.defvjp(lambda x: (reverse(x), None), lambda _, g: (call("Reverse", g),))
        same(jax.grad(lambda x: jnp.sum(reverse(x) ** 2 * jnp.arange(4.0))), array(4))

    def test_differentiation_is_refused_in_jax_words(self, library):
        with pytest.raises(ValueError, match="cannot be differentiated"):
            on_ipu(jax.grad(lambda x: call("Reverse", x).sum()), array(4))

    def test_shard_map(self, library):
        def build(devices):
            mesh = Mesh(np.array(devices), ("i",))
            return jax.jit(jax.shard_map(partial(call, "Reverse"), mesh=mesh, in_specs=P("i"), out_specs=P("i")))

        compare(build, array(8, 3))

    def test_partitioned_program(self, library):
        """XLA does not know how to partition the call: every IPU calls it with the whole array."""

        def build(devices):
            sharding = NamedSharding(Mesh(np.array(devices), ("i",)), P("i"))
            return lambda x: jax.jit(lambda x: call("Reverse", x + 1))(jax.device_put(x, sharding))

        compare(build, array(8, 3))


class TestExecution:
    def test_side_effect_without_results(self, library):
        def function(x):
            ffi.ffi_call("test_Note", (), has_side_effect=True)(x)
            return x + 1

        before = library.NumCalls()
        on_ipu(function, np.float32([5]))
        assert library.NumCalls() == before + 5

    def test_unused_result_without_side_effect(self, library):
        before = library.NumCalls()
        on_ipu(lambda x: (ffi.ffi_call("test_Note", ())(x), x + 1)[1], np.float32([5]))
        assert library.NumCalls() == before

    def test_traffic(self, library):
        device = jax.devices("ipu")[0]
        function = jax.jit(lambda x: call("Reverse", x).sum() * 0 + 1)
        x = jax.device_put(array(100), device)
        function(x)
        before = jax_ipu.counters(device)
        jax.block_until_ready(function(x))
        after = jax_ipu.counters(device)
        # The argument is in SRAM from the previous call, and the result is sent to the host.
        assert after.h2d_bytes - before.h2d_bytes == 400
        assert after.d2h_bytes - before.d2h_bytes == 400 + 4

    def test_later_result(self, library):
        function = partial(call, "Later", attributes={"fail": False})
        np.testing.assert_array_equal(on_ipu(lambda x: function(x) + 1, np.float32([1, 2])), [3, 5])
        with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL: failed later"):
            on_ipu(partial(call, "Later", attributes={"fail": True}), np.float32([1]))

    @pytest.mark.parametrize(
        "code, status", [(3, "INVALID_ARGUMENT"), (8, "RESOURCE_EXHAUSTED"), (12, "UNIMPLEMENTED"), (13, "INTERNAL")]
    )
    def test_error(self, library, code, status):
        message = r"refused 7.*the foreign function 'test_Fail' at test_features_ffi.py:\d+"
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message) as raised:
            on_ipu(partial(call, "Fail", attributes={"code": np.int32(code)}), np.float32([7]))
        assert status in str(raised.value)
        # The device still works.
        np.testing.assert_array_equal(on_ipu(partial(call, "Reverse"), np.float32([1, 2])), [2, 1])

    def test_exception(self, library):
        with pytest.raises(jax.errors.JaxRuntimeError, match="thrown by the handler"):
            on_ipu(partial(call, "Fail", attributes={"code": np.int32(100)}), np.float32([7]))

    def test_context(self, library):
        device = jax.devices("ipu")[3]
        function = jax.jit(lambda x: call("ContextOf", x, like=jnp.zeros(3)))
        x = jax.device_put(np.arange(5, dtype=np.float32), device)
        ids = []
        for _ in range(2):
            ordinal, run, total = np.asarray(function(x))
            assert ordinal == device.local_hardware_id and total == 10
            ids.append(run)
        assert ids[0] != ids[1]


class TestState:
    def test_each_place_has_its_own(self, library):
        def function(x):
            counts = [call("Count", x, attributes={"start": np.int32(start)}) for start in (0, 100)]
            return jnp.concatenate(counts)

        compiled = jax.jit(function).lower(jax.device_put(np.float32([0]), jax.devices("ipu")[0])).compile()
        assert library.NumStates() == 2
        x = jax.device_put(np.float32([1000]), jax.devices("ipu")[0])
        results = [np.asarray(compiled(x)).tolist() for _ in range(2)]
        assert results == [[1000, 1100], [1001, 1101]]
        del compiled
        jax.clear_caches()
        # The device keeps the loaded program until it loads another one.
        jax.block_until_ready(on_ipu(lambda x: x + 1, x))
        assert library.NumStates() == 0

    def test_error_while_loading(self, library):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"INVALID_ARGUMENT: a negative start.*'test_Count'"):
            on_ipu(partial(call, "Count", attributes={"start": np.int32(-1)}), np.float32([0]))


class TestRegistration:
    def test_unknown_name(self):
        call = r"'nowhere', \(f32\[2\]\) -> \(f32\[2\]\) at test_features_ffi.py:\d+"
        message = rf"UNIMPLEMENTED.*{call}.*jax.ffi.register_ffi_target\('nowhere'.*platform='ipu'"
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            on_ipu(lambda x: ffi.ffi_call("nowhere", jax.ShapeDtypeStruct((2,), x.dtype))(x), array(2))

    def test_again(self, library):
        ffi.register_ffi_target("test_Reverse", ffi.pycapsule(library.Reverse), platform="ipu")
        with pytest.raises(RuntimeError, match="'test_Reverse' is registered for ipu with other handlers"):
            ffi.register_ffi_target("test_Reverse", ffi.pycapsule(library.RowSums), platform="ipu")

    def test_untyped(self, library):
        with pytest.raises(NotImplementedError, match="typed handlers only"):
            ffi.register_ffi_target("test_untyped", ffi.pycapsule(library.Reverse), platform="ipu", api_version=0)

    def test_other_version(self, library):
        with pytest.raises(RuntimeError, match=r"compiled with XLA FFI 0.1.*jax.ffi.include_dir\(\)"):
            ffi.register_ffi_target("test_old", ffi.pycapsule(library.Old), platform="ipu")

    @pytest.mark.parametrize("stages", [{"instantiate": "Reverse"}, {"execute": "Reverse", "later": "Reverse"}])
    def test_wrong_stages(self, library, stages):
        capsules = {stage: ffi.pycapsule(getattr(library, name)) for stage, name in stages.items()}
        with pytest.raises(RuntimeError, match=r"no handler for 'execute'|unknown stage 'later'"):
            ffi.register_ffi_target("test_stages", capsules, platform="ipu")

    def test_stored_program(self, library):
        """A program contains the name of its handler, so it can be stored, unlike one with a Python callback."""
        x = jax.device_put(array(4), jax.devices("ipu")[0])
        compiled = jax.jit(partial(call, "Attributes", attributes=ATTRIBUTES)).lower(x).compile()
        loaded = serialize_executable.deserialize_and_load(
            *serialize_executable.serialize(compiled), backend="ipu", execution_devices=jax.devices("ipu")[:1]
        )
        np.testing.assert_array_equal(loaded(x), compiled(x))
