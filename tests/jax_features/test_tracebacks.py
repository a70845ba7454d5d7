"""Tracebacks of what users call: without frames of the package, as JAX_TRACEBACK_FILTERING says for JAX's own."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jax_ipu
from jax_ipu import GraphCoreManager, tile

PACKAGE = str(Path(jax_ipu.__file__).parent)
LARGE = 40_000
ipu = jax.devices("ipu")[0]


def too_large(scale):
    """Its result alone is larger than the memory."""
    return scale * jnp.ones((LARGE, LARGE)) @ jnp.ones((LARGE, LARGE))


def fails(x):
    raise KeyError("a mistake of the user's")


def on_ipu(function, *args):
    with jax.default_device(ipu):
        return function(*args)


def call_back(function):
    result = jax.ShapeDtypeStruct((2,), np.float32)
    on_ipu(jax.jit(lambda x: jax.pure_callback(function, result, x)), 1.0).block_until_ready()


def execute_with_another_shape():
    with GraphCoreManager() as manager:
        manager.compile_model(lambda x: x @ x, np.ones((3, 3), np.float32))(np.ones((2, 2), np.float32))


def train_without_weights():
    with GraphCoreManager() as manager:
        manager.compile_training_step(lambda x: x, "mean_squared_error", "sgd", (np.ones(3), np.ones(3)))


def map_over_other_tiles():
    x, y = (tile.tile_put_sharded(np.ones((2, 3), np.float32), tiles) for tiles in ((0, 1), (0, 2)))
    tile.tile_map(jax.lax.add_p, x, y)


MISTAKES = {
    "jit": lambda: on_ipu(jax.jit(too_large), 1.0),
    "grad of jit": lambda: on_ipu(jax.grad(jax.jit(lambda s: (s, too_large(s))), has_aux=True), 1.0),
    "pure_callback, shape": lambda: call_back(lambda x: np.ones(3, np.float32)),
    "pure_callback, exception": lambda: call_back(fails),
    "estimate": lambda: jax_ipu.estimate(fails, 1.0),
    "estimate, target": lambda: jax_ipu.estimate(jnp.sin, 1.0, target="no chip"),
    "largest_batch": lambda: jax_ipu.largest_batch(fails, np.ones((2, 2))),
    "report": lambda: jax_ipu.report(fails, 1.0),
    "report, option": lambda: jax_ipu.report(jnp.sin, 1.0, compiler_options={"ipu_no_option": 1}),
    "debug.profile": lambda: jax_ipu.debug.profile(fails, 1.0),
    "debug.tile_map": lambda: jax_ipu.debug.tile_map(fails, 1.0),
    "GraphCoreManager": lambda: GraphCoreManager(num_ipus=0),
    "GraphCoreManager.compile_model": lambda: GraphCoreManager().compile_model(lambda: too_large(1.0), ()),
    "GraphCoreManager.compile_model, kind": lambda: GraphCoreManager().compile_model(3, ()),
    "GraphCoreManager.load": lambda: GraphCoreManager().load("/no/such/file"),
    "GraphCoreManager.compile_training_step": train_without_weights,
    "CompiledModel": execute_with_another_shape,
    "tile_map": map_over_other_tiles,
    "tile_map in jit": lambda: jax.jit(map_over_other_tiles)(),
    "tile_put_sharded": lambda: tile.tile_put_sharded(np.ones((2, 3)), tiles=(0, 1, 2)),
    "tile_gather": lambda: tile.tile_gather(np.ones((2, 3)), [5], [0]),
    "create_ipu_tile_primitive": lambda: tile.create_ipu_tile_primitive("p", "P", ["x"], {"y": 1}),
}


def put_on_ipu_and_cpu():
    mesh = Mesh(np.array([ipu, jax.devices("cpu")[0]]), ("x",))
    jax.device_put(np.ones((2, 2), np.float32), NamedSharding(mesh, PartitionSpec("x")))


def deleted():
    x = jax.device_put(np.ones(3, np.float32), ipu)
    x.delete()
    return x


def lowered(function, *args):
    return on_ipu(jax.jit(function).lower, *args)


# JAX does not filter what goes through these functions: its frames are seen, those of this package are not.
MISTAKES_WITHOUT_FILTER = {
    "device_put": put_on_ipu_and_cpu,
    "block_until_ready": lambda: deleted().block_until_ready(),
    "Lowered.compile": lambda: lowered(too_large, 1.0).compile(),
    "to_dlpack": lambda: jax.device_put(np.ones(3), ipu).__dlpack__(copy=False),
    "register_ffi_target": lambda: jax.ffi.register_ffi_target("f", object(), platform="ipu", api_version=0),
    "link": lambda: jax_ipu.link(fails, jnp.sin)[0](1.0),
    "link, arguments": lambda: jax_ipu.link(jnp.sin, jnp.cos)[0](),
    "config, name": lambda: setattr(jax_ipu.config, "model_versoin", "bow"),
    "config, value": lambda: setattr(jax_ipu.config, "model_version", "bowl"),
    "config, reading": lambda: jax_ipu.config.model_versoin,
    "package": lambda: jax_ipu.estimat,
    "counters": lambda: jax_ipu.counters(jax.devices("cpu")[0]),
    "trace": lambda: jax_ipu.trace("trace.txt"),
}


@pytest.fixture(params=["off", "tracebackhide", "remove_frames", "quiet_remove_frames"])
def mode(request):
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", request.param)
    yield request.param
    jax.config.update("jax_traceback_filtering", before)


def is_of_package(frame):
    return frame.f_code.co_filename.startswith(PACKAGE)


@pytest.mark.parametrize("name", MISTAKES)
def test_frames_of_the_package_are_shown_as_those_of_jax(name, mode):
    with pytest.raises(Exception) as caught:
        MISTAKES[name]()
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert frames[0].f_code.co_filename == __file__
    own = [frame for frame in frames if is_of_package(frame)]
    cause = caught.value.__cause__
    if mode == "off":
        assert own or "callback" in name
    elif mode == "tracebackhide":
        assert all(frame.f_locals.get("__tracebackhide__") for frame in own)
    else:
        assert [frame.f_code for frame in own] == []
        # The whole traceback is in the cause, as JAX has it.
        assert (type(cause).__name__ == "UnfilteredStackTrace") == (mode == "remove_frames")


@pytest.mark.parametrize("name", MISTAKES_WITHOUT_FILTER)
def test_frames_of_the_package_are_left_out_where_jax_does_not_filter(name, mode):
    with pytest.raises(Exception) as caught:
        MISTAKES_WITHOUT_FILTER[name]()
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert frames[0].f_code.co_filename == __file__
    assert any(map(is_of_package, frames)) == (mode == "off")


def test_variables_that_are_not_valid_hide_the_package_without_jax():
    code = "import jax_ipu, traceback\ntry:\n    jax_ipu.config.host_threads\nexcept ValueError: traceback.print_exc()"
    environment = {**os.environ, "JAX_IPU_HOST_THREADS": "many"}
    for mode, seen in (("off", True), ("quiet_remove_frames", False)):
        environment["JAX_TRACEBACK_FILTERING"] = mode
        printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stderr
        assert "JAX_IPU_HOST_THREADS" in printed and ("config.py" in printed) == seen
