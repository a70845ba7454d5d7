"""Steps of the examples with operations from Graphcore's PopLibs, on 64 and 1,472 tiles.

They run where JAX_IPU_POPLIBS_TEST_FOLDER is a folder of tools/build_poplibs, with those of the nightly tests.
"""

import importlib
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.options import serialize_options
from support.modes import cpu_jit
from support.poplibs import FOLDER, needs_poplibs

EXAMPLES = Path(__file__).parents[2] / "examples"


def classifier(example):
    return example.update_step, example.init, 128


def cnn(example):
    return partial(example.update_step, 0), partial(example.init, image_shape=(28, 28, 1)), 32


@pytest.mark.nightly
@needs_poplibs
@pytest.mark.parametrize("tiles", [64, 1472])
@pytest.mark.parametrize(("name", "parts"), [("mnist_classifier", classifier), ("mnist_cnn", cnn)])
def test_a_step_has_the_values_of_the_cpu(name, parts, tiles, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "mnist")
    step, init, batch = parts(importlib.import_module(name))
    rng = np.random.default_rng(0)
    images = rng.random((batch, 28, 28, 1), np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    state = jax.tree.map(np.asarray, cpu_jit(init)(jax.random.PRNGKey(0)))
    arguments = (np.int32(3), state, (images, labels))
    check(step, arguments, tiles, donated=1)


@pytest.mark.nightly
@needs_poplibs
def test_gpt_has_the_values_of_the_cpu(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "gpt")
    model = importlib.import_module("model")
    config = model.Config(vocabulary=96, positions=32, width=64, layers=2, heads=4)
    params = model.init(0, config)
    tokens = np.random.default_rng(0).integers(0, config.vocabulary, (8, config.positions + 1)).astype(np.int32)
    check(jax.value_and_grad(partial(model.loss, config=config)), (params, tokens), 64)
    cache = jax.tree.map(np.asarray, model.empty_cache(1, config))
    letter = (params, cache, np.array([3], np.int32), np.int32(2))
    check(partial(model.decode, config=config), letter, 64)


def check(fun, arguments, tiles, donated=()):
    lowered = jax.jit(fun, donate_argnums=donated).trace(*arguments).lower(lowering_platforms=("ipu",))
    program = str(lowered.compiler_ir("stablehlo")).encode()
    executable = compiler.compile(program, "mlir", serialize_options({"ipu_poplibs": FOLDER}), f"ipu2:{tiles}")
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    flat = jax.tree.leaves(arguments)
    made = _ipu.run(executable, [np.asarray(flat[i]).tobytes() for i in kept], "fast")
    for result, expected in zip(made, jax.tree.leaves(cpu_jit(fun)(*arguments)), strict=True):
        wanted = np.asarray(expected)
        np.testing.assert_allclose(np.frombuffer(result, wanted.dtype), wanted.ravel(), rtol=1e-4, atol=1e-6)
