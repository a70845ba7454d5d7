"""Callbacks from programs to Python, through every API and with every kind of failure."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, io_callback, serialize_executable
from jax.experimental.buffer_callback import ExecutionStage, buffer_callback

import jax_ipu
from support.processes import output

F32_3 = jax.ShapeDtypeStruct((3,), jnp.float32)


def ipu(x):
    return jax.device_put(x, jax.devices("ipu")[0])


class TestPureCallback:
    def test_value(self):
        x = np.arange(3, dtype=np.float32)
        y = jax.jit(lambda x: 1 + jax.pure_callback(np.sin, F32_3, 2 * x))(ipu(x))
        np.testing.assert_allclose(y, 1 + np.sin(2 * x), rtol=1e-6)

    @pytest.mark.parametrize("dtype", ["bool", "int4", "int8", "uint16", "bfloat16", "float16", "complex64"])
    def test_dtypes_and_several_results(self, dtype):
        x = jnp.arange(6).reshape(2, 3).astype(dtype)
        shapes = (jax.ShapeDtypeStruct((3, 2), x.dtype), jax.ShapeDtypeStruct((), x.dtype))
        a, b = jax.jit(lambda x: jax.pure_callback(lambda x: (np.asarray(x).T, x[1, 2]), shapes, x))(ipu(x))
        np.testing.assert_array_equal(np.asarray(a), np.asarray(x).T)
        np.testing.assert_array_equal(np.asarray(b), np.asarray(x)[1, 2])

    def test_no_operands_and_no_elements(self):
        empty = jax.ShapeDtypeStruct((0, 2), jnp.float32)
        a, b = jax.jit(
            lambda x: jax.pure_callback(lambda x: (np.zeros((0, 2), np.float32), np.float32(x.size)), (empty, F32_0), x)
        )(ipu(np.zeros((4, 0), np.float32)))
        assert a.shape == (0, 2) and b == 0
        c = jax.jit(lambda x: x + jax.pure_callback(lambda: np.float32(7), F32_0))(ipu(np.float32(1)))
        assert c == 8

    @pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
    def test_vmap(self, method):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)

        def one(x):
            return jax.pure_callback(lambda v: np.cos(v), F32_3, x, vmap_method=method)

        np.testing.assert_allclose(jax.jit(jax.vmap(one))(ipu(x)), np.cos(x), rtol=1e-6)

    @pytest.mark.parametrize("promotion", ["strict", "standard"])
    def test_sees_the_settings_it_was_traced_under(self, promotion):
        seen = []

        def cosine(x):
            seen.append(jax.config.jax_numpy_dtype_promotion)
            return np.cos(x)

        x = ipu(np.zeros(3, np.float32))
        with jax.numpy_dtype_promotion(promotion):
            program = jax.jit(lambda x: jax.pure_callback(cosine, F32_3, x)).lower(x).compile()
        np.testing.assert_array_equal(program(x), 1)
        assert seen == [promotion]

    def test_double_precision_for_the_caller_only(self):
        with jax.enable_x64(True):
            y = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(jnp.asarray(x) / 3), x, x))(ipu(np.ones(2)))
        assert y.dtype == np.float64
        np.testing.assert_array_equal(y, np.ones(2) / 3)

    def test_grad_through_custom_vjp(self):
        @jax.custom_vjp
        def sine(x):
            return jax.pure_callback(np.sin, F32_3, x)

        sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * jax.pure_callback(np.cos, F32_3, x),))
        x = np.arange(3, dtype=np.float32)
        np.testing.assert_allclose(jax.jit(jax.grad(lambda x: sine(x).sum()))(ipu(x)), np.cos(x), rtol=1e-6)

    def test_in_scan_cond_and_while(self):
        def host_double(x):
            return jax.pure_callback(lambda v: 2 * v, F32_3, x)

        def f(x):
            x, ys = jax.lax.scan(lambda c, _: (host_double(c), c.sum()), x, None, length=3)
            x = jax.lax.cond(x[1] > 4, host_double, lambda v: v, x)
            x = jax.lax.while_loop(lambda c: c[2] < 100, host_double, x)
            return x, ys

        x = np.arange(3, dtype=np.float32)
        got, sums = jax.jit(f)(ipu(x))
        np.testing.assert_array_equal(got, x * 64)
        np.testing.assert_array_equal(sums, [3, 6, 12])

    def test_device_executes_vertex_by_vertex(self):
        printed = output(
            """
            import jax, numpy as np
            x = jax.device_put(np.arange(5, dtype=np.float32), jax.devices("ipu")[0])
            f = lambda c: jax.pure_callback(lambda v: 3 * v, jax.ShapeDtypeStruct((5,), np.float32), c) + 1
            print(jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda i, c: f(c), x))(x).tolist())
            """,
            JAX_IPU_MODEL_EXECUTION="tile",
        )
        assert printed.split("\n")[0] == "[4.0, 13.0, 22.0, 31.0, 40.0]"

    def test_unused_result_is_not_computed(self):
        calls = []
        jax.jit(lambda x: (jax.pure_callback(lambda v: calls.append(1) or v, F32_3, x), x + 1)[1])(
            ipu(np.ones(3, np.float32))
        ).block_until_ready()
        assert not calls

    def test_denormals_are_kept_for_the_function(self):
        tiny = np.float32(1e-40)
        y = jax.jit(lambda x: jax.pure_callback(lambda v: np.float32(tiny * np.float32(1e10)), F32_0, x))(ipu(tiny))
        np.testing.assert_allclose(y, 1e-30, rtol=1e-4)


F32_0 = jax.ShapeDtypeStruct((), jnp.float32)


class TestEffects:
    def test_ordered_across_loops_and_calls(self):
        log = []

        @jax.jit
        def f(x):
            def body(i, c):
                io_callback(lambda i, c: log.append((int(i), float(c))), None, i, c, ordered=True)
                return c + 1

            return jax.lax.fori_loop(0, 3, body, x)

        x = ipu(np.float32(10))
        for _ in range(3):
            x = f(x)
        jax.effects_barrier()
        assert log == [(i % 3, 10.0 + i) for i in range(9)]

    def test_unordered_effect_in_loop_without_results(self):
        seen = set()

        @jax.jit
        def f(x):
            def body(i, c):
                jax.debug.callback(lambda i, c: seen.add((int(i), float(c))), i, 2.0 * c)
                return c + 1

            jax.lax.fori_loop(0, 3, body, x)
            jax.lax.while_loop(lambda c: c < 12, lambda c: body(9, c), x)
            jax.lax.cond(x > 0, lambda: jax.debug.callback(lambda: seen.add("yes")), lambda: None)
            return x

        f(ipu(np.float32(10))).block_until_ready()
        jax.effects_barrier()
        assert seen == {(0, 20.0), (1, 22.0), (2, 24.0), (9, 20.0), (9, 22.0), "yes"}

    def test_io_callback_result(self):
        state = [0]

        def tick(n):
            state[0] += int(n)
            return np.int32(state[0])

        def f(n):
            a = io_callback(tick, jax.ShapeDtypeStruct((), jnp.int32), n, ordered=True)
            b = io_callback(tick, jax.ShapeDtypeStruct((), jnp.int32), n, ordered=True)
            return a, b

        assert tuple(map(int, jax.jit(f)(ipu(np.int32(3))))) == (3, 6)

    @pytest.mark.parametrize("ordered", [False, True])
    def test_debug_print(self, capfd, ordered):
        def f(x):
            jax.debug.print("x = {x} of {n}", x=x, n=2, ordered=ordered)
            return jax.vmap(lambda v: (jax.debug.print("v = {}", v, ordered=False), v)[1])(x)

        jax.jit(f)(ipu(np.arange(2, dtype=np.int32)))
        jax.effects_barrier()
        assert sorted(capfd.readouterr().out.splitlines()) == ["v = 0", "v = 1", "x = [0 1] of 2"]

    def test_eager(self, capfd):
        with jax.default_device(jax.devices("ipu")[0]):
            jax.debug.print("eager {}", jnp.float32(1.5))
            assert float(jax.pure_callback(np.exp, F32_0, jnp.float32(0))) == 1
        jax.effects_barrier()
        assert capfd.readouterr().out == "eager 1.5\n"

    def test_checkify(self):
        checked = checkify.checkify(lambda x, i: jnp.log(x)[i], errors=checkify.all_checks)
        error, _ = jax.jit(checked)(ipu(np.ones(3, np.float32)), ipu(np.int32(5)))
        assert "out-of-bounds" in error.get()
        error, value = jax.jit(checked)(ipu(np.ones(3, np.float32)), ipu(np.int32(1)))
        assert error.get() is None and value == 0

    def test_host_link_bytes(self):
        f = jax.jit(lambda x: jax.pure_callback(lambda v: np.float32(v.sum()), F32_0, x + 1))
        x = ipu(np.ones(100, np.float32))
        f(x).block_until_ready()
        before = jax_ipu.counters()
        f(x).block_until_ready()
        after = jax_ipu.counters()
        # Expected bytes: the callback's result to the device; the callback's argument and the program's result to the
        # host.
        assert after.h2d_bytes - before.h2d_bytes == 4  # only the callback's result: the argument is on the device
        assert after.d2h_bytes - before.d2h_bytes == 400 + 4


class TestBufferCallback:
    def test_results_are_written_in_place_by_an_operation_on_the_operands(self):
        seen = []

        def callback(context, out, x, *, offset):
            seen.append((context.stage, x.shape, x.dtype, x.ndim, x.writeable, out["sum"].writeable))
            np.asarray(out["sum"])[...] = np.asarray(x) + np.from_dlpack(offset)
            np.asarray(out["count"])[...] = np.asarray(x).size

        shapes = {"sum": jax.ShapeDtypeStruct((2, 3), jnp.int32), "count": jax.ShapeDtypeStruct((), jnp.int8)}
        f = buffer_callback(callback, shapes)
        x = np.arange(6, dtype=np.int32).reshape(2, 3)
        out = jax.jit(lambda x: f(2 * x, offset=x[0]))(ipu(x))
        np.testing.assert_array_equal(out["sum"], 2 * x + x[0])
        assert out["count"] == 6
        assert seen == [(ExecutionStage.EXECUTE, (2, 3), np.dtype(np.int32), 2, False, True)]

    def test_an_aliased_result_starts_as_its_operand(self):
        def callback(context, out, x, y):
            assert np.asarray(out).ctypes.data == np.asarray(y).ctypes.data
            np.asarray(out)[0] += np.asarray(x)

        f = buffer_callback(callback, F32_3, input_output_aliases={1: 0})
        y = np.arange(3, dtype=np.float32)
        np.testing.assert_array_equal(jax.jit(f)(ipu(np.float32(5)), y), [5, 1, 2])

    def test_no_operands_and_no_elements(self):
        called = []
        f = buffer_callback(lambda *_: called.append(1), jax.ShapeDtypeStruct((0, 2), jnp.float32))
        g = buffer_callback(lambda *_: called.append(2), (), has_side_effect=True)
        with jax.default_device(jax.devices("ipu")[0]):
            jax.jit(g)()
            assert f().block_until_ready().shape == (0, 2)
        assert called == [2, 1]

    @pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
    def test_vmap(self, method):
        def callback(context, out, x):
            np.asarray(out)[...] = np.cos(np.asarray(x))

        f = buffer_callback(callback, F32_3, vmap_method=method)
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.testing.assert_allclose(jax.jit(jax.vmap(f))(ipu(x)), np.cos(x), rtol=1e-6)

    @pytest.mark.parametrize(
        ("callback", "message"),
        [
            (lambda context, out, x: context.stream, "an IPU has no stream"),
            (lambda context, out, x: np.asarray(x).fill(1), "read-only"),
            (lambda context, out, x: 1, "must not return any values"),
        ],
    )
    def test_errors_reach_the_user(self, callback, message):
        f = jax.jit(buffer_callback(callback, F32_3))
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            f(ipu(np.ones(3, np.float32)))


class TestFailure:
    def test_exception_reaches_the_user_with_its_traceback(self):
        def fail(x):
            raise ValueError("the cause")

        f = jax.jit(lambda x: jax.pure_callback(fail, F32_3, x))
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)host callback.*in fail.*ValueError: the cause"):
            f(ipu(np.ones(3, np.float32)))
        # The device still works.
        assert float(jax.jit(jnp.sum)(ipu(np.ones(3, np.float32)))) == 3

    @pytest.mark.parametrize(
        "effect",
        [
            lambda fail, x: jax.experimental.io_callback(fail, None, x),
            lambda fail, x: jax.experimental.io_callback(fail, None, x, ordered=True),
            lambda fail, x: jax.debug.callback(fail, x),
        ],
        ids=["unordered", "ordered", "debug"],
    )
    def test_exception_of_an_effect_is_raised_by_the_call_and_by_nothing_later(self, effect):
        def fail(x):
            raise ValueError("the cause")

        def f(x):
            effect(fail, x)
            return x + 1

        with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: the cause"):
            jax.jit(f)(ipu(np.ones(3, np.float32)))
        jax.effects_barrier()

    def test_exception_of_one_of_several_ipus(self):
        def fail(x):
            if x.sum() == 1:
                raise ValueError("the cause")

        def f(x):
            jax.debug.callback(fail, x)
            return x + 1

        f = jax.pmap(f, devices=jax.devices("ipu")[:2])
        with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: the cause"):
            f(np.arange(2, dtype=np.float32)[:, None])
        jax.effects_barrier()

    @pytest.mark.parametrize(
        ("value", "message"), [(np.zeros(4, np.float32), "output shape"), (np.zeros(3, np.int32), "output dtype")]
    )
    def test_wrong_result(self, value, message):
        f = jax.jit(lambda x: jax.pure_callback(lambda v: value, F32_3, x))
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            f(ipu(np.ones(3, np.float32)))

    def test_donated_state_is_gone_after_a_failure(self):
        def fail(x):
            raise ValueError("the cause")

        x = ipu(np.ones(3, np.float32))
        f = jax.jit(lambda x: jax.pure_callback(fail, F32_3, x), donate_argnums=0)
        with pytest.raises(jax.errors.JaxRuntimeError, match="the cause"):
            f(x)
        assert x.is_deleted()

    def test_programs_on_the_same_ipu_are_refused_inside(self):
        device = jax.devices("ipu")[0]

        def nested(v):
            return np.asarray(jax.jit(lambda x: x + 1)(jax.device_put(np.asarray(v), device)))

        f = jax.jit(lambda x: jax.pure_callback(nested, F32_3, x))
        with pytest.raises(jax.errors.JaxRuntimeError, match="uses the IPU whose program waits for it"):
            f(ipu(np.ones(3, np.float32)))

    def test_jit_on_the_cpu_works_inside(self):
        def nested(v):
            return jax.jit(lambda x: jnp.cumsum(x) * 2)(v)

        y = jax.jit(lambda x: jax.pure_callback(nested, F32_3, x))(ipu(np.ones(3, np.float32)))
        np.testing.assert_array_equal(y, [2, 4, 6])

    def test_programs_cannot_be_stored(self):
        compiled = jax.jit(lambda x: jax.pure_callback(np.sin, F32_3, x)).lower(ipu(np.ones(3, np.float32))).compile()
        with pytest.raises(TypeError, match=r"a program with callbacks .* cannot be stored"):
            serialize_executable.serialize(compiled)

    def test_executables_are_refused_in_another_process(self, tmp_path):
        compiled = jax.jit(lambda x: jax.pure_callback(np.sin, F32_3, x)).lower(ipu(np.ones(3, np.float32))).compile()
        executable = compiled.runtime_executable()
        (tmp_path / "executable").write_bytes(executable.client.serialize_executable(executable))
        printed = output(
            f"""
            import jax
            from jax._src.lib import xla_client
            data = open({str(tmp_path / "executable")!r}, "rb").read()
            devices = jax.devices("ipu")[:1]
            try:
                devices[0].client.deserialize_executable(data, xla_client.DeviceList(tuple(devices)), None)
            except jax.errors.JaxRuntimeError as error:
                print(error)
            """
        )
        assert "was compiled in another process" in printed


class TestLifetime:
    def test_function_dies_with_its_program(self):
        class Function:
            def __call__(self, v):
                return v

        function = Function()
        reference = weakref.ref(function)
        f = jax.jit(lambda x: jax.pure_callback(function, F32_3, x))
        compiled = f.lower(ipu(np.ones(3, np.float32))).compile()
        f = function = None
        jax.clear_caches()
        gc.collect()
        np.testing.assert_array_equal(compiled(ipu(np.ones(3, np.float32))), np.ones(3))
        compiled = None
        jax.clear_caches()
        gc.collect()
        # The device holds the last program until the next one is loaded; the next registration then drops the function.
        for _ in range(2):
            jax.jit(lambda x: jax.pure_callback(np.sin, F32_3, x))(ipu(np.ones(3, np.float32))).block_until_ready()
        assert reference() is None

    def test_exit_with_a_pending_callback(self):
        printed = output(
            """
            import jax, numpy as np, time
            def slow(v):
                time.sleep(0.5)
                print("done", flush=True)
                return v
            x = jax.device_put(np.ones(3, np.float32), jax.devices("ipu")[0])
            y = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((3,), np.float32), x))(x)
            """
        )
        assert printed == "done\n"


def test_programs_with_callbacks_stay_out_of_the_persistent_cache(tmp_path):
    """An executable refers to its callbacks by numbers, which mean other functions in another process."""
    printed = output(
        """
        import logging, sys
        import jax, jax.numpy as jnp, numpy as np
        x = jax.device_put(np.ones(3, np.float32), jax.devices("ipu")[0])
        f = lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), jnp.float32), x)
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.WARNING)
        jax.block_until_ready((jax.jit(f)(x), jax.jit(jnp.cos)(x)))
        """,
        JAX_EXPLAIN_CACHE_MISSES="1",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    entries = [entry.name for entry in tmp_path.iterdir() if entry.name.endswith("-cache")]
    assert [name.split("-")[0] for name in entries] == ["jit_cos"]
    assert "WARNING Not writing persistent cache entry for 'jit__lambda' because it uses host callbacks" in printed
