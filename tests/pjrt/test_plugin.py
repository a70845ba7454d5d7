"""Platform selection and configuration, each in a separate process that must end with exit code 0."""

import pytest

from support.processes import output, run


@pytest.mark.parametrize(
    ("environment", "default"),
    [
        ({}, "cpu"),
        ({"JAX_PLATFORM_NAME": "ipu"}, "ipu"),
        ({"JAX_PLATFORM_NAME": "cpu"}, "cpu"),
        ({"JAX_PLATFORMS": "ipu,cpu"}, "ipu"),
        ({"JAX_PLATFORMS": "cpu,ipu"}, "cpu"),
    ],
)
def test_default_platform(environment, default):
    code = """
import jax, jax.numpy as jnp
x = jnp.arange(4.0) + 1
print(next(iter(x.devices())).platform, x.sum(), jax.devices("ipu")[0].platform, jax.devices("cpu")[0].platform)
"""
    assert output(code, **environment).split() == [default, "10.0", "ipu", "cpu"]


def test_no_warning_is_printed():
    result = run("import jax; jax.jit(lambda x: x + 1, backend='ipu', donate_argnums=0)(1.0).block_until_ready()")
    assert (result.returncode, result.stderr) == (0, "")


def test_lowerings_of_users():
    code = """
    import functools, jax
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    jax.devices("ipu")
    same = Primitive("same")
    same.def_abstract_eval(lambda x: x)
    mlir.register_lowering(prim=same, rule=functools.partial(lambda context, x: [x]))
    print(jax.jit(same.bind, backend="ipu")(1.0))
    mlir.register_lowering(same, None)
    """
    assert output(code) == "1.0\n"


def test_options_of_the_model():
    code = """
import jax
devices = jax.devices("ipu")
d = devices[-1]
print(len(devices), d.version, d.num_tiles, d.bytes_per_tile, round(d.tile_clock_frequency / 1e6), bool(d.is_ipu_model))
print(jax.jit(lambda x: x * 2, device=d)(21))
"""
    environment = {
        "JAX_IPU_MODEL_VERSION": "bow",
        "JAX_IPU_MODEL_NUM_TILES": "16",
        "JAX_IPU_DEVICE_COUNT": "3",
        "JAX_IPU_MODEL_EXECUTION": "tile",
    }
    assert output(code, **environment).split() == ["3", "bow", "16", "638976", "1850", "True", "42"]


def test_options_as_attributes():
    code = """
import jax, jax_ipu
jax_ipu.config.model_version = "ipu1"
jax_ipu.config.visible_devices = (0, 1)
print(jax.devices("ipu")[0].num_tiles, len(jax.devices("ipu")))
try:
    jax_ipu.config.model_version = "bow"
except RuntimeError as e:
    print("refused")
"""
    assert output(code).split() == ["1216", "2", "refused"]


def test_bad_value_is_a_clear_error():
    result = run("import jax; jax.devices('ipu')", JAX_IPU_MODEL_VERSION="ipu9")
    assert result.returncode != 0
    assert "JAX_IPU_MODEL_VERSION='ipu9' is not valid. Give one of ipu1, ipu2, ipu21, bow" in result.stderr


def test_hardware_is_refused_without_the_sdk():
    result = run("import jax; jax.devices('ipu')", JAX_IPU_USE_MODEL="false")
    assert result.returncode != 0 and "Poplar SDK" in result.stderr


SEQUENCES = {
    "jit only": "jax.jit(lambda x: x + 1, backend='ipu')(x)",
    "unread result": "y = jax.jit(lambda x: (x @ x).sum(), backend='ipu')(np.ones((500, 500), np.float32))",
    "device_put only": "y = jax.device_put(x, ipu)",
    "copies": "y = jax.device_put(jax.device_put(jax.device_put(x, ipu), cpu), ipu); np.asarray(y)",
    "delete": "y = jax.device_put(x, ipu); y.delete(); z = f(x); z.delete()",
    "delete function": "f(x); del f; import gc; gc.collect()",
    "clear caches": "f(x); jax.clear_caches(); f(x)",
    "clear backends": "f(x); jax.clear_caches(); jax.extend.backend.clear_backends()",
    "donate and leave": (
        "g = jax.jit(lambda s: s * 2, backend='ipu', donate_argnums=0); s = g(g(jax.device_put(x, ipu)))"
    ),
    "exit from thread": "import threading; t = threading.Thread(target=lambda: f(x)); t.start(); t.join()",
    "many threads": (
        "import threading; ts = [threading.Thread(target=lambda i=i: jax.jit(lambda x: x * i, backend='ipu')(x)) "
        "for i in range(8)]; [t.start() for t in ts]; [t.join() for t in ts]"
    ),
    "daemon thread still running": (
        # A thread that still traces its first call would abort in jaxlib, on every platform.
        "import itertools, threading; called = threading.Event()\n"
        "loop = lambda: [(f(x), called.set()) for _ in itertools.repeat(None)]\n"
        "threading.Thread(target=loop, daemon=True).start(); called.wait()"
    ),
    "sys.exit in the middle": "y = f(x); import sys; sys.exit(0)",
    "failed compile": ("try: jax.jit(lambda x: jax.lax.psum(x, 'i'), backend='ipu')(x)\nexcept Exception: pass\nf(x)"),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_exit_code(name):
    head = """
import jax, jax.numpy as jnp, numpy as np, jax.extend
ipu, cpu = jax.devices('ipu')[0], jax.devices('cpu')[0]
x = np.arange(6, dtype=np.float32)
f = jax.jit(lambda x: jnp.sin(x).sum(), backend='ipu')
"""
    result = run(head + SEQUENCES[name])
    assert result.returncode == 0, (result.returncode, result.stderr[-3000:])
