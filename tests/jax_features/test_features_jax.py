"""Features of JAX that need support from a platform: each works on the IPU as on the CPU."""

import functools
import glob
import gzip
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental import pallas as pl

ipu, cpu = jax.devices("ipu")[0], jax.devices("cpu")[0]


def on(device, function, *args):
    return jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, device)))


def check_as_on_cpu(function, *args, rtol=1e-5):
    for got, want in zip(
        jax.tree.leaves(on(ipu, function, *args)), jax.tree.leaves(on(cpu, function, *args)), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


VECTOR = np.linspace(-2, 2, 12, dtype=np.float32)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.vmap(f),
        lambda f: lambda x: jax.grad(lambda x: f(x).sum())(x),
        lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),)),
        lambda f: lambda x: jax.vjp(f, x)[1](jnp.ones_like(x)),
        lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum()),
        lambda f: jax.hessian(lambda x: f(x).sum()),
        lambda f: jax.linearize(f, VECTOR)[1],
        lambda f: jax.jit(jax.jit(f)),
        lambda f: lambda x: jax.lax.scan(lambda c, v: (c + f(v), c), jnp.float32(0), x),
    ],
    ids=["vmap", "grad", "jvp", "vjp", "remat", "hessian", "linearize", "jit in jit", "scan"],
)
def test_transformations(transform):
    check_as_on_cpu(transform(lambda x: jnp.sin(x) * x**2), VECTOR)


def test_custom_derivatives():
    @jax.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (cube(*p), 7 * t[0]))

    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def scale(x, n):
        return n * x

    scale.defvjp(lambda x, n: (n * x, x), lambda n, x, g: (n * g + x,))
    check_as_on_cpu(jax.grad(lambda x: (cube(x) + scale(x, 3)).sum()), VECTOR)


@pytest.mark.parametrize("function", [jax.lax.approx_max_k, jax.lax.approx_min_k])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_approximate_top_k_is_exact(function, dtype):
    x = np.random.default_rng(0).permutation(60).reshape(3, 20).astype(dtype)
    values, indices = on(ipu, lambda x: function(x, 4, reduction_dimension=1), x)
    order = np.argsort(x.astype(np.float32) * (-1 if function is jax.lax.approx_max_k else 1), 1)[:, :4]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    check_as_on_cpu(lambda x: function(x, 2, reduction_dimension=0)[0], x.astype(np.float32))


def test_pallas_in_interpret_mode():
    def kernel(x, y, out):
        out[...] = x[...] @ y[...] + pl.program_id(0)

    def f(x, y):
        return pl.pallas_call(
            kernel,
            grid=(2,),
            in_specs=[pl.BlockSpec((4, 8), lambda i: (i, 0)), pl.BlockSpec((8, 3), lambda i: (0, 0))],
            out_specs=pl.BlockSpec((4, 3), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((8, 3), jnp.float32),
            interpret=True,
        )(x, y)

    generator = np.random.default_rng(0)
    check_as_on_cpu(f, *(generator.standard_normal(s).astype(np.float32) for s in ((8, 8), (8, 3))))


def test_export_to_the_ipu_and_from_it():
    f = jax.jit(lambda x: jnp.tanh(x) @ x)
    exported = jax.export.export(f, platforms=["ipu", "cpu"])(jax.ShapeDtypeStruct((12,), jnp.float32))
    again = jax.export.deserialize(exported.serialize())
    assert set(again.platforms) == {"ipu", "cpu"}
    check_as_on_cpu(again.call, VECTOR)


def test_ahead_of_time():
    lowered = jax.jit(lambda x, n: x * n, static_argnums=1).lower(jax.device_put(VECTOR, ipu), 3)
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(jax.device_put(VECTOR, ipu)), 3 * VECTOR)
    assert compiled.cost_analysis()["flops"] == VECTOR.size
    assert compiled.memory_analysis().argument_size_in_bytes == VECTOR.nbytes
    with pytest.raises(TypeError, match="types differ"):
        compiled(jax.device_put(np.arange(12), ipu))


def test_live_arrays():
    before = len(jax.live_arrays("ipu"))
    x = jax.device_put(VECTOR, ipu)
    assert len(jax.live_arrays("ipu")) == before + 1
    x.delete()
    assert len(jax.live_arrays("ipu")) == before


def test_transfer_guard():
    x = jax.device_put(VECTOR, ipu)
    f = jax.jit(lambda x, y: x + y)
    with jax.transfer_guard_host_to_device("disallow"):
        f(x, jax.device_put(VECTOR, ipu)).block_until_ready()  # explicit transfers are allowed
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device transfer"):
            f(x, VECTOR)


READS = {"asarray": np.asarray, "str": str, "asynchronous": lambda x: x.copy_to_host_async()}


@pytest.mark.parametrize("name", READS)
def test_reads_of_results_are_transfers_to_guard(name):
    f = jax.jit(lambda x: x + 1)
    x = jax.device_put(VECTOR, ipu)
    y, z = f(x), f(x)
    with jax.transfer_guard_device_to_host("disallow"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
            READS[name](y)
        np.testing.assert_array_equal(jax.device_get(y), VECTOR + 1)  # explicit transfers are allowed
        with jax.transfer_guard_device_to_host("allow"):
            READS[name](z)
        READS[name](z)  # a second read is not a transfer


def test_guard_of_reads_for_the_process():
    y = jax.jit(lambda x: x + 1)(jax.device_put(VECTOR, ipu))
    jax.config.update("jax_transfer_guard_device_to_host", "disallow")
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
            np.asarray(y)
        with jax.transfer_guard_device_to_host("allow"):
            np.testing.assert_array_equal(y, VECTOR + 1)
    finally:
        jax.config.update("jax_transfer_guard_device_to_host", "allow")


def test_profiler_trace(tmp_path):
    x = jax.device_put(VECTOR, ipu)
    f = jax.jit(lambda x: jnp.cumsum(x) * 2)
    with jax.profiler.trace(str(tmp_path), create_perfetto_trace=True), jax.profiler.TraceAnnotation("my step"):
        f(x).block_until_ready()
    (trace,) = glob.glob(f"{tmp_path}/**/perfetto_trace.json.gz", recursive=True)
    with gzip.open(trace) as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert "my step" in names


def test_visualize(capsys):
    pytest.importorskip("rich")
    jax.debug.visualize_array_sharding(jax.device_put(np.ones((4, 4)), ipu))
    assert "IPU 0" in capsys.readouterr().out.upper()


def test_check_and_debug_nans():
    def f(x):
        checkify.debug_check(jnp.all(x > 0), "must be positive")
        return jnp.log(x)

    assert np.isnan(on(ipu, f, VECTOR)[0])
    error, _ = jax.jit(checkify.checkify(f))(jax.device_put(VECTOR, ipu))
    assert "must be positive" in error.get()
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jax.jit(jnp.log)(jax.device_put(VECTOR, ipu))


def test_unknown_custom_call_is_named():
    def f(x):
        return jax.ffi.ffi_call("not_a_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"function 'not_a_target'.*no handler is registered on ipu. Register one"
    ):
        on(ipu, f, VECTOR)


def test_eager_operations():
    with jax.default_device(ipu):
        x = jnp.arange(6.0).reshape(2, 3)
        y = jnp.where(x > 2, jnp.exp(x), -x).at[0, 1].add(3)[:, ::-1]
        assert y.devices() == {ipu}
    np.testing.assert_allclose(y, np.array([[-2, 2, 0], [np.exp(5), np.exp(4), np.exp(3)]]), rtol=1e-6)
